package sampling

import (
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// candidate is a token that may still be chosen.
type candidate struct {
	id int32
	x  float32
}

// keep inserts c into the n best of s.kept, which are in order.
func (s *Sampler) keep(c candidate, n int) {
	i := len(s.kept)
	for i > 0 && c.before(s.kept[i-1]) {
		i--
	}
	if len(s.kept) == n {
		s.kept = s.kept[:n-1]
	}
	s.kept = slices.Insert(s.kept, i, c)
}

// filters reports whether there is more to do than to divide by the temperature.
func (s *Sampler) filters() bool {
	only := len(s.plan.filters) == 0 || len(s.plan.filters) == 1 && s.plan.filters[0] == StepTemperature
	return !only || !s.plan.usual
}

// filter leaves in s.kept the tokens that may be chosen, with their logits after penalties, bias
// and bans; in s.maximum the greatest of these. The order of s.kept is that of ids if no filter was
// on, else of falling probability.
func (s *Sampler) filter(logits []float32, history []int32) {
	x := s.adjust(logits, history)
	if x == nil {
		s.x = append(s.x[:0], logits[:min(len(logits), s.vocab)]...)
		x = s.x
	}
	s.kept = s.kept[:0]
	s.maximum, s.divisor = negInf, s.o.Temperature
	if i := greatest(x); i >= 0 {
		s.maximum = x[i]
	}
	if !s.plan.usual {
		s.chain(x, history)
		if s.o.Mirostat.Version > 0 {
			s.mirostat(history)
		}
		s.maximum = s.most()
		return
	}
	topK, topP := s.o.TopK, s.o.TopP
	if topK >= len(x) {
		topK = 0
	}
	if topP >= 1 {
		topP = 0
	}
	least := negInf
	if s.o.MinP > 0 {
		least = s.maximum + tensor.Log(s.o.MinP)
	}
	if topK == 0 && topP == 0 {
		for id, v := range x {
			if v > negInf && !(v < least) {
				s.kept = append(s.kept, candidate{int32(id), v})
			}
		}
		return
	}
	s.mostProbable(x, topK, topP)
	s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.x < least })
}

// mostProbable fills s.kept with the tokens that top-k and top-p keep, the most probable first and the
// lower id first among equals. topK and topP are 0 where they are off, not both.
func (s *Sampler) mostProbable(x []float32, topK int, topP float32) {
	if topK == 0 {
		s.nucleus(x, topP)
		return
	}
	// The k most probable so far are a heap whose first element is the least probable: a token that does not come
	// before it is out.
	h := s.heap[:0]
	for first := 0; first < len(x); first += pickChunk {
		chunk := x[first:min(first+pickChunk, len(x))]
		if len(h) == topK && !(chunk[tensor.ArgMax(chunk)] > h[0].x) {
			continue
		}
		for i, v := range chunk {
			switch c := (candidate{int32(first + i), v}); {
			case !(v > negInf):
			case len(h) < topK:
				if h = append(h, c); len(h) == topK {
					heapify(h, after)
				}
			case v > h[0].x: // among equals those found earlier have the lower ids
				h[0] = c
				sift(h, 0, after)
			}
		}
	}
	slices.SortFunc(h, candidate.compare)
	s.heap, s.kept = h, append(s.kept, h...)
	if topP == 0 {
		return
	}
	s.p = s.p[:0]
	for _, c := range s.kept {
		s.p = append(s.p, c.x)
	}
	_, sum := tensor.ExpSum(s.p)
	var reached float32
	for i, p := range s.p {
		if reached += p; reached >= float32(topP*sum) {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// nucleus fills s.kept with the most probable tokens that together reach topP. Those far below the greatest are
// examined only where the others do not suffice.
func (s *Sampler) nucleus(x []float32, topP float32) {
	s.p = append(s.p[:0], x...)
	_, sum := tensor.ExpSum(s.p)
	reached, above := float32(0), float32(math.Inf(1))
	for _, least := range [...]float32{s.maximum - 10, negInf} {
		if reached >= float32(topP*sum) {
			return
		}
		s.heap = s.heap[:0]
		for id, v := range x {
			if v > negInf && v >= least && v < above {
				s.heap = append(s.heap, candidate{int32(id), v})
			}
		}
		heapify(s.heap, candidate.before)
		for len(s.heap) > 0 && reached < float32(topP*sum) {
			c := s.pop()
			s.kept = append(s.kept, c)
			reached += s.p[c.id]
		}
		above = least
	}
}

// before is the order of probability: the greater logit first, the lower id among equals.
func (c candidate) before(d candidate) bool { return c.x > d.x || c.x == d.x && c.id < d.id }

// compare is before, for sorting.
func (c candidate) compare(d candidate) int {
	if c.before(d) {
		return -1
	}
	return 1
}

// after is the reverse of before.
func after(c, d candidate) bool { return d.before(c) }

// heapify makes h a heap whose first element comes before all others in the order of first.
func heapify(h []candidate, first func(c, d candidate) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sift(h, i, first)
	}
}

// pop takes the first element off the heap.
func (s *Sampler) pop() candidate {
	h := s.heap
	first := h[0]
	h[0] = h[len(h)-1]
	s.heap = h[:len(h)-1]
	sift(s.heap, 0, candidate.before)
	return first
}

// sift moves element i of a heap down to its place.
func sift(h []candidate, i int, first func(c, d candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && first(h[r], h[child]) {
			child = r
		}
		if !first(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
