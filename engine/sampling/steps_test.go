package sampling

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A range of temperatures from 0 chooses the one token that is left.
func TestDynatempFrom0OfOneToken(t *testing.T) {
	s, err := New(3, Options{Dynatemp: Dynatemp{Range: 1}, TopK: 1})
	if err != nil {
		t.Fatal(err)
	}
	logits := []float32{1, 3, 2}
	if id, all := s.Pick(logits, nil), s.Distribution(logits, nil); id != 1 || !slices.Equal(all, []Prob{{1, 1}}) {
		t.Errorf("%d of %v", id, all)
	}
}

// What is left by each filter alone, worked out by hand, and by filters in other orders than the usual.
func TestStepsByHand(t *testing.T) {
	even := []float32{0.2, 0.2, 0.2, 0.2, 0.2}
	for _, c := range []struct {
		name string
		p    []float32
		o    Options
		want []Prob
	}{
		// the entropy of 0.97, 0.01, 0.01, 0.01 is 0.17: the surprise 0.03 is nearest
		{"typical, one", []float32{0.97, 0.01, 0.01, 0.01}, Options{TypicalP: 0.5}, []Prob{{0, 1}}},
		// the entropy of 0.4, 0.2, 0.2, 0.2 is 1.33: 1.61 is nearer than 0.92
		{"typical, not the top", []float32{0.4, 0.2, 0.2, 0.2}, Options{TypicalP: 0.5},
			[]Prob{{1, 1. / 3}, {2, 1. / 3}, {3, 1. / 3}}},
		{"1 sigma", []float32{0.1, 0.2, 0.3, 0.4}, Options{TopNSigma: 1}, []Prob{{2, 3. / 7}, {3, 4. / 7}}},
		{"3 sigma", []float32{0.1, 0.2, 0.3, 0.4}, Options{TopNSigma: 3}, []Prob{{0, .1}, {1, .2}, {2, .3}, {3, .4}}},
		{"xtc, one left", []float32{0.4, 0.3, 0.2, 0.1}, Options{XTC: XTC{1, 0.09}}, []Prob{{3, 1}}},
		{"xtc, two left", []float32{0.4, 0.3, 0.2, 0.1}, Options{XTC: XTC{1, 0.19}}, []Prob{{2, 2. / 3}, {3, 1. / 3}}},
		{"xtc, three left", []float32{0.4, 0.3, 0.2, 0.1}, Options{XTC: XTC{1, 0.29}},
			[]Prob{{1, .5}, {2, 1. / 3}, {3, 1. / 6}}},
		{"xtc, one reaches", []float32{0.4, 0.3, 0.2, 0.1}, Options{XTC: XTC{1, 0.39}},
			[]Prob{{0, .4}, {1, .3}, {2, .2}, {3, .1}}},
		{"xtc, 0.1 by itself", []float32{0.75, 0.2, 0.05}, Options{XTC: XTC{Probability: 1}}, []Prob{{1, .8}, {2, .2}}},
		{"xtc, none can", []float32{0.5, 0.5}, Options{XTC: XTC{1, 0.51}}, []Prob{{0, .5}, {1, .5}}},
		// all are as probable: the entropy is the greatest, the temperature 1.5
		{"dynatemp, even", even, Options{Dynatemp: Dynatemp{Range: 0.5}},
			[]Prob{{0, .2}, {1, .2}, {2, .2}, {3, .2}, {4, .2}}},
		// 0.5, 0.25, 0.25 has 1.5 bits of log2(3): temperature 2 * 0.9464 = 1.8928, weights 1, 0.6934, 0.6934
		{"dynatemp from 0", []float32{0.5, 0.25, 0.25}, Options{Dynatemp: Dynatemp{Range: 1}},
			[]Prob{{0, 1 / 2.38672}, {1, 0.69336 / 2.38672}, {2, 0.69336 / 2.38672}}},
		// min-p before top-k: 0.4 and 0.3 are left of three; top-k 1 before it: one
		{"min-p, then top-k", []float32{0.4, 0.3, 0.2, 0.1}, Options{MinP: 0.6, TopK: 3,
			Order: []Step{StepMinP, StepTopK}}, []Prob{{0, 4. / 7}, {1, 3. / 7}}},
		// at temperature 1/2 the probabilities are squares: 0.16, 0.09, 0.04, 0.01 of 0.3; two reach 0.8
		{"temperature, then top-p", []float32{0.4, 0.3, 0.2, 0.1}, Options{Temperature: 0.5, TopP: 0.8,
			Order: []Step{StepTemperature, StepTopP}}, []Prob{{0, 16. / 25}, {1, 9. / 25}}},
		{"a step that is not listed", []float32{0.4, 0.3, 0.2, 0.1}, Options{TopK: 1, MinP: 0.6, Order: []Step{StepMinP}},
			[]Prob{{0, 4. / 7}, {1, 3. / 7}}},
		{"min-p that is not listed", []float32{0.4, 0.3, 0.2, 0.1}, Options{TopK: 3, MinP: 0.9,
			Order: []Step{StepTopK, StepTemperature}}, []Prob{{0, 4. / 9}, {1, 3. / 9}, {2, 2. / 9}}},
		{"temperature that is not listed", []float32{0.4, 0.3, 0.2, 0.1}, Options{TopK: 2, MinP: 0.9, Temperature: 0.1,
			Order: []Step{StepTopK}}, []Prob{{0, 4. / 7}, {1, 3. / 7}}},
		{"no steps", []float32{0.6, 0.4}, Options{Temperature: 0.1, TopK: 1, Order: []Step{}}, []Prob{{0, 0.6}, {1, 0.4}}},
		// token 0 was the last one: top-k 2 keeps 0 and 1, then the penalty takes 1 = e^1 of 0's weight
		{"penalty after top-k", []float32{0.4, 0.3, 0.2, 0.1}, Options{TopK: 2, PresencePenalty: 1,
			Order: []Step{StepTopK, StepPenalties}},
			[]Prob{{0, 0.4 / math.E / (0.4/math.E + 0.3)}, {1, 0.3 / (0.4/math.E + 0.3)}}},
	} {
		if c.o.Temperature == 0 {
			c.o.Temperature = 1
		}
		history := []int32{0}
		if got := newSampler(t, len(c.p), c.o).Distribution(logs(c.p...), history); !close6(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func close6(got, want []Prob) bool {
	return slices.EqualFunc(got, want, func(a, b Prob) bool { return a.ID == b.ID && math.Abs(float64(a.P-b.P)) < 2e-5 })
}

// At temperature 0 the most probable token that is left is chosen, also where that is not the most probable of all;
// AppendBest begins with it.
func TestGreedyAfterSteps(t *testing.T) {
	x := logs(0.4, 0.2, 0.2, 0.2)
	for _, c := range []struct {
		o    Options
		want int32
	}{
		{Options{TypicalP: 0.5}, 1},
		{Options{XTC: XTC{Probability: 1, Threshold: 0.19}}, 3},
		{Options{TopK: 3, XTC: XTC{Probability: 1, Threshold: 0.2}}, 2},
		{Options{TopK: 3, TopP: 0.1, TopNSigma: 1}, 0},
	} {
		s := newSampler(t, 4, c.o)
		if got := s.Pick(x, nil); got != c.want {
			t.Errorf("%+v: token %d, expected %d", c.o, got, c.want)
		}
		if got := s.AppendBest(nil, 2, x, nil); got[0].ID != c.want {
			t.Errorf("%+v: best %v, expected %d", c.o, got, c.want)
		}
	}
}

// Every step alone and many orders of several, against their definitions over sorted lists in float64; what Pick
// chooses is the greatest of the noise on what is left.
func TestStepsAgainstDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 400 {
		vocab := 2 + r.IntN(400)
		x := make([]float32, vocab)
		for i := range x {
			x[i] = float32(r.NormFloat64() * 3)
		}
		o := Options{Temperature: 0.3 + r.Float32(), Seed: uint64(trial)}
		for _, set := range []func(){
			func() { o.TopK = 1 + r.IntN(vocab) }, func() { o.TopP = r.Float32() }, func() { o.MinP = r.Float32() / 4 },
			func() { o.TypicalP = r.Float32() }, func() { o.TopNSigma = 3 * r.Float32() },
			func() { o.XTC = XTC{r.Float32(), 0.001 + r.Float32()/2} },
			func() { o.Dynatemp = Dynatemp{r.Float32(), 2 * r.Float32()} },
		} {
			if r.IntN(2) == 0 {
				set()
			}
		}
		if r.IntN(2) == 0 {
			o.Order = DefaultOrder()
			r.Shuffle(len(o.Order), func(i, j int) { o.Order[i], o.Order[j] = o.Order[j], o.Order[i] })
		}
		history := make([]int32, r.IntN(9))
		s := newSampler(t, vocab, o)
		got, want := s.Distribution(x, history), defined(x, &o, len(history))
		if len(got) != len(want) {
			t.Fatalf("trial %d, %+v: %d tokens are left, expected %d", trial, o, len(got), len(want))
		}
		best, top := int32(-1), math.Inf(-1)
		for i, p := range got {
			if p.ID != want[i].id || math.Abs(float64(p.P)-want[i].p) > 1e-4 {
				t.Fatalf("trial %d, %+v: %v, expected %v", trial, o, p, want[i])
			}
			noisy := math.Log(float64(p.P)) + float64(gumbelOf(o.Seed, len(history), p.ID))
			if noisy > top {
				best, top = p.ID, noisy
			}
		}
		if id := s.Pick(x, history); id != best {
			t.Errorf("trial %d: picks %d, expected %d", trial, id, best)
		}
		if b := s.AppendBest(nil, 1, x, history); b[0].ID != best {
			t.Errorf("trial %d: best %v, expected %d", trial, b, best)
		}
	}
}

// entry is a token of the definitions: its logit and its probability among those that are left.
type entry struct {
	id   int32
	x, p float64
}

// defined is the distribution by the definitions, by id. Ties do not occur in the test.
func defined(x []float32, o *Options, position int) []entry {
	var list []entry
	for i, v := range x {
		list = append(list, entry{id: int32(i), x: float64(v)})
	}
	normalize := func() {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(b.x, a.x) })
		sum := 0.0
		for i := range list {
			list[i].p = math.Exp(list[i].x - list[0].x)
			sum += list[i].p
		}
		for i := range list {
			list[i].p /= sum
		}
	}
	entropy := func() (h float64) {
		for _, e := range list {
			h -= e.p * math.Log(max(e.p, 1e-300))
		}
		return h
	}
	until := func(total float64) {
		sum := 0.0
		for i, e := range list {
			if sum += e.p; sum >= total {
				list = list[:i+1]
				return
			}
		}
	}
	order := o.Order
	if order == nil {
		order = DefaultOrder()
	}
	for _, step := range order {
		normalize()
		switch {
		case step == StepTopK && o.TopK > 0:
			list = list[:min(o.TopK, len(list))]
		case step == StepTopP && o.TopP > 0:
			until(float64(o.TopP))
		case step == StepMinP && o.MinP > 0:
			list = slices.DeleteFunc(list, func(e entry) bool { return e.p < float64(o.MinP)*list[0].p })
		case step == StepTypicalP && o.TypicalP > 0:
			h := entropy()
			slices.SortStableFunc(list, func(a, b entry) int {
				return cmp.Compare(math.Abs(-math.Log(a.p)-h), math.Abs(-math.Log(b.p)-h))
			})
			until(float64(o.TypicalP))
		case step == StepTopNSigma && o.TopNSigma > 0:
			var mean, squares float64
			for _, e := range list {
				mean += e.x / float64(len(list))
			}
			for _, e := range list {
				squares += (e.x - mean) * (e.x - mean) / float64(len(list))
			}
			least := list[0].x - float64(o.TopNSigma)*math.Sqrt(squares)
			list = slices.DeleteFunc(list, func(e entry) bool { return e.x < least })
		case step == StepXTC && Uniform(o.Seed, position, purposeXTC) < float64(o.XTC.Probability):
			reach := 0
			for _, e := range list {
				if e.p >= float64(o.XTC.Threshold) {
					reach++
				}
			}
			list = list[max(0, reach-1):]
		case step == StepTemperature:
			temperature := float64(o.Temperature)
			if d := o.Dynatemp; d.Range > 0 && len(list) > 1 {
				low, high := max(0, temperature-float64(d.Range)), temperature+float64(d.Range)
				exponent := float64(d.Exponent)
				if exponent == 0 {
					exponent = 1
				}
				temperature = low + (high-low)*math.Pow(entropy()/math.Log(float64(len(list))), exponent)
			}
			for i := range list {
				list[i].x /= temperature
			}
		}
	}
	normalize()
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	return list
}

