package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gumbelOf is the noise of a token at a position.
func gumbelOf(seed uint64, position int, id int32) float32 {
	s := Sampler{o: Options{Temperature: 1, Seed: seed}, vocab: int(id) + 1}
	x := slices.Repeat([]float32{negInf}, int(id)+1)
	x[id] = 0
	s.rank(x, noiseKey(seed, position), 1)
	return s.kept[0].x
}

// rows are random logits, a row for each position.
func rows(seed uint64, positions, vocab int) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	list := make([][]float32, positions)
	for i := range list {
		list[i] = make([]float32, vocab)
		for j := range list[i] {
			list[i][j] = float32(4 * r.NormFloat64())
		}
	}
	return list
}

// A text of both versions, step by step against the paper's algorithm in float64.
func TestMirostat(t *testing.T) {
	const vocab, prompt = 300, 3
	for _, version := range []int{1, 2} {
		o := Options{Temperature: 0.9, TopK: 1, Seed: 7, Mirostat: Mirostat{version, 3, 0.2}, ConstraintFrom: prompt}
		s := newSampler(t, vocab, o)
		history := []int32{1, 2, 3}
		mu := 6.0
		for step, x := range rows(1, 200, vocab) {
			order := make([]int32, vocab)
			p := make([]float64, vocab)
			sum := 0.0
			for i, v := range x {
				order[i], p[i] = int32(i), math.Exp(float64(v)/0.9)
				sum += p[i]
			}
			slices.SortFunc(order, func(a, b int32) int {
				if x[a] > x[b] {
					return -1
				}
				return 1
			})
			kept := 1
			switch version {
			case 2:
				for kept < vocab && -math.Log2(p[order[kept]]/sum) <= mu {
					kept++
				}
			case 1:
				var tb, tt float64
				for i := range 99 {
					b := math.Log(p[order[i]] / p[order[i+1]])
					u := math.Log(float64(i+2) / float64(i+1))
					tb, tt = tb+u*b, tt+u*u
				}
				e := tb / tt
				k := math.Pow((e-1)*math.Pow(2, mu)/(1-math.Pow(vocab, 1-e)), 1/e)
				kept = max(1, min(vocab, int(k)))
			}
			dist := s.Distribution(x, history)
			if len(dist) != kept {
				t.Fatalf("version %d, token %d: %d tokens are left, expected %d (mu %.3f)", version, step, len(dist), kept, mu)
			}
			id := s.Pick(x, history)
			left := 0.0
			for _, id := range order[:kept] {
				left += p[id]
			}
			mu -= 0.2 * (-math.Log2(p[id]/left) - 3)
			history = append(history, id)
		}
	}
}

// Of an order only the penalties count, where it lists them; the temperature is taken in any case.
func TestMirostatOrder(t *testing.T) {
	const vocab = 20
	x, history := rows(2, 1, vocab)[0], []int32{1, 2, 3, 1, 2}
	plain := Options{Temperature: 0.5, TopK: 1, Mirostat: Mirostat{Version: 2, Tau: 3}, ConstraintFrom: len(history)}
	all := plain
	all.RepeatPenalty, all.DRY.Multiplier = 3, 5
	without := func(o Options) Options { o.RepeatPenalty = 0; return o }
	for _, c := range []struct {
		order []Step
		same  Options
	}{
		{[]Step{}, plain}, {[]Step{StepTopK, StepTemperature}, plain}, {[]Step{StepMinP, StepTopK}, plain},
		{[]Step{StepTopK, StepDRY}, without(all)}, {[]Step{StepPenalties, StepDRY}, all}, {DefaultOrder(), all},
	} {
		o := all
		o.Order = c.order
		got := newSampler(t, vocab, o).Distribution(x, history)
		if want := newSampler(t, vocab, c.same).Distribution(x, history); !slices.Equal(got, want) {
			t.Errorf("%v: %v, expected %v", c.order, got, want)
		}
	}
}

// The bound of a path is that of its own tokens: a draft tree's branches, asked for in the order of a search, have
// what a sampler says that sees one of them alone; and a path that is cut back goes on as if it had not been longer.
func TestMirostatOnATree(t *testing.T) {
	const vocab = 50
	o := Options{Temperature: 1, Seed: 3, Mirostat: Mirostat{Version: 2, Tau: 2, Eta: 0.5}, ConstraintFrom: 1}
	row := func(history []int32) []float32 { // depends on the history
		seed := uint64(9)
		for _, id := range history {
			seed = seed*31 + uint64(id)
		}
		return rows(seed, 1, vocab)[0]
	}
	alone := func(history []int32) []Prob {
		s := newSampler(t, vocab, o)
		var dist []Prob
		for n := 1; n <= len(history); n++ {
			dist = s.Distribution(row(history[:n]), history[:n])
		}
		return dist
	}
	s := newSampler(t, vocab, o)
	trunk := []int32{1}
	r := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		var walk func(history []int32, depth int)
		walk = func(history []int32, depth int) {
			dist := s.Distribution(row(history), history)
			if !slices.Equal(dist, alone(history)) {
				t.Fatalf("history %v: another distribution than alone", history)
			}
			for range depth {
				walk(append(slices.Clone(history), dist[r.IntN(len(dist))].ID), depth-1)
			}
		}
		walk(trunk, 2)
		trunk = append(trunk, s.Pick(row(trunk), trunk))
	}
}

// A token that a constraint leaves no choice for has no surprise: the bound rises by Eta * Tau.
func TestMirostatForced(t *testing.T) {
	o := Options{Temperature: 1, Mirostat: Mirostat{Version: 2}, Banned: []int32{0, 1, 3}}
	s := newSampler(t, 4, o)
	history := []int32{}
	for n := range 5 {
		if id := s.Pick(logs(0.4, 0.3, 0.2, 0.1), history); id != 2 {
			t.Fatalf("picks %d", id)
		}
		want := 2*defaultTau + float64(n)*defaultEta*defaultTau
		if got := s.surprise.mu[n]; math.Abs(float64(got)-want) > 1e-5 {
			t.Errorf("bound %v after %d tokens, expected %v", got, n, want)
		}
		history = append(history, 2)
	}
}

// Block verification goes back several positions, also where the whole of a large vocabulary could be chosen at each.
func TestMirostatGoesBack(t *testing.T) {
	const vocab, drafted, accepted = 100000, 8, 3
	o := Options{Temperature: 1, Mirostat: Mirostat{Version: 2, Tau: 1000}}
	logits := make([]float32, vocab)
	walk := func(s *Sampler, history []int32, n int) []int32 {
		for range n {
			s.Pick(logits, history)
			history = append(history, int32(len(history)))
		}
		return history
	}
	s, plain := newSampler(t, vocab, o), newSampler(t, vocab, o)
	drafts := walk(s, nil, drafted)
	walk(plain, nil, accepted+1)
	text := append(drafts[:accepted:accepted], vocab-1)
	got, want := s.surprise.bound(s.o.Mirostat, text, 0), plain.surprise.bound(s.o.Mirostat, text, 0)
	if got != want {
		t.Errorf("the bound is %g after drafts, %g without", got, want)
	}
}
