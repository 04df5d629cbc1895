package speculative

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// machine is what passes cost, in milliseconds. The embedded pair writes real text on it in virtual
// time, as if it were large: schedules are compared without a clock's noise.
type machine struct {
	name        string
	pass        []passTime   // of the target
	step, again float64      // a draft pass of one token, and of several
	phases      [][]passTime // what pass is in turn, each for a while
	clock       time.Duration
}

// passTime is tokens and the time they take; the time between them is linear.
type passTime [2]float64

// phase is how long a machine stays what it is. Auto does worse where that is shorter: at 400 ms it has 0.946 of
// the best constant for model at temperature 0.8, which fails the test.
const phase = 700 * time.Millisecond

// Measured with a target of 1 B and drafts of 15 M where two threads read 52 and 81 GB/s, and, for expensive drafts, of 85 M.
var (
	slow     = []passTime{{1, 26.2}, {8, 28.3}, {12, 28.5}, {16, 29.5}, {24, 42.4}, {32, 55.6}, {512, 900}}
	fast     = []passTime{{1, 18}, {8, 20.2}, {9, 23.1}, {12, 26.2}, {16, 31.2}, {24, 46.3}, {32, 61.1}, {512, 900}}
	machines = []machine{
		{name: "slow memory", pass: slow, step: 0.17, again: 0.4},
		{name: "fast memory", pass: fast, step: 0.17, again: 0.4},
		{name: "expensive drafts", pass: fast, step: 2, again: 2.5},
		{name: "either memory", phases: [][]passTime{slow, fast}, step: 0.17, again: 0.4}, // as virtual machines are
	}
)

func (m *machine) cost(tokens int) float64 {
	pass := m.pass
	if m.phases != nil {
		pass = m.phases[int(m.clock/phase)%len(m.phases)]
	}
	i := 1
	for pass[i][0] < float64(tokens) {
		i++
	}
	a, b := pass[i-1], pass[i]
	return a[1] + (b[1]-a[1])*(float64(tokens)-a[0])/(b[0]-a[0])
}

func (m *machine) spend(ms float64) { m.clock += time.Duration(ms * 1e6) }

// Real texts on machines, in virtual time: the target's tokens are recorded once and the draft model's logits once for each
// sequence, so that a machine costs no passes of models. Auto against the best constant length of a sweep for several
// drafters, at temperature 0 and 0.8, warm and begun anew with each text. Merged drafters against the best of them alone.
func TestAutoOnText(t *testing.T) {
	n, curves := 4, []costCurve{costCurves[2], costCurves[8]}
	if testkit.IsLong(t) {
		n, curves = 10, costCurves[1:]
	}
	const tokens = 64
	texts := prompts(t, "prompts-code.jsonl", n)
	big, small := pair(t)
	target, draft := session(t, big, 0), session(t, small, 0)
	rows := map[uint64][]float32{}
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 1}} {
		if s.Temperature > 0 {
			curves = costCurves[2:3]
			if testkit.IsLong(t) {
				curves = []costCurve{costCurves[1], costCurves[2], costCurves[8]}
			}
		}
		sim := &simulation{vocab: target.Vocab(), sampling: s}
		for _, text := range texts {
			prompt := big.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
			got, _ := collect(t, New(target, nil, Options{MaxTokens: tokens}), prompt, s)
			sim.texts, sim.prompt = append(sim.texts, slices.Concat(prompt, got)), append(sim.prompt, len(prompt))
		}
		for i := range curves {
			c := &curves[i]
			sim.curve = c
			model := func(share float64) Sequence { // a draft model whose pass takes a share of the target's
				return &memo{Session: draft, rows: rows, spend: func(n int) { sim.spend(c.one * share * (1 + 0.1*float64(n-1))) }}
			}
			least, leastFresh := c.least()
			auto := func() Schedule { return Auto(AutoOptions{}) }
			given := func() Schedule { return Auto(AutoOptions{Costs: c.costs()}) }
			sum, sumFresh, cases := 0.0, 0.0, 0.0
			alone := math.Inf(1) // the best of those that are merged
			for _, drafter := range []struct {
				name   string
				greedy bool // at temperature 0 only, and in the long test
				merged bool // is one of those that are merged
				make   func() Drafter
			}{
				{"model", false, true, func() Drafter { return Model(model(0.01)) }},
				{"model, expensive", true, false, func() Drafter { return Model(model(0.11)) }},
				{"tree", false, false, func() Drafter { return Tree(model(0.01), TreeOptions{}) }},
				{"splice", true, false, func() Drafter { return Splice(model(0.01), TreeOptions{}) }},
				{"ngram", false, true, func() Drafter { return NGram(NGramOptions{}) }},
				{"suffix", true, false, func() Drafter { return Suffix(SuffixOptions{}) }},
			} {
				if drafter.greedy && (s.Temperature > 0 || !testkit.IsLong(t)) {
					continue
				}
				sim.keep = drafter.make
				best, length := sim.best(t, nil)
				warm, fresh := sim.run(t, nil, auto, true), sim.run(t, nil, given, false)
				both := best // a constant length without a drafter that learns is the same begun anew
				if _, learns := drafter.make().(*tree); learns {
					both = sim.run(t, nil, func() Schedule { return Constant(ConstantOptions{Length: cmp.Or(length, -1)}) }, false)
				}
				t.Logf("temperature %.1f, %-22s %-16s best constant %2d; auto %.3f of it, begun anew %.3f", s.Temperature, c.name, drafter.name, length, best/warm, both/fresh)
				sum, sumFresh, cases = sum+math.Log(best/warm), sumFresh+math.Log(both/fresh), cases+1
				if best/warm < least-0.01 || both/fresh < leastFresh-0.01 {
					t.Errorf("temperature %.1f, %s, %s: auto has %.3f of the best constant length's speed, begun anew %.3f", s.Temperature, c.name, drafter.name, best/warm, both/fresh)
				}
				if drafter.merged {
					alone = min(alone, warm)
				}
			}
			if mean, meanFresh := math.Exp(sum/cases), math.Exp(sumFresh/cases); mean < least || meanFresh < leastFresh {
				t.Errorf("temperature %.1f, %s: auto has %.3f of the best constant lengths' speed, begun anew %.3f", s.Temperature, c.name, mean, meanFresh)
			}
			sim.keep = func() Drafter { return Merge(Model(model(0.01)), NGram(NGramOptions{}), Model(model(0.25))) }
			merged := sim.run(t, nil, auto, true)
			t.Logf("temperature %.1f, %-22s %-16s auto %.3f of the best drafter alone", s.Temperature, c.name, "merged", alone/merged)
			if alone/merged < 0.97 {
				t.Errorf("temperature %.1f, %s: merged drafters have %.3f of the speed of the best alone", s.Temperature, c.name, alone/merged)
			}
		}
	}
}

// TestLongAutoOnText: on every machine, with ten texts.
func TestLongAutoOnText(t *testing.T) {
	testkit.Long(t)
	TestAutoOnText(t)
}

// useless drafts a token that is never right, with constant confidence.
type useless struct{ spend func() }

func (h *useless) Start(context.Context, Setup) error { return nil }
func (h *useless) Observe(*Round)                     {}
func (h *useless) Draft(_ context.Context, _ []int32, d *Draft) error {
	for d.More() {
		h.spend()
		d.Add(1, 0.5, nil)
	}
	return nil
}
