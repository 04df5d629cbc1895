package sampling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
)

func newSampler(tb testing.TB, vocab int, o Options) *Sampler {
	tb.Helper()
	s, err := New(vocab, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// logs are logits whose softmax is p.
func logs(p ...float32) []float32 {
	x := make([]float32, len(p))
	for i := range p {
		x[i] = float32(math.Log(float64(p[i])))
	}
	return x
}

// near reports whether a distribution is what was worked out by hand.
func near(got []Prob, want ...Prob) bool {
	return slices.EqualFunc(got, want, func(a, b Prob) bool { return a.ID == b.ID && math.Abs(float64(a.P-b.P)) < 1e-6 })
}

func TestFilters(t *testing.T) {
	p := []float32{0.1, 0.4, 0.05, 0.25, 0.2} // by likelihood: 1 3 4 0 2
	for _, c := range []struct {
		name string
		o    Options
		want []Prob
	}{
		{"temperature 1", Options{Temperature: 1}, []Prob{{0, 0.1}, {1, 0.4}, {2, 0.05}, {3, 0.25}, {4, 0.2}}},
		// p^2 over the sum of squares, 0.275
		{"temperature 1/2", Options{Temperature: 0.5},
			[]Prob{{0, 0.01 / 0.275}, {1, 0.16 / 0.275}, {2, 0.0025 / 0.275}, {3, 0.0625 / 0.275}, {4, 0.04 / 0.275}}},
		{"greedy", Options{}, []Prob{{1, 1}}},
		{"top-k 2", Options{Temperature: 1, TopK: 2}, []Prob{{1, 0.4 / 0.65}, {3, 0.25 / 0.65}}},
		{"top-k 9", Options{Temperature: 1, TopK: 9, MinP: 0.3}, []Prob{{1, 0.4 / 0.85}, {3, 0.25 / 0.85}, {4, 0.2 / 0.85}}},
		// 0.4 + 0.25 = 0.65 < 0.7, so the third is needed
		{"top-p 0.7", Options{Temperature: 1, TopP: 0.7}, []Prob{{1, 0.4 / 0.85}, {3, 0.25 / 0.85}, {4, 0.2 / 0.85}}},
		{"top-p 0.3", Options{Temperature: 1, TopP: 0.3}, []Prob{{1, 1}}},
		{"top-p 1", Options{Temperature: 1, TopP: 1, TopK: 1}, []Prob{{1, 1}}},
		// after top-k the three have 0.4/0.85 = 0.47, 0.29, 0.24: two reach 0.7
		{"top-k 3, top-p 0.7", Options{Temperature: 1, TopK: 3, TopP: 0.7}, []Prob{{1, 0.4 / 0.65}, {3, 0.25 / 0.65}}},
		// at least 0.55 * 0.4 = 0.22
		{"min-p 0.55", Options{Temperature: 1, MinP: 0.55}, []Prob{{1, 0.4 / 0.65}, {3, 0.25 / 0.65}}},
		{"min-p 1", Options{Temperature: 1, MinP: 1}, []Prob{{1, 1}}},
		// the filters see the probabilities before temperature
		{"min-p 0.55, hot", Options{Temperature: 1e9, MinP: 0.55}, []Prob{{1, 0.5}, {3, 0.5}}},
		// min-p comes after top-p: 0.7 of all takes three tokens, 0.7 of what min-p leaves (0.85) would take two
		{"top-p 0.7, min-p 0.3", Options{Temperature: 1, TopP: 0.7, MinP: 0.3},
			[]Prob{{1, 0.4 / 0.85}, {3, 0.25 / 0.85}, {4, 0.2 / 0.85}}},
		{"banned", Options{Temperature: 1, Banned: []int32{1, 2}},
			[]Prob{{0, 0.1 / 0.55}, {3, 0.25 / 0.55}, {4, 0.2 / 0.55}}},
		{"biased", Options{Temperature: 1, LogitBias: map[int32]float32{0: float32(math.Log(4)), 2: negInf}},
			[]Prob{{0, 0.4 / 1.25}, {1, 0.4 / 1.25}, {3, 0.25 / 1.25}, {4, 0.2 / 1.25}}},
		{"sequence", Options{Temperature: 1, TopK: 1, BannedSequences: [][]int32{{7, 8, 1}, {8, 7, 3}, {4}}}, []Prob{{3, 1}}},
	} {
		if got := newSampler(t, 9, c.o).Distribution(logs(p...), []int32{5, 7, 8}); !near(got, c.want...) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// TestTies: among equals the lower id is the likelier.
func TestTies(t *testing.T) {
	x := []float32{1, 3, 3, 2, 3}
	if got := newSampler(t, 5, Options{}).Pick(x, nil); got != 1 {
		t.Errorf("greedy picks %d", got)
	}
	if got := newSampler(t, 5, Options{Temperature: 1, TopK: 2}).Distribution(x, nil); !near(
		got, Prob{1, 0.5}, Prob{2, 0.5}) {
		t.Errorf("top-k 2 of three equals: %v", got)
	}
}

// TestTopPReached: top-p keeps no more once its share is reached exactly, with top-k and without.
func TestTopPReached(t *testing.T) {
	// of equals: no rounding
	for _, c := range []struct{ tokens, topK, want int }{{4, 0, 2}, {5, 2, 1}, {5, 4, 2}, {5, 3, 2}} {
		o := Options{Temperature: 1, TopK: c.topK, TopP: 0.5}
		if got := newSampler(t, c.tokens, o).Distribution(make([]float32, c.tokens), nil); len(got) != c.want {
			t.Errorf("top-k %d of %d equals: half of them is %v", c.topK, c.tokens, got)
		}
	}
}

// TestPenaltyWindow: by default 64 tokens count as seen lately.
func TestPenaltyWindow(t *testing.T) {
	history := slices.Repeat([]int32{1}, 64)
	history[0] = 0
	s := newSampler(t, 2, Options{RepeatPenalty: 2})
	if got := s.adjust([]float32{2, 4}, history); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("the 64th token from the end is not penalized: %v", got)
	}
	if got := s.adjust([]float32{2, 4}, append(history, 1)); !slices.Equal(got, []float32{2, 2}) {
		t.Errorf("the 65th token from the end is penalized: %v", got)
	}
}

// TestSeedBits: every bit of the seed changes the noise, in Pick with and without filters and in AppendBest.
func TestSeedBits(t *testing.T) {
	x := make([]float32, 1000)
	for _, o := range []Options{{Temperature: 1}, {Temperature: 1, TopK: 900}} {
		picks := func(seed uint64) (ids []int32) {
			o := o
			o.Seed = seed
			s := newSampler(t, len(x), o)
			for n := range 4 {
				h := make([]int32, n)
				best := s.AppendBest(nil, 1, x, h)[0].ID
				ids = append(ids, s.Pick(x, h), best)
				if best != ids[2*n] {
					t.Errorf("seed %#x: the best is %d, the pick %d", seed, best, ids[2*n])
				}
			}
			return ids
		}
		zero := picks(0)
		for bit := range 64 {
			if slices.Equal(picks(1<<bit), zero) {
				t.Errorf("%+v: bit %d of the seed changes nothing", o, bit)
			}
		}
	}
}

func TestPenalties(t *testing.T) {
	x := []float32{2, -1, 0.5, 3}
	history := []int32{3, 0, 1, 1, 0, 1}
	for _, c := range []struct {
		name string
		o    Options
		want []float32
	}{
		{"repeat", Options{RepeatPenalty: 2}, []float32{1, -2, 0.5, 1.5}},
		{"repeat over 5", Options{RepeatPenalty: 2, PenaltyLastN: 5}, []float32{1, -2, 0.5, 3}},
		{"frequency", Options{FrequencyPenalty: 0.25}, []float32{1.5, -1.75, 0.5, 2.75}},
		{"presence", Options{PresencePenalty: 0.25, PenaltyLastN: -1}, []float32{1.75, -1.25, 0.5, 2.75}},
		{"all over 2", Options{RepeatPenalty: 2, FrequencyPenalty: 0.5, PresencePenalty: 0.125, PenaltyLastN: 2},
			[]float32{2/2 - 0.625, -1*2 - 0.625, 0.5, 3}},
		{"all over 200", Options{RepeatPenalty: 1, FrequencyPenalty: -1, PenaltyLastN: 200}, []float32{4, 2, 0.5, 4}},
	} {
		s := newSampler(t, 4, c.o)
		for range 2 { // the scratch is clean afterwards
			if got := s.adjust(x, history); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, expected %v", c.name, got, c.want)
			}
		}
	}
	if !slices.Equal(x, []float32{2, -1, 0.5, 3}) {
		t.Errorf("the logits were changed: %v", x)
	}
	// Tokens of the history that have no logit do no harm.
	newSampler(t, 4, Options{RepeatPenalty: 2}).Pick(x, []int32{-1, 4, 1 << 30})
}

// No end of text is chosen before the least number of generated tokens; then it may be.
func TestMinTokens(t *testing.T) {
	s := newSampler(t, 3, Options{MinTokens: 2, Ends: []int32{1}, ConstraintFrom: 3})
	for n, want := range []int32{2: 0, 3: 0, 4: 0, 5: 1, 6: 1} {
		if got := s.Pick([]float32{1, 2, 0}, make([]int32, n)); n >= 3 && got != want {
			t.Errorf("after %d tokens: %d, expected %d", n, got, want)
		}
	}
}

// As many as there can be are more than any text has.
func TestMostMinTokens(t *testing.T) {
	s := newSampler(t, 2, Options{MinTokens: math.MaxInt, Ends: []int32{1}, ConstraintFrom: 1})
	if id := s.Pick([]float32{0, 1}, []int32{0}); id != 0 {
		t.Errorf("token %d ends the text", id)
	}
}

func TestBannedSequences(t *testing.T) {
	s := newSampler(t, 4, Options{BannedSequences: [][]int32{{0, 1, 3}, {2}}})
	x := []float32{0, 1, 3, 2}
	for _, c := range []struct {
		history []int32
		want    int32
	}{
		{nil, 3}, {[]int32{1}, 3}, {[]int32{0, 1}, 1}, {[]int32{3, 0, 1}, 1}, {[]int32{0, 1, 0}, 3},
	} {
		if got := s.Pick(x, c.history); got != c.want {
			t.Errorf("after %d: %d, expected %d", c.history, got, c.want)
		}
	}
}

func TestNothingLeft(t *testing.T) {
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 2, TopP: 0.5},
		{Temperature: 1, TopP: 0.5, MinP: 0.1}} {
		o.Banned = []int32{0, 1}
		s := newSampler(t, 2, o)
		if got := s.Pick([]float32{1, 2}, nil); got != -1 {
			t.Errorf("%+v: picked %d of no tokens", o, got)
		}
		if got := s.Distribution([]float32{1, 2}, nil); len(got) != 0 {
			t.Errorf("%+v: %v of no tokens", o, got)
		}
	}
	nan := float32(math.NaN())
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 2}} {
		if got := newSampler(t, 3, o).Pick([]float32{nan, 2, nan}, nil); got != 1 {
			t.Errorf("%+v: picked %d beside NaNs", o, got)
		}
	}
	// A draft's vocabulary may be padded less.
	if got := newSampler(t, 9, Options{Temperature: 1, Banned: []int32{8},
		LogitBias: map[int32]float32{7: 1}}).Pick([]float32{5}, []int32{8}); got != 0 {
		t.Errorf("picked %d of one logit", got)
	}
}

