package engine

import (
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
		o := Sampling{Temperature: 0.7, Seed: uint64(round)}
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
		if o.TopP == 0 && o.TopK == 0 && len(s.kept) != len(all) || o.TopP == 0 && o.TopK > 0 && len(s.kept) != min(o.TopK, len(all)) {
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
