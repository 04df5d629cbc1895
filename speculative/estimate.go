package speculative

import (
	"math"
	"time"
)

// Running estimates, kept from text to text by auto and by tree drafters.

// timing is a running mean of a time in seconds.
type timing struct {
	mean float64
	n    int
}

// add counts the least of the first three times, as a first pass may meet cold memory. Later ones change the mean
// slowly, and outliers no more than twice the mean does.
func (t *timing) add(x float64) {
	const few, weight = 3, 0.1
	t.n++
	switch {
	case t.n == 1:
		t.mean = x
	case t.n <= few:
		t.mean = min(t.mean, x)
	default:
		t.mean += float64(weight * (min(x, 2*t.mean) - t.mean))
	}
}

// pace is the tokens and the time of recent rounds: a sum in which a round counts paceKeep times as much as the next.
type pace struct{ tokens, seconds float64 }

const paceKeep = 0.97

func (p *pace) add(tokens, seconds float64) {
	p.tokens = float64(p.tokens*paceKeep) + tokens
	p.seconds = float64(p.seconds*paceKeep) + seconds
}

// rate is a share of successes: a sum in which a trial counts rateKeep times as much as the next.
type rate struct{ hits, trials float64 }

const rateKeep = 0.99

func (r *rate) add(x float64) {
	r.hits, r.trials = float64(r.hits*rateKeep)+x, float64(r.trials*rateKeep)+1
}

// p is the share, kept away from 0 and 1.
func (r *rate) p() float64 { return (r.hits + 0.01) / (r.trials + 0.02) }

// priorWeight is the number of trials that a prior is worth.
const priorWeight = 4.0

// after is the share, with a prior.
func (r *rate) after(prior float64) float64 { return r.weighted(prior, priorWeight) }

// weighted is the share, with a prior that is worth so many trials.
func (r *rate) weighted(prior, trials float64) float64 {
	return (r.hits + float64(trials*prior)) / (r.trials + trials)
}

// chanceBins is the number of bins of probabilities.
const chanceBins = 12

// chanceBin sorts probabilities by the power of 2 in p/(1-p).
func chanceBin(p float32) int8 {
	_, e := math.Frexp(float64(p / (1.0001 - p)))
	return int8(max(0, min(chanceBins-1, e+5)))
}

// monotonic is a clock that starts now.
func monotonic() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}
