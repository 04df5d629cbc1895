package spec

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// Where texts take turns they are the same as where they share passes, also with a draft head; the next turn of a
// conversation computes what is new; another salt begins anew.
func TestTurnsShareOneSequence(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	head := headOf(t, p.Target)
	for name, c := range map[string]struct {
		draft   *engine.Model
		drafter string
	}{"plain": {nil, "none"}, "draft": {p.Draft, "tree"}, "head": {head, "eagle"}} {
		r := Request{MaxTokens: 20, Speculation: speculative.Choice{Drafter: c.drafter}}
		parts := Parts{Target: p.Target, Draft: c.draft}
		many, err := New(parts, Options{Template: hermes})
		if err != nil {
			t.Fatal(err)
		}
		defer many.Close()
		one, err := New(parts, Options{Template: hermes, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		talk, had := []chat.Message{chat.User("for i := range n {\n")}, 0
		for turn := range 3 {
			want, err1 := Collect(many.Chat(t.Context(), talk, r))
			got, err2 := Collect(one.Chat(t.Context(), talk, r))
			if err := errors.Join(err1, err2); err != nil || want[0].Text != got[0].Text {
				t.Fatalf("%s, turn %d: %v: %+v, shared %+v", name, turn, err, got, want)
			}
			s := got[0].Stats
			if turn > 0 && s.Reused < had {
				t.Errorf("%s, turn %d: %d tokens of %d were there, the turn before had %d", name, turn, s.Reused, s.Prompt, had)
			}
			had = s.Prompt
			talk = append(talk, chat.Assistant(got[0].Text), chat.User("}"))
		}
		r.Salt = "other"
		if got, err := Collect(one.Chat(t.Context(), talk, r)); err != nil || got[0].Stats.Reused != 0 {
			t.Errorf("%s: another salt goes on: %v %+v", name, err, got)
		}
		for _, d := range one.drafts {
			if own, ok := d.own.(*single); ok && own.salt != r.Salt {
				t.Errorf("%s: the draft goes on with texts under %q", name, own.salt)
			}
		}
		var wait sync.WaitGroup
		texts := make([]string, 3)
		for i := range texts {
			wait.Go(func() { texts[i], _ = Text(one.Complete(t.Context(), "func (r *Ring) Push(", r)) })
		}
		wait.Wait()
		if texts[0] == "" || len(slices.Compact(slices.Clone(texts))) != 1 {
			t.Errorf("%s: taking turns: %q", name, texts)
		}
	}
	if _, err := New(p, Options{NoCache: true}); !errors.Is(err, ErrOptions) {
		t.Errorf("no cache, many at once: %v", err)
	}
}

// What a request is told of its decoder is of its text.
func TestRoundsAndReceiptsAreHandedOut(t *testing.T) {
	m, rounds, written := newModel(t, Options{Parallel: 1}), 0, 0
	r := Request{MaxTokens: 20, Trace: func(*speculative.Round) { rounds++ },
		Written: func(d *speculative.Decoder) error {
			receipt, err := d.Receipt(speculative.ReceiptOptions{})
			if err == nil {
				written = len(receipt.Tokens)
			}
			return err
		}}
	list, err := Collect(m.Complete(t.Context(), "func", r))
	if err != nil || written != 20 || rounds != list[0].Stats.Rounds || rounds == 0 {
		t.Errorf("%v: %d tokens in the receipt, %d rounds of %+v", err, written, rounds, list)
	}
	refused := errors.New("no")
	r.Written = func(*speculative.Decoder) error { return refused }
	if _, err := Collect(m.Complete(t.Context(), "func", r)); err != refused {
		t.Error(err)
	}
}

// headOf is the embedded target's draft head.
func headOf(t *testing.T, target *engine.Model) *engine.Model {
	t.Helper()
	head, err := engine.New(t.Context(), target.Runtime(), testdata.Head(), testdata.Head().Size(),
		engine.Options{Name: "head", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { head.Close() })
	return head
}
