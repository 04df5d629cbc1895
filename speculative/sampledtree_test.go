package speculative

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// Trees that are drawn keep the distribution, under schedules that look at every token as well. Each
// thing that could bend it does, and the test notices.
func TestDrawnTreesKeepTheDistribution(t *testing.T) {
	const texts = 400
	var clock time.Duration // a pass of the target takes as long as 30 of the draft: lookups do without the model at times
	spend := func(ms time.Duration) func(int) { return func(int) { clock += ms * time.Millisecond } }
	now := func() time.Duration { return clock }
	grow := func(least int, chain bool) *tree {
		seq := newFake(t, tinyVocab, 32, tiny(8))
		seq.spend = spend(1)
		d := newTree(seq, TreeOptions{Sources: []CandidateSource{SuffixSource(SuffixOptions{MinMatch: least})}}, chain)
		d.now = now
		return d
	}
	const none, all = 100, 1 // tokens that a match must have
	wide := func() Drafter { // siblings first
		d := grow(none, false)
		d.first = rate{0, 1e6}
		return still{d}
	}
	measure := func(verifier Verifier, drafter Drafter, schedule Schedule, s engine.Sampling, texts int) (
		off float64, later, deep int) {
		off = chiSquared(t, s, texts, func() *Decoder {
			target := newFake(t, tinyVocab, 32, tiny(3))
			target.spend = spend(30)
			d := New(target, drafter, Options{Schedule: schedule, Verifier: verifier, MaxTokens: 9})
			d.now = now
			d.o.Trace = func(r *Round) {
				for i := range r.Drafted() {
					if r.Draft.firstChild(r.Draft.Parent(i)) != i {
						later++
					}
					if r.Draft.Depth(i) > 2 {
						deep++
					}
				}
			}
			return d
		})
		return off, later, deep
	}
	for name, verifier := range map[string]func() Verifier{"rejection": Rejection, "block": Block} {
		for drafter, make := range map[string]func() Drafter{
			"tree":            func() Drafter { return grow(none, false) },
			"tree, lookups":   func() Drafter { return grow(all, false) },
			"wide":            wide,
			"splice, lookups": func() Drafter { return grow(all, true) },
			"merged": func() Drafter {
				return Merge(grow(none, false), NGram(NGramOptions{MinMatch: 1, MaxMatch: 2}), grow(all, false))
			},
		} {
			for plan, schedule := range map[string]Schedule{
				"constant": Constant(ConstantOptions{Length: 8}),
				"trimming": Constant(ConstantOptions{Length: 8, MinConfidence: 0.3}),
				"adaptive": Dynamic(DynamicOptions{Length: 8, MinConfidence: 0.3, Adapt: true}), "auto": Auto(AutoOptions{}),
			} {
				for k, s := range []engine.Sampling{{Temperature: 1}, {Temperature: 0.8, TopP: 0.9, RepeatPenalty: 1.2}} {
					// A drafter and a schedule have one way of sampling with each verifier, and the other one with the other.
					other := (name == "block") == (k == 0) != (plan == "adaptive")
					if other && plan != "constant" && !testkit.IsLong(t) {
						continue
					}
					texts := texts
					if !testkit.IsLong(t) {
						texts /= 2
					}
					if plan == "constant" && (s.TopP == 0 || testkit.IsLong(t)) {
						texts = resolving(t)
					}
					off, later, deep := measure(verifier(), make(), schedule, s, texts)
					if math.Abs(off) > 4 {
						t.Errorf("%s, %s, %s, %+v: off by %.1f standard deviations", name, drafter, plan, s, off)
					}
					if plan == "constant" && (drafter != "wide" && deep < texts || drafter != "splice, lookups" && later < texts/2 ||
						drafter == "wide" && later < 5*texts) {
						t.Errorf("%s, %s: %d deep tokens and %d later siblings in %d texts: that tests little", name,
							drafter, deep, later, texts)
					}
				}
			}
		}
		for _, c := range []struct {
			name         string
			d            Drafter
			nodes, texts int // the more subtle, the more texts
		}{{"lying", liar{wide()}, 3, 1000}, {"sorting", sorting{wide()}, 3, 2000}, {"forgetful", forgetful{wide()}, 4, 4000},
			{"picky", picky{wide()}, 3, 4000}} {
			off, _, _ := measure(verifier(), c.d, Constant(ConstantOptions{Length: c.nodes}),
				engine.Sampling{Temperature: 0.4}, c.texts)
			t.Logf("%s: a %s tree is off by %.1f standard deviations", name, c.name, off)
			if off < 6 {
				t.Errorf("%s: a %s tree is off by %.1f standard deviations only", name, c.name, off)
			}
		}
	}
}

