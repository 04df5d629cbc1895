package speculative

import (
	"testing"

	"github.com/specgo/spec/engine"
)

// atFirst is a schedule of so many tokens in the first rounds, and of none later.
type atFirst struct {
	constant
	rounds int
}

func (s *atFirst) Length(n int) int {
	if s.rounds--; s.rounds < 0 {
		return 0
	}
	return s.constant.Length(n)
}

// TestTreeLearnsFromItsOwnDrafts: rounds without a draft, and tokens of other drafters in a merged one, are no failures
// of a tree whose model is always right.
func TestTreeLearnsFromItsOwnDrafts(t *testing.T) {
	model := random(7)
	for _, verifier := range []Verifier{Match(), Rejection(), Block()} {
		for name, x := range map[string]struct {
			with     func(Drafter) Drafter
			schedule Schedule
		}{
			"alone":          {func(d Drafter) Drafter { return d }, Constant(ConstantOptions{})},
			"without drafts": {func(d Drafter) Drafter { return d }, &atFirst{constant{length: 5}, 20}},
			"merged": {func(d Drafter) Drafter { return Merge(Replay(ReplayOptions{Tokens: make([]int32, 400)}), d) },
				Constant(ConstantOptions{Length: 3})},
			"merged, not asked": {func(d Drafter) Drafter {
				return &merge{drafters: []Drafter{Replay(ReplayOptions{Tokens: make([]int32, 400)}), d},
					suffices: func(d *Draft) bool { return d.Round >= 20 }}
			}, Constant(ConstantOptions{})},
		} {
			drafter := newTree(newFake(t, matrixVocab, 400, model), TreeOptions{Sources: []CandidateSource{}}, false)
			d := New(newFake(t, matrixVocab, 400, model), x.with(drafter),
				Options{Schedule: x.schedule, Verifier: verifier, MaxTokens: 200})
			for _, err := range d.Generate(t.Context(), []int32{1, 2, 3}, engine.Sampling{Temperature: 0.01}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if p := drafter.first.p(); p < 0.9 {
				t.Errorf("%T, %s: the first candidate is right with probability %.2f", verifier, name, p)
			}
		}
	}
}
