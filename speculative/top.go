package speculative

import (
	"cmp"
	"slices"

	"github.com/specgo/spec/engine/sampling"
)

// top are the n greatest logits, as logarithms of probabilities, the greatest first and the lower id on a tie.
func top(row []float32, n int) []sampling.Prob {
	r := newRanking(n, len(row))
	for id, x := range row {
		r.add(sampling.Prob{ID: int32(id), P: x})
	}
	list := r.sorted()
	if len(list) > 0 {
		// The logarithm of the sum of exponentials: one pass over the row for all of them.
		sum := list[0].P - sampling.LogProb(row, list[0].ID)
		for i := range list {
			list[i].P -= sum
		}
	}
	return list
}

// ranking is the most likely of the tokens that were added, so many at most: a heap whose first element is the last of
// them in order. It takes time O(v log n) for n of v tokens.
type ranking struct{ list []sampling.Prob }

// newRanking is for n of tokens that are so many at most.
func newRanking(n, tokens int) ranking { return ranking{make([]sampling.Prob, 0, min(n, tokens))} }

// byRank is the order of a ranking: the more likely token first, the lower id of equals.
func byRank(a, b sampling.Prob) int { return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.ID, b.ID)) }

// add adds a token.
func (r *ranking) add(p sampling.Prob) {
	h := r.list
	if len(h) < cap(h) {
		i := len(h)
		h = append(h, p)
		for ; i > 0 && byRank(h[(i-1)/2], p) < 0; i = (i - 1) / 2 {
			h[i] = h[(i-1)/2]
		}
		h[i], r.list = p, h
		return
	}
	if len(h) == 0 || byRank(p, h[0]) > 0 {
		return
	}
	i := 0
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && byRank(h[child+1], h[child]) > 0 {
			child++
		}
		if byRank(h[child], p) < 0 {
			break
		}
		h[i], i = h[child], child
	}
	h[i] = p
}

// sorted is the tokens in order.
func (r *ranking) sorted() []sampling.Prob {
	slices.SortFunc(r.list, byRank)
	return r.list
}