// TestGumbel draws with every filter and compares with the distribution: Pearson's chi-squared.
func TestGumbel(t *testing.T) {
	x := []float32{0.3, -1, 2, 1.2, 0, -2.5, 1.9, 0.7}
	for _, o := range []Options{{Temperature: 1}, {Temperature: 0.6}, {Temperature: 2, TopK: 5},
		{Temperature: 0.8, TopP: 0.9}, {Temperature: 1.5, MinP: 0.1}, {Temperature: 1, LogitBias: map[int32]float32{1: 3}}} {
		const draws = 20000
		o.Seed = 11
		s := newSampler(t, len(x), o)
		var count [8]int
		history := make([]int32, draws)
		for i := range draws {
			count[s.Pick(x, history[:i])]++
		}
		chi, cells := 0.0, 0
		for _, p := range s.Distribution(x, nil) {
			expected := draws * float64(p.P)
			d := float64(count[p.ID]) - expected
			chi += d * d / expected
			cells++
			count[p.ID] = 0
		}
		if count != [8]int{} {
			t.Errorf("%+v: tokens outside the distribution were drawn: %v", o, count)
		}
		// The 0.999 quantile for up to 7 degrees of freedom is 24.3.
		if chi > 24.3 {
			t.Errorf("%+v: chi-squared %.1f over %d cells", o, chi, cells)
		}
	}
}

