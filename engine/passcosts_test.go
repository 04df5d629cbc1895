package engine

import (
	"testing"
	"time"

	"github.com/specgo/spec/internal/randommodel"
)

// Every pass teaches the model what passes take: its rows with logits, chunks of prompts by themselves, by the number
// of layers, and nothing of passes that failed, that recompute all, or that did without the output matrix.
func TestPassesTeachTheirCosts(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{}), randommodel.Llama(), Options{})
	whole, half := newSession(t, m, SessionOptions{}), newSession(t, m, SessionOptions{Layers: 1})
	feed := func(s *Session, n int, want Rows) {
		t.Helper()
		if _, err := s.Eval(t.Context(), make([]int32, n), nil, want); err != nil {
			t.Fatal(err)
		}
	}
	if whole.Costs() != m.Costs(0) || half.Costs() != m.Costs(1) || whole.Costs() == half.Costs() {
		t.Fatal("sessions do not know the costs of their layers' passes")
	}
	feed(whole, ShortRows, None)
	if m.Costs(0).Known() || m.Costs(0).Prompt() != 0 {
		t.Error("a pass without the output matrix was learned")
	}
	feed(whole, ShortRows+1, None)
	if m.Costs(0).Known() || !(m.Costs(0).Prompt() > 0) {
		t.Error("a chunk of a prompt is no row, and has a price")
	}
	feed(whole, 3, All)
	feed(whole, 2, Last)
	if c := m.Costs(0); c.Passes(3) != 1 || c.Passes(2) != 1 || c.Passes(1) != 0 || c.Longest() != 3 {
		t.Errorf("passes of 3 and of 2 rows were learned as %+v", c.Times())
	}
	for _, layers := range []int{1, 2} {
		if f, err := whole.ExitAt(0, layers); err != nil || f.Costs() != m.Costs(layers) {
			t.Errorf("a fork with %d layers does not know what its passes cost: %v", layers, err)
		}
	}
	if m.Costs(1).Known() {
		t.Error("passes through all layers were learned of one")
	}
	if _, err := whole.Eval(t.Context(), []int32{-1}, nil, All); err == nil || m.Costs(0).Passes(1) != 0 {
		t.Errorf("a pass that failed (%v) was learned", err)
	}
	feed(newSession(t, m, SessionOptions{NoCache: true}), 4, All)
	if m.Costs(0).Passes(4) != 0 {
		t.Error("a pass that recomputes was learned")
	}
	m.learn(Batch{{Session: half, Tokens: make([]int32, 5), Logits: All}}, make([]Result, 1), time.Second)
	if got := m.Costs(1).At(5); got != 1 {
		t.Errorf("a pass of a second was learned as %v s", got)
	}
}
