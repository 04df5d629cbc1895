package engine

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/testkit"
)

// What passes through some of a model's layers cost is one thing, whoever asks first; 0 layers, and too many, are all.
func TestCostsOfLayersAreOne(t *testing.T) {
	m := &Model{}
	m.config.Layers = 3
	var got [4]*costs.Costs
	ask := func(i, layers int) func() { return func() { got[i] = m.Costs(layers) } }
	testkit.AtOnce(20, ask(0, 3), ask(1, 0), ask(2, 4), ask(3, 1))
	if got[0] == nil || got[0] != got[1] || got[0] != got[2] || got[3] == nil || got[3] == got[0] {
		t.Errorf("%v", got)
	}
}

// The last tokens of a prompt that was fed in several passes are no rows, however few they are: neither the time of
// rows nor that of a prompt's token moves by a pass that has them beside rows, or alone.
func TestLastTokensOfAPromptAreNoRows(t *testing.T) {
	m, c := &Model{}, &costs.Costs{}
	s := &Session{m: m, costs: c}
	const row, token = 10 * time.Millisecond, time.Millisecond
	pass := func(rows, prompt int) { // of a machine whose passes take as long with few rows as with one
		b := Batch{{Session: s, Tokens: make([]int32, prompt), Chunk: true}}
		for range rows {
			b = append(b, Segment{Session: s, Tokens: make([]int32, 1), Logits: Last})
		}
		m.learn(b, make([]Result, len(b)), row+time.Duration(prompt)*token)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: %v s, want %v", what, got, want)
		}
	}
	seen := []int{1, 3, 6, 9}
	for range 20 {
		for _, n := range seen {
			pass(n, 0)
		}
		pass(1, 100)
	}
	for range 20 {
		pass(1, 2)
		pass(1, ShortRows)
		pass(0, 1)
		pass(0, ShortRows)
		pass(1, 300)
	}
	near("a token of a prompt", c.Prompt(), token.Seconds())
	for _, n := range seen {
		near(fmt.Sprint("a pass of rows: ", n), c.At(float64(n)), row.Seconds())
	}
	if n := c.Passes(ShortRows + 1); n != 20 {
		t.Errorf("%d passes of %d rows, 20 were made", n, ShortRows+1)
	}
}

// A pass that computes tokens of its session again, after a cut that was not restorable, says nothing of what its own
// tokens cost.
func TestPassesThatRecomputeTeachNothing(t *testing.T) {
	m := openRecipe(t, newRuntime(t, RuntimeOptions{Threads: 1}), "qwen35")
	s := newSession(t, m, SessionOptions{StateBytes: 1})
	ctx, ids := context.Background(), randomTokens(300, m.Config().Vocab, 1)
	if _, err := s.Eval(ctx, ids, nil, None); err != nil {
		t.Fatal(err)
	}
	for i, known := range []bool{false, true} {
		if err := s.Truncate(30); err != nil {
			t.Fatal(err)
		}
		s.Costs().Set(nil, false)
		if _, err := s.Eval(ctx, ids[:2], nil, All); err != nil {
			t.Fatal(err)
		}
		if s.Recomputed() != 30 || s.Costs().Known() != known {
			t.Errorf("pass %d: %d tokens were computed again, of costs %v is known", i, s.Recomputed(), s.Costs().Times())
		}
	}
}