// XTC leaves tokens out at its share of positions, the same for every sampler of a seed.
func TestXTCShare(t *testing.T) {
	o := Options{Temperature: 1, XTC: XTC{Probability: 0.3, Threshold: 0.1}, Seed: 5}
	a, b := newSampler(t, 2, o), newSampler(t, 2, o)
	excluded := 0
	const positions = 4000
	history := make([]int32, positions)
	for n := range history {
		p, q := a.Distribution(logs(0.7, 0.3), history[:n]), b.Distribution(logs(0.6, 0.4), history[:n])
		if len(p) != len(q) {
			t.Fatalf("position %d: %v and %v", n, p, q)
		}
		if len(p) == 1 {
			excluded++
		}
	}
	if share := float64(excluded) / positions; math.Abs(share-0.3) > 0.03 { // 4 standard deviations
		t.Errorf("at %.3f of the positions", share)
	}
}

func TestParseOrder(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  []Step
	}{
		{nil, []Step{}},
		{[]string{"top_k", "temperature"}, []Step{StepTopK, StepTemperature}},
		{[]string{"top-n-sigma", "typical_p", "temp", "min-p"},
			[]Step{StepTopNSigma, StepTypicalP, StepTemperature, StepMinP}},
		{[]string{"edskypmxt"}, DefaultOrder()},
		{[]string{"kt"}, []Step{StepTopK, StepTemperature}},
		{[]string{"ki"}, []Step{StepTopK, StepInfill}},
		{[]string{"typ_p", "tfs_z", "typical_p", "adaptive_p"}, []Step{StepTypicalP, StepTypicalP}},
		{[]string{"top_k", "top_p", "infill"}, []Step{StepTopK, StepTopP, StepInfill}},
	} {
		if got, err := ParseOrder(c.names...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v, expected %v", c.names, got, err, c.want)
		}
	}
	for _, names := range [][]string{{"top_z"}, {""}, {"kz"}, {"top_k", "k"}} {
		if got, err := ParseOrder(names...); !errors.Is(err, ErrSampling) {
			t.Errorf("%q: %v, %v", names, got, err)
		}
	}
}

func TestStepsRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, o := range []Options{
		{TypicalP: 1.1}, {TypicalP: nan}, {TopNSigma: -1}, {XTC: XTC{Probability: 2}}, {XTC: XTC{Threshold: -1}},
		{Dynatemp: Dynatemp{Range: -1}}, {Dynatemp: Dynatemp{Exponent: nan}}, {Mirostat: Mirostat{Version: 3}},
		{Mirostat: Mirostat{Version: -1}}, {Mirostat: Mirostat{Tau: -1}}, {Mirostat: Mirostat{Eta: nan}},
		{DRY: DRY{Multiplier: -1}}, {DRY: DRY{Base: -1}},
		{DRY: DRY{Multiplier: 1, Base: 0.5}}, {DRY: DRY{AllowedLength: -1}}, {DRY: DRY{LastN: -2}},
		{DRY: DRY{Breakers: [][]int32{{}}}}, {Order: []Step{"x"}}, {TopK: 2, Order: []Step{StepTopK, StepTopK}},
		{Order: []Step{StepInfill}}, {Order: []Step{StepInfill}, Infill: Infill{Ends: []int32{1}}},
	} {
		if _, err := New(4, o); !errors.Is(err, ErrSampling) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(4, Options{Infill: Infill{Ends: []int32{4}}}); !errors.Is(err, ErrVocabulary) {
		t.Errorf("an end outside of the vocabulary: %v", err)
	}
	if _, err := New(4, Options{DRY: DRY{Base: 0.5}}); err != nil {
		t.Errorf("the base of what is off: %v", err)
	}
	if _, err := New(4, Options{Order: []Step{StepTopK, StepTopK}, TypicalP: 1}); err != nil {
		t.Errorf("twice what is off: %v", err)
	}
	if _, err := New(4, Options{Unpenalized: []int32{4}}); !errors.Is(err, ErrVocabulary) {
		t.Errorf("a token without penalties outside of the vocabulary: %v", err)
	}
	if _, err := New(4, Options{DRY: DRY{Breakers: [][]int32{{4}}}}); !errors.Is(err, ErrVocabulary) {
		t.Errorf("a breaker outside of the vocabulary: %v", err)
	}
}

// Every step that an order lacks is off in normalized options, and those that it has stay on.
func TestOrderTurnsStepsOff(t *testing.T) {
	all := Options{
		Temperature: 0.5, RepeatPenalty: 1.5, DRY: DRY{Multiplier: 1}, TopNSigma: 1, TopK: 9, TypicalP: 0.5, TopP: 0.5,
		MinP: 0.1, XTC: XTC{Probability: 0.5}, Infill: Infill{Pieces: pieces{}},
	}
	for _, one := range Steps() {
		o := all
		o.Order = []Step{one}
		o = o.Normalized()
		for _, step := range Steps() {
			on := step == one || step == StepTemperature // which is 1 then
			if o.on(step) != on || step == StepTemperature && (o.Temperature == 1) != (step != one) {
				t.Errorf("order %s: %s is %v, temperature %v", one, step, o.on(step), o.Temperature)
			}
		}
	}
}