// TestLongDrawnTreesKeepTheDistribution: a bend of 2 % shows, and every verifier has every schedule and way of
// sampling.
func TestLongDrawnTreesKeepTheDistribution(t *testing.T) {
	testkit.Long(t)
	TestDrawnTreesKeepTheDistribution(t)
}

// still learns nothing.
type still struct{ Drafter }

func (still) Observe(*Round) {}

// picky drops the last token it drew when it finds it unlikely.
type picky struct{ Drafter }

func (l picky) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	if n := d.Len() - 1; probability(d.Probs[n], d.Tokens[n], -1) < 0.6 {
		d.Tokens, d.parents, d.depth, d.Confidence, d.Probs = d.Tokens[:n], d.parents[:n], d.depth[:n],
			d.Confidence[:n], d.Probs[:n]
		if d.Parents != nil {
			d.Parents = d.parents
		}
	}
	return err
}

// sorting has the likelier of two siblings tried first.
type sorting struct{ Drafter }

func (l sorting) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	for i := range d.Len() {
		for j := range i {
			if d.Parent(i) == d.Parent(j) && probability(d.Probs[i], d.Tokens[i], -1) > probability(
				d.Probs[j], d.Tokens[j], -1) {
				d.Tokens[i], d.Tokens[j] = d.Tokens[j], d.Tokens[i]
				d.Probs[i], d.Probs[j] = d.Probs[j], d.Probs[i]
			}
		}
	}
	return err
}

// forgetful records with each token what the first of its siblings was drawn from.
type forgetful struct{ Drafter }

func (l forgetful) Draft(ctx context.Context, text []int32, d *Draft) error {
	err := l.Drafter.Draft(ctx, text, d)
	for i := range d.Len() {
		d.Probs[i] = d.Probs[d.firstChild(d.Parent(i))]
	}
	return err
}

// What is recorded with a token is what was left of q after the siblings before it, and the token is one of it.
func TestSiblingsAreDrawnWithoutReplacement(t *testing.T) {
	model := loops(70)
	d := New(newFake(t, matrixVocab, 4000, model),
		Tree(newFake(t, matrixVocab, 4000, noisy(model, 0.3)), TreeOptions{}), Options{
			Schedule: Constant(ConstantOptions{Length: 12}), Verifier: Rejection(), MaxTokens: 400,
		})
	later := 0
	d.o.Trace = func(r *Round) {
		for i := range r.Drafted() {
			q, sum := r.Draft.Probs[i], 0.0
			for _, x := range q {
				sum += float64(x.P)
			}
			if math.Abs(sum-1) > 1e-5 || !slices.IsSortedFunc(q, func(a, b sampling.Prob) int { return int(a.ID - b.ID) }) {
				t.Fatalf("q sums to %v: %v", sum, q)
			}
			if probability(q, r.Draft.Tokens[i], -1) == 0 {
				t.Fatalf("token %d is not of its q", r.Draft.Tokens[i])
			}
			for j := range i {
				if r.Draft.Parent(i) != r.Draft.Parent(j) {
					continue
				}
				later++
				if probability(q, r.Draft.Tokens[j], -1) > 0 {
					t.Fatalf("token %d may be drawn twice", r.Draft.Tokens[j])
				}
			}
		}
	}
	collect(t, d, matrixPrompt, engine.Sampling{Temperature: 0.8, Seed: 1})
	if later < 100 {
		t.Errorf("%d pairs of siblings only", later)
	}
}