// TestNoise: what is drawn depends on seed and position, and on the history through them only.
func TestNoise(t *testing.T) {
	x := make([]float32, 1000)
	a, b := newSampler(t, 1000, Options{Temperature: 1, Seed: 1}), newSampler(t, 1000, Options{Temperature: 1, Seed: 2})
	if got, again := a.Pick(x, []int32{1, 2}), a.Pick(x, []int32{5, 6}); got != again {
		t.Errorf("%d, then %d at the same position", got, again)
	}
	if a.Pick(x, []int32{1}) == a.Pick(x, []int32{1, 2}) || a.Pick(x, nil) == b.Pick(x, nil) {
		t.Error("positions or seeds share their noise")
	}
	// Filters that let everything pass change nothing: all ways through the sampler use one noise.
	for n := range 20 {
		h := make([]int32, n)
		want := a.Pick(x, h)
		for _, o := range []Options{{TopK: 999, Banned: []int32{(want + 1) % 1000}}, {MinP: 0.5}} {
			o.Temperature, o.Seed = 1, 1
			if got := newSampler(t, 1000, o).Pick(x, h); got != want {
				t.Errorf("%+v: %d, expected %d", o, got, want)
			}
		}
	}
}

func TestUniform(t *testing.T) {
	seen := map[float64]bool{}
	sum := 0.0
	for i := range 1000 {
		for purpose := range uint64(3) {
			u := Uniform(3, i, 1+purpose, 0)
			if u < 0 || u >= 1 || seen[u] {
				t.Fatalf("Uniform gives %v (seen: %v)", u, seen[u])
			}
			seen[u] = true
			sum += u
		}
	}
	if mean := sum / 3000; math.Abs(mean-0.5) > 0.02 {
		t.Errorf("mean %v", mean)
	}
}

func TestSamplingRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		o    Options
		want error
	}{
		{Options{Temperature: nan}, ErrSampling}, {Options{Temperature: -1}, ErrSampling},
		{Options{Temperature: inf}, ErrSampling},
		{Options{TopK: -1}, ErrSampling}, {Options{TopP: 1.5}, ErrSampling}, {Options{TopP: nan}, ErrSampling},
		{Options{MinP: -0.1}, ErrSampling},
		{Options{RepeatPenalty: -1}, ErrSampling}, {Options{RepeatPenalty: 1e-30}, ErrSampling},
		{Options{RepeatPenalty: 1e30}, ErrSampling},
		{Options{FrequencyPenalty: 1e30}, ErrSampling}, {Options{PresencePenalty: -1e30}, ErrSampling},
		{Options{LogitBias: map[int32]float32{1: 1e30}}, ErrSampling},
		{Options{LogitBias: map[int32]float32{1: -1e30}}, ErrSampling},
		{Options{LogitBias: map[int32]float32{1: inf}}, ErrSampling}, {Options{FrequencyPenalty: nan}, ErrSampling},
		{Options{PresencePenalty: inf}, ErrSampling},
		{Options{PenaltyLastN: -3}, ErrSampling}, {Options{LogitBias: map[int32]float32{1: nan}}, ErrSampling},
		{Options{LogitBias: map[int32]float32{10: 1}}, ErrVocabulary},
		{Options{Banned: []int32{-1}}, ErrVocabulary}, {Options{BannedSequences: [][]int32{{1, 10}}}, ErrVocabulary},
		{Options{BannedSequences: [][]int32{{}}}, ErrSampling},
	} {
		if _, err := New(10, c.o); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, expected %v", c.o, err, c.want)
		}
	}
}

