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
	early := len(history)-s.o.ConstraintFrom < s.o.MinTokens
	bans := len(s.biases) + len(s.o.Banned) + len(s.o.BannedSequences)
	if len(s.plan.before) == 0 && s.o.Constraint == nil && !early && bans == 0 {
		return nil
	}
	n := min(len(logits), s.vocab)
	s.x = append(s.x[:0], logits[:n]...)
	x := s.x
	for _, step := range s.plan.before {
		if step == StepDRY {
			s.dry.penalties(&s.o.DRY, history, func(id int32, by float32) {
				if id >= 0 && int(id) < n {
					x[id] -= by
				}
			})
			continue
		}
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
	for _, id := range s.o.Ends {
		if early && int(id) < n {
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
	s.occurrences(recent)
	for _, id := range recent {
		if id < 0 || int(id) >= s.vocab || s.count[id] == 0 {
			continue // outside, or done already
		}
		if int(id) < len(x) {
			x[id] = s.o.penalized(x[id], s.count[id])
		}
		s.count[id] = 0
	}
}

// penalizeKept is penalize for what the filters have left so far.
func (s *Sampler) penalizeKept(history []int32) {
	recent := history[len(history)-s.o.lastN(len(history)):]
	s.occurrences(recent)
	for i, c := range s.kept {
		if s.count[c.id] > 0 {
			s.kept[i].x = s.o.penalized(c.x, s.count[c.id])
		}
	}
	for _, id := range recent {
		if id >= 0 && int(id) < len(s.count) {
			s.count[id] = 0
		}
	}
}

// repetitionsKept applies DRY to what the filters have left so far.
func (s *Sampler) repetitionsKept(history []int32) {
	s.p = slices.Grow(s.p[:0], s.vocab)[:s.vocab] // by token: what its logit loses
	clear(s.p)
	s.dry.penalties(&s.o.DRY, history, func(id int32, by float32) {
		if id >= 0 && int(id) < s.vocab {
			s.p[id] = by
		}
	})
	for i, c := range s.kept {
		s.kept[i].x -= s.p[c.id]
	}
}

// occurrences counts the tokens of a piece of history in s.count, but for those without penalties.
func (s *Sampler) occurrences(recent []int32) {
	s.count = slices.Grow(s.count[:0], s.vocab)[:s.vocab]
	for _, id := range recent {
		if id >= 0 && int(id) < s.vocab {
			s.count[id]++
		}
	}
	for _, id := range s.o.Unpenalized {
		s.count[id] = 0
	}
}

// penalized is the logit of a token that occurred count times.
func (o *Options) penalized(x float32, count int32) float32 {
	if x == negInf { // it stays impossible
		return x
	}
	if r := o.RepeatPenalty; r == 0 {
		// off
	} else if x > 0 {
		x /= r
	} else {
		x *= r
	}
	x = min(max(x, -math.MaxFloat32), math.MaxFloat32) // an extreme logit may have overflowed
	return x - (float32(float32(count)*o.FrequencyPenalty) + o.PresencePenalty)
}
