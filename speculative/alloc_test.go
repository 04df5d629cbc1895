package speculative

import (
	"context"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// A round allocates nothing, whatever was chosen.
func TestRoundsAllocateNothing(t *testing.T) {
	model := loops(70)
	ctx := context.Background()
	for name, drafter := range map[string]func() Drafter{
		"none":  func() Drafter { return nil },
		"model": func() Drafter { return Model(newFake(t, matrixVocab, 4000, noisy(model, 0.3))) },
		"merged": func() Drafter {
			return Merge(Model(newFake(t, matrixVocab, 4000, noisy(model, 0.3))), NGram(NGramOptions{}))
		},
		"ngram":  func() Drafter { return NGram(NGramOptions{}) },
		"tree":   func() Drafter { return Tree(newFake(t, matrixVocab, 4000, noisy(model, 0.3)), TreeOptions{}) },
		"splice": func() Drafter { return Splice(newFake(t, matrixVocab, 4000, noisy(model, 0.3)), TreeOptions{}) },
	} {
		for plan, schedule := range map[string]func() Schedule{
			"constant":  func() Schedule { return Constant(ConstantOptions{Length: 5, MinConfidence: 0.1}) },
			"heuristic": func() Schedule { return Heuristic(HeuristicOptions{Length: 5}) },
			"dynamic":   func() Schedule { return Dynamic(DynamicOptions{Length: 8, MinConfidence: 0.3, Adapt: true}) },
			"auto":      newAuto,
		} {
			for verifier, c := range map[string]struct {
				v Verifier
				s engine.Sampling
			}{
				"greedy":    {Greedy(), engine.Sampling{}},
				"match":     {Match(), penalties(engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 1})},
				"rejection": {Rejection(), penalties(engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 1})},
				"block":     {Block(), penalties(engine.Sampling{Temperature: 0.8, TopP: 0.95, Seed: 1})},
			} {
				d := New(newFake(t, matrixVocab, 4000, model), drafter(),
					Options{Schedule: schedule(), Verifier: c.v, LogProbs: true})
				if err := d.start(ctx, matrixPrompt, c.s); err != nil {
					t.Fatal(err)
				}
				round := func() {
					if err := d.step(ctx); err != nil {
						t.Fatal(err)
					}
				}
				for range 40 {
					round() // buffers of the verifiers and samplers grow to what they need
				}
				if n := testkit.Allocs(20, round); n > 0 {
					t.Errorf("%s, %s, %s: %v allocations a round", name, plan, verifier, n)
				}
			}
		}
	}
}

// roundsAllocateNothing feeds a decoder on real sessions until its text reaches the cache's second page; rounds after
// that allocate nothing.
func roundsAllocateNothing(t *testing.T, what string, d *Decoder, s engine.Sampling) {
	t.Helper()
	ctx := context.Background()
	if err := d.start(ctx, matrixPrompt, s); err != nil {
		t.Fatal(err)
	}
	round := func() {
		if err := d.step(ctx); err != nil || d.stats.End != "" {
			t.Fatal(err, d.stats.End)
		}
	}
	for len(d.sequence) < 257 {
		round()
	}
	if n := testkit.Allocs(10, round); n > 0 {
		t.Errorf("%s: %v allocations a round", what, n)
	}
}