// TestExtremeOptions: the greatest values that are accepted neither panic nor overflow, with extreme logits either.
func TestExtremeOptions(t *testing.T) {
	x := []float32{math.MaxFloat32, -math.MaxFloat32, 1}
	history := slices.Repeat([]int32{0, 1}, 50)
	for _, o := range []Options{
		{TopK: math.MaxInt}, {PenaltyLastN: math.MaxInt, RepeatPenalty: 1e6}, {RepeatPenalty: 1e-6}, {FrequencyPenalty: 1e6},
		{FrequencyPenalty: -1e6, PresencePenalty: -1e6},
		{LogitBias: map[int32]float32{0: 1e6, 1: -1e6}}, {TopP: math.SmallestNonzeroFloat32},
		{MinP: math.SmallestNonzeroFloat32},
	} {
		for _, temperature := range []float32{0, math.SmallestNonzeroFloat32, 1, math.MaxFloat32} {
			o.Temperature = temperature
			s := newSampler(t, 3, o)
			if id := s.Pick(x, history); id < 0 || id > 2 {
				t.Errorf("%+v: picked %d", o, id)
			}
			sum := float32(0)
			for _, p := range s.Distribution(x, history) {
				sum += p.P
			}
			if !(sum > 0.999 && sum < 1.001) {
				t.Errorf("%+v: probabilities sum to %v", o, sum)
			}
			for _, n := range []int{math.MinInt, -1, 0, 2, math.MaxInt} {
				got := s.AppendBest(nil, n, append(x[:3:3], math.MaxFloat32), history) // one more than tokens
				if n < 1 && len(got) != 0 || n > 1 && len(got) == 0 ||
					slices.ContainsFunc(got, func(p Prob) bool { return p.ID > 2 }) {
					t.Errorf("%+v: the best %d are %v", o, n, got)
				}
			}
		}
	}
}

