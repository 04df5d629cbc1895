package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// Prob is a token and its probability.
type Prob struct {
	ID int32
	P  float32
}

// Sampler chooses tokens from logits. What it chooses depends on the logits, the history and the
// seed alone, on every machine. It keeps scratch between calls, so it belongs to one goroutine.
type Sampler struct {
	o      Sampling
	vocab  int
	biases []bias

	x       []float32   // [vocab] logits after penalties, bias and bans
	p       []float32   // [vocab] scratch: probabilities or noise
	count   []int32     // [vocab] how often a token was seen lately; all zero between calls
	heap    []candidate // the likeliest first, as a heap
	kept    []candidate // what the filters left
	maximum float32     // the greatest x
}

var negInf = float32(math.Inf(-1))

// candidate is a token that may still be chosen.
type candidate struct {
	id int32
	x  float32
}

// NewSampler checks the options against a vocabulary's size. It refuses what is not a number,
// negative temperatures and token ids outside the vocabulary.
func NewSampler(vocab int, o Sampling) (*Sampler, error) {
	if err := o.check(vocab); err != nil {
		return nil, err
	}
	return &Sampler{o: o, vocab: vocab, biases: o.biases()}, nil
}

// Pick chooses the token at position len(history), the history being the whole text so far. At
// temperature 0 that is the greatest logit, else argmax(x/T + noise), where the noise of a token is
// Gumbel distributed and depends on (seed, position, id) only: the Gumbel-max trick, which draws
// from softmax(x/T). The lower id wins ties. It returns -1 if every token is banned. logits are not
// changed; if there are fewer of them than the vocabulary has tokens, the rest are never chosen.
func (s *Sampler) Pick(logits []float32, history []int32) int32 {
	if s.o.Temperature == 0 {
		if x := s.adjust(logits, history); x != nil {
			return greatest(x)
		}
		return greatest(logits[:min(len(logits), s.vocab)])
	}
	key := noiseKey(s.o.Seed, len(history))
	if !s.filters() {
		x := s.adjust(logits, history)
		if x == nil {
			x = logits[:min(len(logits), s.vocab)]
		}
		if s.rank(x, key, 1); len(s.kept) == 0 {
			return -1
		}
		return s.kept[0].id
	}
	s.filter(logits, history)
	best, bestX := int32(-1), negInf
	for _, c := range s.kept {
		x := (c.x-s.maximum)/s.o.Temperature + tensor.Noise(key, uint32(c.id))
		if x > bestX || x == bestX && c.id < best {
			best, bestX = c.id, x
		}
	}
	return best
}

const (
	pickChunk = 256 // tokens that are looked at together
	mostNoise = 23  // more than any noise
)

// rank keeps in s.kept the n tokens of x with the greatest x/T + noise, the greatest first, and that sum in place of their
// logits; no filter is on. Most chunks of tokens need no noise: their greatest logit would lose even with the greatest noise
// that there is, or with the greatest of the chunk's, which its hashes tell.
func (s *Sampler) rank(x []float32, key uint64, n int) {
	s.kept = s.kept[:0]
	if len(x) == 0 {
		return
	}
	top := tensor.ArgMax(x)
	s.maximum = x[top]
	least := negInf // what has to be reached at least
	if n == 1 {
		least = tensor.Noise(key, uint32(top)) // 0/T + noise
	}
	noise := sized(&s.p, pickChunk)
	for first := 0; first < len(x); first += pickChunk {
		chunk := x[first:min(first+pickChunk, len(x))]
		if len(s.kept) == n {
			least = max(least, s.kept[n-1].x)
		}
		most := (chunk[tensor.ArgMax(chunk)] - s.maximum) / s.o.Temperature
		if most+mostNoise < least || most+tensor.MostNoise(len(chunk), uint32(first), key) < least {
			continue
		}
		noise := noise[:len(chunk)]
		tensor.Gumbel(noise, uint32(first), key)
		for i, v := range chunk {
			if x := (v-s.maximum)/s.o.Temperature + noise[i]; x > negInf && (len(s.kept) < n || x > s.kept[n-1].x) {
				s.keep(candidate{int32(first + i), x}, n)
			}
		}
	}
}

