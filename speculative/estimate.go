package speculative

import (
	"math"
	"time"
)

// What is learned from text to text, by auto and by tree drafters.

// timing is a running estimate of a time in seconds. The least of the first few counts, as a first
// pass may meet cold memory; later ones move it, outliers by little.
type timing struct {
	mean float64
	n    int
}

func (t *timing) add(x float64) {
	t.n++
	switch {
	case t.n == 1:
		t.mean = x
	case t.n <= 3:
		t.mean = min(t.mean, x)
	default:
		t.mean += float64(0.1 * (min(x, 2*t.mean) - t.mean))
	}
}

// smooth is for times that may be nothing at all, so that none can be told to be an outlier.
func (t *timing) smooth(x float64) {
	if t.n++; t.n == 1 {
		t.mean = x
	}
	t.mean += float64(0.05 * (x - t.mean))
}

// pace is how fast rounds write. It forgets.
type pace struct{ rounds, tokens, seconds float64 }

func (p *pace) add(tokens, seconds float64) {
	const keep = 0.97
	p.rounds = float64(p.rounds*keep) + 1
	p.tokens = float64(p.tokens*keep) + tokens
	p.seconds = float64(p.seconds*keep) + seconds
}

// rate is the tokens per second, a round of plain decoding and some tokens more counted in.
func (p *pace) rate(plain, more float64) float64 {
	return (p.tokens + 1 + more) / (p.seconds + 1/plain)
}

// rate is a share of successes that forgets.
type rate struct{ hits, trials float64 }

func (r *rate) add(x float64) {
	const keep = 0.99
	r.hits, r.trials = float64(r.hits*keep)+x, float64(r.trials*keep)+1
}

// p is the share, kept away from 0 and 1.
func (r *rate) p() float64 { return (r.hits + 0.01) / (r.trials + 0.02) }

// priorWeight is how many trials a guess is worth.
const priorWeight = 4.0

// after is the share if prior is believed as much as a few trials are.
func (r *rate) after(prior float64) float64 {
	return (r.hits + float64(priorWeight*prior)) / (r.trials + priorWeight)
}

// weighted is the share if prior is believed as much as so many trials.
func (r *rate) weighted(prior, trials float64) float64 {
	return (r.hits + float64(trials*prior)) / (r.trials + trials)
}

// chanceBins is how many chances are told apart.
const chanceBins = 12

// chanceBin sorts chances by the power of 2 in their odds.
func chanceBin(p float32) int8 {
	_, e := math.Frexp(float64(p / (1.0001 - p)))
	return int8(max(0, min(chanceBins-1, e+5)))
}

// monotonic is a clock that starts now.
func monotonic() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}