func TestLogProb(t *testing.T) {
	if got := LogProb(logs(0.5, 0.25, 0.25), 1); math.Abs(float64(got)-math.Log(0.25)) > 1e-6 {
		t.Errorf("log 0.25 is %v", got)
	}
	if got := Probability(logs(0.5, 0.25, 0.25), 1); math.Abs(float64(got)-0.25) > 1e-6 {
		t.Errorf("Probability %v", got)
	}
	if got := Probability([]float32{1}, 1); got != 0 {
		t.Errorf("Probability outside the vocabulary: %v", got)
	}
	if got := LogProb([]float32{1}, 1); got != negInf {
		t.Errorf("a token without a logit has %v", got)
	}
	x := make([]float32, 1000)
	for i := range x {
		x[i] = float32(i%7) / 3
	}
	sum := 0.0
	for id := range x {
		sum += math.Exp(float64(LogProb(x, int32(id))))
	}
	if math.Abs(sum-1) > 1e-4 {
		t.Errorf("probabilities sum to %v", sum)
	}
	if n := testing.AllocsPerRun(100, func() { LogProb(x, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The best n are what Pick chooses when those before are banned, one after the other.
func TestBest(t *testing.T) {
	const vocab, n = 1000, 5
	x := make([]float32, vocab)
	for i := range x {
		x[i] = float32(i*i%97) / 10 // with many ties
	}
	for _, o := range []Options{
		{}, {RepeatPenalty: 1.5, FrequencyPenalty: 0.3}, {Temperature: 1},
		{Temperature: 0.8, LogitBias: map[int32]float32{3: 9}},
		{Temperature: 0.8, MinP: 0.5}, {Temperature: 0.7, TopP: 0.5}, {Temperature: 1.5, TopK: 300, Seed: 4},
	} {
		for at := range 20 {
			history := randommodel.Tokens(at, vocab, 1)
			got := newSampler(t, vocab, o).AppendBest([]Prob{{ID: 7}}, n, x, history)[1:]
			if len(got) != n {
				t.Fatalf("%+v: %v", o, got)
			}
			ban, sum := o, float32(0)
			for i, p := range got {
				if want := newSampler(t, vocab, ban).Pick(x, history); want != p.ID &&
					(i == 0 || !newSampler(t, vocab, o).filters()) {
					t.Errorf("%+v, after %d tokens: choice %d is %d, want %d", o, at, i, p.ID, want)
				}
				if i > 0 && p.P > got[i-1].P {
					t.Errorf("%+v: not in order: %v", o, got)
				}
				ban.Banned = append(slices.Clone(ban.Banned), p.ID)
				sum += p.P
			}
			if sum <= 0 || sum > 1+1e-5 || o.Temperature > 0 && sum < 1-1e-5 {
				t.Errorf("%+v: chances sum to %v", o, sum)
			}
		}
	}
	if got := newSampler(t, 3, Options{Banned: []int32{0, 1}}).AppendBest(nil, n, []float32{1, 2, 3}, nil); len(
		got) != 1 || got[0].ID != 2 {
		t.Errorf("one token left: %v", got)
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	x := make([]float32, 500)
	for i := range x {
		x[i] = float32(i*i%97) / 10
	}
	history := randommodel.Tokens(100, 500, 1)
	for _, o := range []Options{{}, {Temperature: 1},
		{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, LogitBias: map[int32]float32{3: 1}},
		{Temperature: 0.8, TopP: 0.95},
		{Temperature: 0.8, TypicalP: 0.9, TopNSigma: 2, XTC: XTC{0.5, 0.1}, Dynatemp: Dynatemp{Range: 0.2}},
		{Temperature: 0.8, DRY: DRY{Multiplier: 1, AllowedLength: 1}, Order: []Step{StepTopK, StepDRY}, TopK: 20},
		{Temperature: 0.8, Mirostat: Mirostat{Version: 2}}} {
		s := newSampler(t, 500, o)
		s.Pick(x, history)
		if n := testing.AllocsPerRun(50, func() { s.Pick(x, history) }); n != 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
		best := s.AppendBest(nil, 4, x, history)
		if n := testing.AllocsPerRun(50, func() { best = s.AppendBest(best[:0], 4, x, history) }); n != 0 {
			t.Errorf("%+v: %v allocations for the best", o, n)
		}
	}
}

// A penalty leaves a token that the model rules out impossible.
func TestPenaltyOfAnImpossibleToken(t *testing.T) {
	for _, o := range []Options{{RepeatPenalty: 1.5}, {PresencePenalty: -5}} {
		s, err := New(2, o)
		if err != nil {
			t.Fatal(err)
		}
		if id := s.Pick([]float32{negInf, negInf}, []int32{0, 1}); id != -1 {
			t.Errorf("%+v: token %d", o, id)
		}
	}
}

// Tokens without penalties keep their logits, first and behind filters; what others lose does not change.
func TestUnpenalizedTokens(t *testing.T) {
	for _, order := range [][]Step{nil, {StepTopK, StepPenalties}} {
		o := Options{Temperature: 1, TopK: 3, RepeatPenalty: 1.5, PresencePenalty: 1, FrequencyPenalty: 0.5, Order: order}
		x, history := []float32{1, 2, 3}, []int32{0, 1, 1, 2}
		all := newSampler(t, 3, o).Distribution(x, history)
		o.Unpenalized = []int32{1}
		some := newSampler(t, 3, o).Distribution(x, history)
		ratio := some[0].P / some[2].P * all[2].P / all[0].P
		// the logit 2 was 2/1.5-1-2*0.5
		want := math.Exp(2 - (2/1.5 - 1 - 2*0.5))
		if got := float64(some[1].P / some[0].P * all[0].P / all[1].P); math.Abs(float64(ratio)-1) > 1e-4 ||
			math.Abs(got/want-1) > 1e-4 {
			t.Errorf("%v: %v, with penalties %v", order, some, all)
		}
	}
}

// Options are checked without what a sampler has: of any number of biases nothing is made, and of several that are
// wrong the lowest id is named.
func TestOptionsAreCheckedWithoutASampler(t *testing.T) {
	const vocab = 10_000
	o := Options{Temperature: 1, LogitBias: map[int32]float32{}}
	for id := range int32(vocab) {
		o.LogitBias[id] = 1
	}
	if n := testing.AllocsPerRun(5, func() {
		if err := o.Check(vocab); err != nil {
			t.Fatal(err)
		}
	}); n > 20 {
		t.Errorf("%v allocations", n)
	}
	if _, err := New(vocab, o); err != nil {
		t.Error(err)
	}
	for _, id := range []int32{vocab + 7, vocab, 900, 17, -3} {
		if o.LogitBias[id] = float32(math.NaN()); id < 0 || id >= vocab {
			o.LogitBias[id] = 1
		}
		err := o.Check(vocab)
		if _, again := New(vocab, o); err == nil || again == nil || again.Error() != err.Error() ||
			!strings.Contains(err.Error(), fmt.Sprint(id)) {
			t.Errorf("token %d: %v, %v", id, err, again)
		}
	}
}
