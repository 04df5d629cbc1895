package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Texts with repetitions, and what a token loses by hand.
func TestDRY(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       DRY
		history []int32
		want    map[int32]float64
	}{
		{"nothing repeats", DRY{Multiplier: 1}, []int32{0, 1, 2, 3}, nil},
		{"two tokens", DRY{Multiplier: 0.8}, []int32{0, 1, 2, 0, 1}, map[int32]float64{2: 0.8}},
		{"three tokens", DRY{Multiplier: 2, Base: 3}, []int32{4, 0, 1, 2, 4, 0, 1}, map[int32]float64{2: 6}},
		{"shorter than allowed", DRY{Multiplier: 1, AllowedLength: 4}, []int32{0, 1, 2, 3, 4, 0, 1}, nil},
		{"the longest of two", DRY{Multiplier: 1}, []int32{0, 1, 2, 3, 0, 1, 2, 4, 0, 1, 2},
			map[int32]float64{3: 1.75, 4: 1.75 * 1}},
		{"one token over and over", DRY{Multiplier: 1, Base: 2}, []int32{5, 5, 5, 5}, map[int32]float64{5: 2}},
		{"outside of the window", DRY{Multiplier: 1, LastN: 4}, []int32{0, 1, 2, 0, 1}, nil},
		{"inside", DRY{Multiplier: 1, LastN: 5}, []int32{0, 1, 2, 0, 1}, map[int32]float64{2: 1}},
		{"broken", DRY{Multiplier: 1, Breakers: [][]int32{{1}}}, []int32{0, 1, 2, 0, 1}, nil},
		{"broken by two", DRY{Multiplier: 1, Breakers: [][]int32{{0, 1}}}, []int32{0, 1, 2, 0, 1}, nil},
		{"the breaker itself", DRY{Multiplier: 1, Breakers: [][]int32{{3}}}, []int32{0, 1, 3, 4, 0, 1}, nil},
		{"broken before", DRY{Multiplier: 1, Breakers: [][]int32{{6}}}, []int32{0, 1, 2, 6, 0, 1}, map[int32]float64{2: 1}},
		{"as much as a bias may be", DRY{Multiplier: 1, Base: 1e6}, []int32{0, 1, 2, 3, 4, 0, 1, 2, 3},
			map[int32]float64{4: mostChange}},
	} {
		c.o = Options{DRY: c.o}.Normalized().DRY
		r := newRepetitions(&c.o)
		got := map[int32]float64{}
		r.penalties(&c.o, c.history, func(id int32, by float32) { got[id] += float64(by) })
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
		for id, by := range c.want {
			if math.Abs(got[id]-by) > 1e-5*by {
				t.Errorf("%s: token %d loses %v, expected %v", c.name, id, got[id], by)
			}
		}
	}
}

// Random texts of few tokens against a search of every place: cubic time, no tricks.
func TestDRYAgainstSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for trial := range 2000 {
		history := make([]int32, r.IntN(40))
		for i := range history {
			history[i] = int32(r.IntN(3))
		}
		o := DRY{Multiplier: 1, Base: 2, AllowedLength: 1 + r.IntN(3), LastN: r.IntN(30)}
		if r.IntN(2) == 0 {
			o.Breakers = [][]int32{{2, 1, 0}}
		}
		rep := newRepetitions(&o)
		got := map[int32]float32{}
		rep.penalties(&o, history, func(id int32, by float32) { got[id] = by })
		recent := history
		if o.LastN > 0 {
			recent = history[max(0, len(history)-o.LastN):]
		}
		most := len(recent)
		for at := len(recent) - 3; at >= 0 && len(o.Breakers) > 0; at-- {
			if slices.Equal(recent[at:at+3], o.Breakers[0]) {
				most = len(recent) - at - 3
				break
			}
		}
		for id := range int32(3) {
			longest := 0
			for end := 1; end < len(recent); end++ {
				if recent[end] != id {
					continue
				}
				n := 0
				for n < end && recent[end-1-n] == recent[len(recent)-1-n] {
					n++
				}
				longest = max(longest, min(n, most))
			}
			want := float32(0)
			if longest >= o.AllowedLength {
				want = float32(math.Pow(2, float64(longest-o.AllowedLength)))
			}
			if got[id] != want {
				t.Fatalf("trial %d, %v, %+v: token %d loses %v, expected %v", trial, history, o, id, got[id], want)
			}
		}
	}
}

// The penalty reaches the logits before the filters, and in the middle of them where Order says so.
func TestDRYInTheChain(t *testing.T) {
	history := []int32{0, 1, 2, 0, 1}
	x := logs(0.1, 0.2, 0.4, 0.3)
	o := Options{Temperature: 1, TopK: 1, DRY: DRY{Multiplier: 5}}
	if got := newSampler(t, 4, o).Distribution(x, history); !near(got, Prob{3, 1}) {
		t.Errorf("before top-k: %v", got)
	}
	o.Order = []Step{StepTopK, StepDRY}
	if got := newSampler(t, 4, o).Distribution(x, history); !near(got, Prob{2, 1}) {
		t.Errorf("after top-k: %v", got)
	}
	o.TopK = 2
	if got := newSampler(t, 4, o).Pick(x, history); got != 3 {
		t.Errorf("after top-k 2: picks %d", got)
	}
	o = Options{DRY: DRY{Multiplier: 5}, MinP: 0.1, Order: []Step{StepMinP, StepDRY}} // kept by id, and greedy
	if got := newSampler(t, 4, o).Pick(x, history); got != 3 {
		t.Errorf("after min-p: picks %d", got)
	}
	outside := []int32{2, 0, 9, 2, 0}
	if got := newSampler(t, 4, o).Pick(x, outside); got != 2 {
		t.Errorf("repetition of a token outside the vocabulary: picks %d", got)
	}
}
