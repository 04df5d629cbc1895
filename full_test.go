package spec

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/chat"
)

// The tokens of a prompt are scored anew where a sequence has kept the prompt, each once and in order.
func TestPromptsAreScoredAnew(t *testing.T) {
	m := newModel(t, Options{Parallel: 1})
	var first []float32
	for range 2 {
		var scores []float32
		r := Request{MaxTokens: 1, LogProbs: true, Scored: true}
		for e, err := range m.Complete(t.Context(), strings.Repeat("func (r *Ring) Push(", 9), r) {
			if err != nil {
				t.Fatal(err)
			}
			if s := e.Scored; s != nil {
				if scores = append(scores, s.LogProb); s.Position != len(scores) {
					t.Fatalf("position %d behind %d tokens", s.Position, len(scores))
				}
			}
		}
		if first == nil {
			first = scores
		}
		if len(scores) < 40 || !slices.Equal(scores, first) {
			t.Errorf("%d scores, first %d:\n%v\n%v", len(scores), len(first), scores, first)
		}
	}
}

// The oldest turn goes with its answers; what stands before the first, and messages of the system, stay.
func TestTurnsGoWithTheirAnswers(t *testing.T) {
	var messages []chat.Message
	for _, role := range strings.Fields("system assistant user assistant system tool user assistant developer user") {
		messages = append(messages, chat.Message{Role: role})
	}
	for n, want := range []string{
		"system assistant user assistant system tool user assistant developer user",
		"system assistant system user assistant developer user", "system assistant system developer user",
	} {
		var roles []string
		for _, m := range withoutTurns(messages, n) {
			roles = append(roles, m.Role)
		}
		if got := strings.Join(roles, " "); got != want {
			t.Errorf("without %d: %s", n, got)
		}
	}
}

// A conversation that leaves no room loses the fewest turns that free half of the context, or all but the last; one
// that leaves room, or whose answer is short enough, loses none.
func TestFullContextDropsTheOldestTurns(t *testing.T) {
	m := newModel(t, Options{Context: 100})
	for turns := 1; turns < 14; turns++ {
		messages := []chat.Message{chat.System("S")}
		for i := range turns {
			messages = append(messages, chat.User(strings.Repeat("x", i%3)+"y"), chat.Assistant("z"))
		}
		messages = append(messages, chat.User("last"))
		all, err := m.Count(t.Context(), Request{Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		task, err := m.Prepare(t.Context(), Request{Messages: messages, WhenFull: FullDrop})
		if err != nil {
			t.Fatalf("%d turns: %v", turns, err)
		}
		if task.Cut() != (all > 88) || !task.Cut() && len(task.Prompt(0)) != all {
			t.Errorf("%d turns, %d tokens: cut %v, %d left", turns, all, task.Cut(), len(task.Prompt(0)))
		}
		if task.Cut() {
			n := Turns(messages) - Turns(task.r.Messages)
			more, err := m.Count(t.Context(), Request{Messages: withoutTurns(messages, n-1)})
			if err != nil || len(task.Prompt(0)) > 50 || more <= 50 {
				t.Errorf("%d turns: %d dropped, %d tokens left, %d with another, %v", turns, n, len(task.Prompt(0)), more, err)
			}
			if last := task.r.Messages; last[0].Content != "S" || last[len(last)-1].Content != "last" {
				t.Errorf("%d turns: %v", turns, last)
			}
		}
		short, err := m.Prepare(t.Context(), Request{Messages: messages, WhenFull: FullDrop, MaxTokens: 2})
		if err != nil || short.Cut() != (all > 98) {
			t.Errorf("%d turns, %d tokens: an answer of 2 tokens: %v", turns, all, err)
		}
		if _, err := m.Prepare(t.Context(), Request{Messages: messages}); err != nil != (all >= 100) {
			t.Errorf("%d turns, %d tokens: %v", turns, all, err)
		}
	}
	one := []chat.Message{chat.User(strings.Repeat("x := 1; ", 99))}
	two := []chat.Message{chat.User("x"), chat.Assistant("y"), one[0]}
	task, err := m.Prepare(t.Context(), Request{Messages: two, WhenFull: FullDrop, Truncate: 90})
	if err != nil || len(task.Prompt(0)) != 90 {
		t.Errorf("a last message that is cut to 90 tokens: %v", err)
	}
	if _, err := m.Prepare(t.Context(), Request{Messages: one, WhenFull: FullDrop}); err == nil {
		t.Error("one message that does not fit")
	}
}

// A text loses its middle: the tokens to keep stay in front, the newest behind, in half of the context.
func TestFullContextDropsTheMiddleOfAText(t *testing.T) {
	m := newModel(t, Options{Context: 40})
	ids := func(n int) (list []int32) {
		for i := range n {
			list = append(list, int32(10+i))
		}
		return list
	}
	for _, c := range []struct {
		n, keep, max int
		want         []int32
		refused      bool
	}{
		{n: 35, keep: 4, want: ids(35)}, {n: 36, keep: 4, want: slices.Concat(ids(4), ids(36)[20:])},
		{n: 36, keep: 4, max: 3, want: ids(36)}, {n: 60, want: ids(60)[40:]}, {n: 60, keep: 19, want: append(ids(19), 69)},
		{n: 60, keep: 20, refused: true}, {n: 60, keep: -1, refused: true}, {n: 39, keep: -1, want: ids(39)},
	} {
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{IDs: ids(c.n)}}, WhenFull: FullDrop, Keep: c.keep,
			MaxTokens: c.max})
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && !slices.Equal(task.Prompt(0), c.want) || err == nil && task.Cut() != (len(c.want) < c.n) {
			t.Errorf("%+v: %v, cut %v", c, task.Prompt(0), task.Cut())
		}
	}
	long := Prompt{Text: "func (r *Ring) Push(x int) { " +
		strings.Repeat("x y ", 40)} // the token that begins texts stays beside those to keep
	task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{long}, WhenFull: FullDrop, Keep: 3})
	if whole := m.joined([]Prompt{long}); err != nil || m.tok.BOS() != whole[0] ||
		!slices.Equal(task.Prompt(0), slices.Concat(whole[:4], whole[len(whole)-16:])) {
		t.Errorf("a text: %v, %v", task.Prompt(0), err)
	}
	var e *RequestError
	r := Request{Prompts: []Prompt{long}, WhenFull: FullDrop, Keep: math.MaxInt}
	if _, err := m.Prepare(t.Context(), r); !errors.As(err, &e) || e.Code != CodeContext {
		t.Errorf("a text to keep whole: %v", err)
	}
	if _, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "x"}}, WhenFull: "ask"}); err == nil {
		t.Error("an unknown way")
	}
}
