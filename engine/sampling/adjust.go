package sampling

import (
	"math"
	"slices"
)

// adjust fills s.x with the logits after penalties, bias, bans and the constraint. It returns nil where
// there are none, so that the logits themselves will do. Where the constraint leaves no token, s.err says why
// and all of s.x is -Inf.
func (s *Sampler) adjust(logits []float32, history []int32) []float32 {
	s.err = nil
	if !s.o.penalizes() && s.o.Constraint == nil && len(s.biases)+len(s.o.Banned)+len(s.o.BannedSequences) == 0 {
		return nil
	}
	n := min(len(logits), s.vocab)
	s.x = append(s.x[:0], logits[:n]...)
	x := s.x
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
	if s.o.Constraint != nil {
		s.constrain(x, history)
	}
	return x
}

// penalize applies the three penalties to the tokens of a piece of history.
func (s *Sampler) penalize(x []float32, recent []int32) {
	count := slices.Grow(s.count[:0], s.vocab)[:s.vocab]
	s.count = count
	for _, id := range recent {
		if id >= 0 && int(id) < len(x) {
			count[id]++
		}
	}
	for _, id := range recent {
		if id < 0 || int(id) >= len(x) || count[id] == 0 {
			continue // outside, or done already
		}
		if x[id] == negInf { // it stays impossible
			count[id] = 0
			continue
		}
		if r := s.o.RepeatPenalty; r == 0 {
			// off
		} else if x[id] > 0 {
			x[id] /= r
		} else {
			x[id] *= r
		}
		x[id] = min(max(x[id], -math.MaxFloat32), math.MaxFloat32) // an extreme logit may have overflowed
		x[id] -= float32(float32(count[id])*s.o.FrequencyPenalty) + s.o.PresencePenalty
		count[id] = 0
	}
}
