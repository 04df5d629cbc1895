package speculative

import (
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// fixedTree is a tree that learns nothing: what it drafts at a position does not depend on the drafts before.
type fixedTree struct{ *tree }

func (t fixedTree) Observe(r *Round) { t.model.Observe(r) }

// No schedule takes fewer passes than the oracle, whatever drafts: chains, trees, lookups, merged drafts.
func TestOracleBoundsPasses(t *testing.T) {
	const tokens, vocab = 80, 16
	better := 0
	for seed := range uint64(6) {
		model := loops(seed)
		for _, s := range []engine.Sampling{{}, {Temperature: 0.7, Seed: seed}} {
			want := plain(t, vocab, model, matrixPrompt, tokens, s)
			for _, drafter := range []named[Drafter]{
				{"model", func() Drafter { return Model(newFake(t, vocab, 300, noisy(model, 0.3))) }},
				{"tree", func() Drafter {
					return fixedTree{newTree(newFake(t, vocab, 300, noisy(model, 0.3)), TreeOptions{}, false)}
				}},
				{"ngram", func() Drafter { return NGram(NGramOptions{}) }},
				{"suffix", func() Drafter { return Suffix(SuffixOptions{}) }},
				{"merged", func() Drafter {
					return Merge(Model(newFake(t, vocab, 300, noisy(model, 0.3))), NGram(NGramOptions{}))
				}},
			} {
				run := func(schedule Schedule) Stats {
					d := New(newFake(t, vocab, 400, model), drafter.make(),
						Options{Schedule: schedule, MaxTokens: tokens, DraftMax: tokens})
					if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
						t.Fatalf("%s: other text", drafter.name)
					}
					return d.Stats()
				}
				bound := run(Oracle(slices.Concat(matrixPrompt, want)))
				if bound.Drafted != bound.Accepted {
					t.Errorf("%s: %d of the oracle's %d tokens were accepted", drafter.name, bound.Accepted, bound.Drafted)
				}
				for _, k := range []int{1, 2, 3, 5, 8, 16, 40} {
					x := run(Constant(ConstantOptions{Length: k}))
					if x.TargetPasses < bound.TargetPasses {
						t.Errorf("seed %d, temperature %v, %s: %d passes with length %d, the oracle %d", seed, s.Temperature,
							drafter.name, x.TargetPasses, k, bound.TargetPasses)
					}
					if x.TargetPasses > bound.TargetPasses {
						better++
					}
				}
			}
		}
	}
	if better < 100 {
		t.Errorf("the oracle is better in %d cases only", better)
	}
}

// In virtual time no schedule is faster than the oracle that knows the costs: on every machine whose speed does not
// change, at every acceptance. The oracle that drafts as much as will be accepted is slower than constant lengths where
// tokens are expensive.
func TestOracleBoundsSpeed(t *testing.T) {
	const tokens, texts = 64, 4
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	greedyLoses := 0
	for i := range costCurves {
		machine := costCurves[i]
		if machine.changes() {
			continue
		}
		c := &machine
		c.points = slices.Clone(c.points)
		c.points[1][1] = max(c.points[1][1], 1) // where two tokens seem to take less than one, a wrong token would be a gain
		sim.curve = c
		var exact PassCosts
		for n := 1; n <= maxVerify; n++ {
			exact.Tokens, exact.Seconds = append(exact.Tokens, n), append(exact.Seconds, c.at(n, 0)/1e3)
		}
		for _, step := range []float64{0.01, 0.11} {
			for _, a := range []float64{0.1, 0.5, 0.8, 0.95} {
				name := fmt.Sprintf("%s, step %v, acceptance %v", c.name, step, a)
				alone := func(text int, schedule func(text []int32) Schedule, warm bool) float64 {
					one := *sim
					one.texts, one.prompt = sim.texts[text:text+1], sim.prompt[text:text+1]
					drafter := func(int) Drafter {
						return &chanceDrafter{sequence: one.texts[0], seed: uint64(text) << 32, spend: func() { one.spend(step * c.one) },
							chance: func(int) float64 { return a }}
					}
					return one.run(t, drafter, func() Schedule { return schedule(one.texts[0]) }, warm)
				}
				for text := range texts {
					bound := alone(text, func(s []int32) Schedule {
						return OracleOf(OracleOptions{Sequence: s, Costs: exact, Step: step * c.one / 1e3})
					}, true)
					least := alone(text, func([]int32) Schedule { return Auto(AutoOptions{Costs: c.costs()}) }, true)
					for _, k := range sweepLengths {
						least = min(least, alone(text, func([]int32) Schedule { return Constant(ConstantOptions{Length: k}) }, false))
					}
					if least < bound*(1-1e-6) {
						t.Errorf("%s: %.4f s, the oracle %.4f s", name, least, bound)
					}
					if alone(text, Oracle, true) > least {
						greedyLoses++
					}
				}
			}
		}
	}
	if greedyLoses == 0 {
		t.Error("drafting all that will be accepted is never slower than a constant length: the costs are not used")
	}
}
