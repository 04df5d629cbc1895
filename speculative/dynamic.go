package speculative

import "slices"

// Dynamic stops a draft after a token whose confidence falls below a minimum (Mamou et al. 2024, "Dynamic speculation
// lookahead"). Transformers: assistant_confidence_threshold.
//
// With Adapt, the minimum follows what was accepted: after each round it is the recent confidence that, as a threshold,
// separates accepted from rejected tokens with the least FPR + 3 FNR, as in Transformers.
func Dynamic(o DynamicOptions) Schedule {
	if o.MinConfidence == 0 {
		o.MinConfidence = 0.4
	}
	return &dynamic{constant: constant{length(o.Length, 20), o.MinConfidence}, adapt: o.Adapt}
}

// DynamicOptions configure [Dynamic].
type DynamicOptions struct {
	Length        int     // most tokens of a draft; 0: 20
	MinConfidence float32 // a draft ends after a token below it; 0: 0.4, negative: never
	Adapt         bool    // the confidence follows what was accepted
}

type dynamic struct {
	constant
	adapt        bool
	seen, sorted []outcome
}

// outcome is a drafted token's confidence and whether it was accepted.
type outcome struct {
	confidence float32
	accepted   bool
}

// outcomeWindow is the number of recent outcomes that the threshold is chosen from.
const outcomeWindow = 512

func (s *dynamic) NeedsConfidence() bool { return s.adapt || s.constant.NeedsConfidence() }

func (s *dynamic) Observe(r *Round) {
	if !s.adapt || r.Drafted() == 0 {
		return
	}
	if s.seen == nil {
		s.seen, s.sorted = make([]outcome, 0, 2*outcomeWindow), make([]outcome, 0, 2*outcomeWindow)
	}
	for _, i := range r.Path {
		if r.Draft.isForced(int(i)) {
			continue
		}
		s.seen = append(s.seen, outcome{r.Draft.Confidence[i], true})
	}
	if i := r.rejected(); i >= 0 && !r.Draft.isForced(i) {
		s.seen = append(s.seen, outcome{r.Draft.Confidence[i], false})
	}
	if extra := len(s.seen) - outcomeWindow; extra > 0 {
		s.seen = slices.Delete(s.seen, 0, extra)
	}
	if len(s.seen) > 5 {
		s.sorted = append(s.sorted[:0], s.seen...)
		if t, ok := bestThreshold(s.sorted); ok {
			s.threshold = t
		}
	}
}

// bestThreshold returns the confidence t at which predicting acceptance by confidence >= t has the least FPR + 3 FNR,
// the highest of equals; false if all outcomes are the same. It sorts v.
func bestThreshold(v []outcome) (best float32, ok bool) {
	slices.SortFunc(v, func(a, b outcome) int {
		switch {
		case a.confidence > b.confidence:
			return -1
		case a.confidence < b.confidence:
			return 1
		}
		return 0
	})
	good := 0
	for i := range v {
		if v[i].accepted {
			good++
		}
	}
	bad := len(v) - good
	if good == 0 || bad == 0 {
		return 0, false
	}
	least := 3*good*bad + 1 // costs are multiplied by good*bad, to be integers
	hit, miss := 0, 0       // accepted and rejected ones at or above t
	for i := range v {
		if v[i].accepted {
			hit++
		} else {
			miss++
		}
		if i+1 < len(v) && v[i+1].confidence == v[i].confidence {
			continue
		}
		if cost := miss*good + 3*(good-hit)*bad; cost < least {
			least, best = cost, v[i].confidence
		}
	}
	return best, true
}
