package sampling

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/tensor"
)

// TestFiltersAgainstSorting: heaps and skipped chunks choose what a sorted list of all tokens would.
func TestFiltersAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		x := make([]float32, 1+r.IntN(2000))
		for i := range x {
			x[i] = float32(r.IntN(80)) / 2 // many ties
			if r.IntN(9) == 0 {
				x[i] = negInf
			}
		}
		o := Options{Temperature: 0.7, Seed: uint64(round)}
		if round%2 == 1 {
			o.TopK = 1 + r.IntN(len(x)+5)
		}
		if round%4 > 1 {
			o.TopP = r.Float32()
		}
		s := newSampler(t, len(x), o)
		s.filter(x, nil)
		all := make([]candidate, 0, len(x))
		for id, v := range x {
			if v > negInf {
				all = append(all, candidate{int32(id), v})
			}
		}
		if o.TopK > 0 && o.TopK < len(x) || o.TopP > 0 && o.TopP < 1 {
			slices.SortStableFunc(all, func(a, b candidate) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
		}
		if len(s.kept) > len(all) || !slices.Equal(s.kept, all[:len(s.kept)]) {
			t.Fatalf("round %d, %+v: kept %v of %v", round, o, s.kept, all)
		}
		if o.TopP == 0 && o.TopK == 0 && len(s.kept) != len(all) || o.TopP == 0 && o.TopK > 0 &&
			len(s.kept) != min(o.TopK, len(all)) {
			t.Fatalf("round %d, %+v: kept %d of %d", round, o, len(s.kept), len(all))
		}
		best, bestX := int32(-1), negInf
		key := noiseKey(o.Seed, 0)
		for _, c := range s.kept {
			v := (c.x-s.maximum)/o.Temperature + tensor.Noise(key, uint32(c.id))
			if v > bestX || v == bestX && c.id < best {
				best, bestX = c.id, v
			}
		}
		if got := s.Pick(x, nil); got != best {
			t.Fatalf("round %d, %+v: picked %d, want %d", round, o, got, best)
		}
	}
}

// TestNucleusFarBelow: tokens far below the greatest are kept where the share of top-p needs them, those exactly at the
// bound between near and far too.
func TestNucleusFarBelow(t *testing.T) {
	for _, c := range []struct {
		tokens   int
		greatest float32
		topP     float32
	}{
		{100000, 11, 0.9}, // e^11 of 159873: most of the share is below
		{100000, 10, 0.9}, // all others lie at the bound
		{50, 10, 0.9999},
	} {
		x := make([]float32, c.tokens)
		x[7] = c.greatest
		e := math.Exp(float64(c.greatest))
		others := float64(c.topP)*(float64(c.tokens-1)+e) - e // of weight 1 each
		got := newSampler(t, len(x), Options{Temperature: 1, TopP: c.topP}).Distribution(x, nil)
		if n := float64(len(got) - 1); math.Abs(n-others) > 1+0.005*others {
			t.Errorf("greatest %v, top-p %v: %v others kept, expected %.1f", c.greatest, c.topP, n, others)
		}
	}
}