// keep puts c in its place among the n best of s.kept, which come in order.
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

// AppendBest appends the n tokens that come first in the order in which [Sampler.Pick] takes the first, to guess what a
// similar model would pick. P is the softmax over all tokens at temperature 0 (after penalties, bias and bans); above it,
// where noise decides, the softmax of x/T + noise over the n.
func (s *Sampler) AppendBest(dst []Prob, n int, logits []float32, history []int32) []Prob {
	x := s.adjust(logits, history)
	if x == nil {
		x = logits[:min(len(logits), s.vocab)]
	}
	if s.o.Temperature == 0 {
		s.kept = s.kept[:0]
		for first := 0; first < len(x); first += pickChunk {
			chunk := x[first:min(first+pickChunk, len(x))]
			if len(s.kept) == n && !(chunk[tensor.ArgMax(chunk)] > s.kept[n-1].x) {
				continue
			}
			for i, v := range chunk {
				if v > negInf && (len(s.kept) < n || v > s.kept[n-1].x) {
					s.keep(candidate{int32(first + i), v}, n)
				}
			}
		}
		total := tensor.LogSumExp(x)
		for _, c := range s.kept {
			dst = append(dst, Prob{c.id, tensor.Exp(c.x - total)})
		}
		return dst
	}
	key := noiseKey(s.o.Seed, len(history))
	if s.filters() {
		s.filter(logits, history)
		all := s.kept
		s.kept = s.heap[:0]
		for _, c := range all {
			c.x = (c.x-s.maximum)/s.o.Temperature + tensor.Noise(key, uint32(c.id))
			if len(s.kept) < n || c.before(s.kept[n-1]) {
				s.keep(c, n)
			}
		}
		s.heap = all
	} else {
		s.rank(x, key, n)
	}
	sum, from := float32(0), len(dst)
	for _, c := range s.kept {
		p := tensor.Exp(c.x - s.kept[0].x)
		dst, sum = append(dst, Prob{c.id, p}), sum+p
	}
	for i := range dst[from:] {
		dst[from+i].P /= sum
	}
	return dst
}

// filters reports whether a filter may leave tokens out.
func (s *Sampler) filters() bool {
	return s.o.TopK > 0 || s.o.TopP > 0 && s.o.TopP < 1 || s.o.MinP > 0
}

// Distribution gives the probabilities that Pick draws from: after penalties, filters and
// temperature, sorted by id, tokens that cannot be chosen left out. They sum to 1 but for rounding.
// At temperature 0 it is the one token that Pick returns.
func (s *Sampler) Distribution(logits []float32, history []int32) []Prob {
	return s.AppendDistribution(nil, logits, history)
}