// With as many tokens drafted, a tree saves passes of the target that the model's chain does not.
func TestDrawnTreesKeepMore(t *testing.T) {
	model := random(71)
	for name, verifier := range map[string]func() Verifier{"rejection": Rejection, "block": Block} {
		passes := func(drafter func(Sequence) Drafter) int {
			n := 0
			d := New(newFake(t, matrixVocab, 600, model), drafter(newFake(t, matrixVocab, 600, noisy(model, 0.5))), Options{
				Schedule: Constant(ConstantOptions{Length: 12}), Verifier: verifier(), MaxTokens: 500,
			})
			for seed := range uint64(4) {
				collect(t, d, matrixPrompt, engine.Sampling{Temperature: 1, Seed: seed})
				n += d.Stats().TargetPasses
			}
			return n
		}
		chain, tree := passes(Model), passes(func(s Sequence) Drafter { return Tree(s, TreeOptions{}) })
		t.Logf("%s: %d passes with chains, %d with trees", name, chain, tree)
		if float64(tree) > 0.97*float64(chain) {
			t.Errorf("%s: %d passes with trees, %d with chains", name, tree, chain)
		}
	}
}

// However expensive the model is, it is asked where no lookup matches: else every draft would be token 0.
func TestTreeAsksTheModelWithoutAMatch(t *testing.T) {
	for name, verifier := range map[string]func() Verifier{"match": Match, "rejection": Rejection} {
		var clock time.Duration
		model := random(72)
		draft := newFake(t, matrixVocab, 600, model)
		draft.spend = func(int) { clock += time.Second }
		drafter := newTree(draft, TreeOptions{Sources: []CandidateSource{}}, false)
		target := newFake(t, matrixVocab, 600, model)
		target.spend = func(int) { clock += time.Second }
		d := New(target, drafter, Options{Schedule: Constant(ConstantOptions{Length: 1}),
			Verifier: verifier(), MaxTokens: 200})
		d.now = func() time.Duration { return clock }
		collect(t, d, matrixPrompt, engine.Sampling{Temperature: 0.8, Seed: 3})
		if s := d.Stats(); s.DraftPasses < s.Drafted || s.Accepted*4 < s.Drafted*3 {
			t.Errorf("%s: %d tokens drafted in %d passes of the model, %d accepted", name, s.Drafted, s.DraftPasses, s.Accepted)
		}
	}
}

// insists is a source that says the same token everywhere.
type insists int32

func (insists) Reset()                                    {}
func (insists) Begin([]int32)                             {}
func (a insists) Next([]int32, int) (id int32, match int) { return int32(a), 9 }

// What a source says has no part in the distribution that tokens are drawn from, if it is no token of the target: when
// it was drawn nothing would be drafted, and that depends on the draw.
func TestSourcesOfUnknownTokens(t *testing.T) {
	for _, unknown := range []insists{-1, tinyVocab} {
		for _, verifier := range []Verifier{Rejection(), Block()} {
			for _, make := range []func(Sequence, TreeOptions) Drafter{Tree, Splice} {
				drafted := 0
				d := New(newFake(t, tinyVocab, 64, tiny(3)),
					make(newFake(t, tinyVocab, 64, tiny(8)), TreeOptions{Sources: []CandidateSource{unknown}}),
					Options{Schedule: Constant(ConstantOptions{Length: 3}), Verifier: verifier, MaxTokens: 40,
						Trace: func(r *Round) {
							drafted += r.Drafted()
							for _, q := range r.Draft.Probs {
								for _, x := range q {
									if x.ID < 0 || x.ID >= tinyVocab {
										t.Errorf("drawn from %v", q)
									}
								}
							}
						}})
				if collect(t, d, []int32{1, 2}, engine.Sampling{Temperature: 1, Seed: 3}); drafted < 20 {
					t.Errorf("%d: %d tokens were drafted", unknown, drafted)
				}
			}
		}
	}
}
