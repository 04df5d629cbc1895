package sampling

import (
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// Dynatemp makes the temperature follow the entropy of what is left: from Temperature-Range, at least 0, where one
// token is certain, to Temperature+Range where all are as probable. Between them it grows with the entropy's share of
// the greatest possible one to the power of Exponent.
type Dynatemp struct {
	Range    float32 `json:"range"`              // 0 is off
	Exponent float32 `json:"exponent,omitempty"` // 0 is 1
}

// XTC leaves out the most probable tokens (exclude top choices) at a share of positions: of the tokens that are at
// least as probable as Threshold all but the least probable one, where there are two. Whether it does is decided by a
// number of (seed, position), so that target and draft agree.
type XTC struct {
	Probability float32 `json:"probability"` // share of positions; 0 is off
	Threshold   float32 `json:"threshold"`   // 0 is 0.1; above 0.5 no two tokens reach it: off
}

// defaultXTC is llama.cpp's threshold.
const defaultXTC = 0.1

// mostXTC is the greatest threshold that two tokens can reach.
const mostXTC = 0.5

// chain leaves in s.kept the tokens that the filters of the plan leave of x, and in s.divisor what their logits are to
// be divided by.
func (s *Sampler) chain(x []float32, history []int32) {
	s.divisor = 1
	whole := true // s.kept stands for all of x
	for i, step := range s.plan.filters {
		if whole {
			whole = false
			switch step {
			case StepTopK:
				s.mostProbable(x, min(s.o.TopK, len(x)), 0)
				continue
			case StepTopP:
				s.nucleus(x, s.o.TopP)
				continue
			}
			s.possible(x)
		}
		if len(s.kept) == 0 {
			return
		}
		switch step {
		case StepPenalties:
			s.penalizeKept(history)
		case StepDRY:
			s.repetitionsKept(history)
		case StepTopNSigma:
			s.withinSigmas()
		case StepTopK:
			s.order()
			s.kept = s.kept[:min(s.o.TopK, len(s.kept))]
		case StepTypicalP:
			s.typical()
		case StepTopP:
			s.order()
			s.kept = s.kept[:reaching(s.probabilities(), s.o.TopP)]
		case StepMinP:
			least := s.most() + tensor.Log(s.o.MinP)
			s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.x < least })
		case StepXTC:
			s.excludeTop(len(history))
		case StepInfill:
			s.infill(x)
		case StepTemperature:
			s.divisor = s.temperature()
			if i+1 == len(s.plan.filters) && s.o.Mirostat.Version == 0 {
				break // divided where the noise is added, as without filters
			}
			top := s.most()
			for i := range s.kept {
				s.kept[i].x = (s.kept[i].x - top) / s.divisor
			}
			s.divisor = 1
		}
	}
	if whole {
		s.possible(x)
	}
}

// possible fills s.kept with all tokens that may be chosen, by id.
func (s *Sampler) possible(x []float32) {
	s.kept = s.kept[:0]
	for id, v := range x {
		if v > negInf {
			s.kept = append(s.kept, candidate{int32(id), v})
		}
	}
}

// most is the greatest logit of s.kept.
func (s *Sampler) most() float32 {
	top := negInf
	for _, c := range s.kept {
		top = max(top, c.x)
	}
	return top
}

// order sorts s.kept, the most probable first and the lower id first among equals.
func (s *Sampler) order() { slices.SortFunc(s.kept, candidate.compare) }

// first is the token of s.kept that order puts first; -1 if there is none.
func (s *Sampler) first() int32 {
	if len(s.kept) == 0 {
		return -1
	}
	return slices.MinFunc(s.kept, candidate.compare).id
}

// probabilities is the softmax of s.kept, in its order; the next call overwrites it.
func (s *Sampler) probabilities() []float32 {
	s.p = s.p[:0]
	for _, c := range s.kept {
		s.p = append(s.p, c.x)
	}
	_, sum := tensor.ExpSum(s.p)
	for i := range s.p {
		s.p[i] /= sum
	}
	return s.p
}

// reaching is how many of p, from the first, have a sum of at least total; all where none has.
func reaching(p []float32, total float32) int {
	var sum float32
	for i, x := range p {
		if sum += x; sum >= total {
			return i + 1
		}
	}
	return len(p)
}

// entropy of probabilities, in nats; 0 log 0 is 0.
func entropy(p []float32) (h float32) {
	for _, x := range p {
		if x > 0 {
			h -= float32(x * tensor.Log(x))
		}
	}
	return h
}

// withinSigmas keeps the logits of s.kept that are at most TopNSigma standard deviations below the greatest. Sums are
// in float64, in the order of s.kept.
func (s *Sampler) withinSigmas() {
	var sum, squares float64
	for _, c := range s.kept {
		sum += float64(c.x)
	}
	mean := sum / float64(len(s.kept))
	for _, c := range s.kept {
		d := float64(c.x) - mean
		squares += float64(d * d)
	}
	sigma := math.Sqrt(squares / float64(len(s.kept)))
	least := s.most() - float32(float64(s.o.TopNSigma)*sigma)
	s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.x < least })
}

// typical keeps the tokens whose surprise -log p is nearest to the entropy, until they reach TypicalP.
func (s *Sampler) typical() {
	s.order() // sums do not depend on what came before, and equals stay in the order of probability
	p := s.probabilities()
	h := entropy(p)
	s.far = s.far[:0]
	for i, x := range p {
		far := float32(math.Inf(1))
		if x > 0 {
			far = tensor.Log(x) + h
		}
		s.far = append(s.far, candidate{int32(i), -max(far, -far)})
	}
	slices.SortFunc(s.far, candidate.compare)
	var sum float32
	s.heap = s.heap[:0]
	for _, f := range s.far {
		s.heap = append(s.heap, s.kept[f.id])
		if sum += p[f.id]; sum >= s.o.TypicalP {
			break
		}
	}
	s.kept, s.heap = s.heap, s.kept
	s.order()
}

// excludeTop is XTC at a position.
func (s *Sampler) excludeTop(position int) {
	if len(s.kept) < 2 || Uniform(s.o.Seed, position, purposeXTC) >= float64(s.o.XTC.Probability) {
		return
	}
	s.order()
	reach := 0 // tokens that reach the threshold
	for _, p := range s.probabilities() {
		if p >= s.o.XTC.Threshold {
			reach++
		}
	}
	if reach >= 2 {
		s.kept = slices.Delete(s.kept, 0, reach-1)
	}
}

// temperature is what the logits of s.kept are divided by.
func (s *Sampler) temperature() float32 {
	d := s.o.Dynatemp
	switch {
	case d.Range == 0:
		return s.o.Temperature
	case len(s.kept) < 2:
		return max(s.o.Temperature, leastTemperature)
	}
	low, high := max(0, s.o.Temperature-d.Range), s.o.Temperature+d.Range
	share := float32(0)
	if h := entropy(s.probabilities()) / tensor.Log(float32(len(s.kept))); h > 0 {
		share = min(1, tensor.Exp(d.Exponent*tensor.Log(h)))
	}
	return max(low+float32((high-low)*share), leastTemperature)
}

// leastTemperature stands for 0 where entropy decides: differences of logits that matter are far above it.
const leastTemperature = 1e-6