// AppendDistribution is Distribution into a slice of the caller's.
func (s *Sampler) AppendDistribution(dst []Prob, logits []float32, history []int32) []Prob {
	if s.o.Temperature == 0 {
		if id := s.Pick(logits, history); id >= 0 {
			dst = append(dst, Prob{id, 1})
		}
		return dst
	}
	s.filter(logits, history)
	slices.SortFunc(s.kept, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	p := sized(&s.p, len(s.kept))
	for i, c := range s.kept {
		p[i] = (c.x - s.maximum) / s.o.Temperature
	}
	_, sum := tensor.ExpSum(p)
	for i, c := range s.kept {
		dst = append(dst, Prob{c.id, p[i] / sum})
	}
	return dst
}

// adjust fills s.x with the logits after penalties, bias and bans. It returns nil where there are
// none, so that the logits themselves will do.
func (s *Sampler) adjust(logits []float32, history []int32) []float32 {
	if !s.o.penalizes() && len(s.biases)+len(s.o.Banned)+len(s.o.BannedSequences) == 0 {
		return nil
	}
	n := min(len(logits), s.vocab)
	x := sized(&s.x, n)
	copy(x, logits)
	if s.o.penalizes() {
		s.penalize(x, history[len(history)-s.o.lastN(len(history)):])
	}
	for _, b := range s.biases {
		if int(b.id) < n {
			x[b.id] += b.x
		}
	}
	for _, id := range s.o.Banned {
		if int(id) < n {
			x[id] = negInf
		}
	}
	for _, seq := range s.o.BannedSequences {
		before, last := seq[:len(seq)-1], seq[len(seq)-1]
		if at := len(history) - len(before); int(last) < n && at >= 0 && slices.Equal(history[at:], before) {
			x[last] = negInf
		}
	}
	return x
}

// penalize applies the three penalties to the tokens of a piece of history.
func (s *Sampler) penalize(x []float32, lately []int32) {
	count := sized(&s.count, s.vocab)
	for _, id := range lately {
		if id >= 0 && int(id) < len(x) {
			count[id]++
		}
	}
	for _, id := range lately {
		if id < 0 || int(id) >= len(x) || count[id] == 0 {
			continue // outside, or done already
		}
		if r := s.o.RepeatPenalty; r == 0 {
			// off
		} else if x[id] > 0 {
			x[id] /= r
		} else {
			x[id] *= r
		}
		x[id] -= float32(float32(count[id])*s.o.FrequencyPenalty) + s.o.PresencePenalty
		count[id] = 0
	}
}

// filter leaves in s.kept the tokens that may be chosen, with their logits after penalties, bias
// and bans; in s.maximum the greatest of these. The order of s.kept is that of ids if no filter was
// on, else the likeliest come first.
func (s *Sampler) filter(logits []float32, history []int32) {
	x := s.adjust(logits, history)
	if x == nil {
		x = sized(&s.x, min(len(logits), s.vocab))
		copy(x, logits)
	}
	s.maximum = negInf
	if i := greatest(x); i >= 0 {
		s.maximum = x[i]
	}
	s.kept = s.kept[:0]
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
	s.likeliest(x, topK, topP)
	s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.x < least })
}

// likeliest fills s.kept with the tokens that top-k and top-p keep, the likeliest first and the
// lower id first among equals. topK and topP are 0 where they are off, not both.
func (s *Sampler) likeliest(x []float32, topK int, topP float32) {
	if topK == 0 {
		s.nucleus(x, topP)
		return
	}
	// The k likeliest so far are a heap whose first one comes after all others: what does not come before it is out.
	h := sized(&s.heap, 0)
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
	slices.SortFunc(h, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	s.heap, s.kept = h, append(s.kept, h...)
	if topP == 0 {
		return
	}
	p := sized(&s.p, len(s.kept))
	for i, c := range s.kept {
		p[i] = c.x
	}
	_, sum := tensor.ExpSum(p)
	var reached float32
	for i := range p {
		if reached += p[i]; reached >= float32(topP*sum) {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// nucleus fills s.kept with the likeliest tokens that together reach topP. Those far below the greatest are looked at only
// when the others do not suffice.
func (s *Sampler) nucleus(x []float32, topP float32) {
	p := sized(&s.p, len(x))
	copy(p, x)
	_, sum := tensor.ExpSum(p)
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
			reached += p[c.id]
		}
		above = least
	}
}

// before is the order of likelihood: the greater logit first, the lower id among equals.
func (c candidate) before(d candidate) bool { return c.x > d.x || c.x == d.x && c.id < d.id }

// after is the reverse of before.
func after(c, d candidate) bool { return d.before(c) }

// heapify makes h a heap whose first element comes before all others, as first tells.
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

// greatest is the id of the greatest logit, the lower one on a tie; -1 if none is above -Inf.
func greatest(x []float32) int32 {
	if i := tensor.ArgMax(x); i >= 0 && x[i] > negInf {
		return int32(i)
	}
	return -1
}

// sized gives *s the length n, keeping its memory where it suffices.
func sized[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
