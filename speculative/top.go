package speculative

import (
	"cmp"
	"slices"

	"github.com/specgo/spec/engine/sampling"
)

// top are the n greatest logits, as logarithms of probabilities, the greatest first and the lower id on a tie.
func top(row []float32, n int) []sampling.Prob {
	list := make([]sampling.Prob, 0, n+1)
	for id, x := range row {
		list = intoTop(list, sampling.Prob{ID: int32(id), P: x}, n)
	}
	if len(list) > 0 {
		// The logarithm of the sum of exponentials: one pass over the row for all of them.
		sum := list[0].P - sampling.LogProb(row, list[0].ID)
		for i := range list {
			list[i].P -= sum
		}
	}
	return list
}

// intoTop adds p to list, the n greatest so far, at least one, if it is among them. Ids come ascending.
func intoTop(list []sampling.Prob, p sampling.Prob, n int) []sampling.Prob {
	if len(list) == n && !(p.P > list[n-1].P) {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, p, func(a, b sampling.Prob) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.ID, b.ID))
	})
	if list = slices.Insert(list, at, p); len(list) > n {
		list = list[:n]
	}
	return list
}
