package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	resamples   = 2000 // of the bootstrap: the interval's ends change by less than 1 % with more
	fewDrafts   = 5    // a share of fewer than this says little
	fewPrompts  = 5    // fewer than this: the interval says little
	noisyAbove  = 0.25 // an interval wider than this share of the value is noisy
	coverage    = 0.95 // of the interval
	resampling1 = 1    // seeds of the bootstrap: the same figures always give the same interval
	resampling2 = 2
)

// Estimate is a median over prompts with its 95 % interval.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	N     int     `json:"n"` // prompts
}

// EstimateOf is the median of the values with the bootstrap's percentile interval: the medians of 2,000 samples drawn
// from the values with replacement lie in it, but for 2.5 % on either side. Without values everything is 0; of a
// single value the interval is the value.
func EstimateOf(values []float64) Estimate {
	e := Estimate{N: len(values)}
	if e.N == 0 {
		return e
	}
	e.Value = Median(values)
	rng := rand.New(rand.NewPCG(resampling1, resampling2))
	medians, sample := make([]float64, resamples), make([]float64, e.N)
	for i := range medians {
		for j := range sample {
			sample[j] = values[rng.IntN(e.N)]
		}
		slices.Sort(sample)
		medians[i] = quantile(sample, 0.5)
	}
	slices.Sort(medians)
	e.Low, e.High = quantile(medians, (1-coverage)/2), quantile(medians, (1+coverage)/2)
	return e
}

// Few reports that there are too few prompts for the interval to mean much.
func (e Estimate) Few() bool { return e.N < fewPrompts }

// Noisy reports that the interval is wider than a quarter of the value.
func (e Estimate) Noisy() bool { return e.High-e.Low > noisyAbove*math.Abs(e.Value) }

// Flag is "†" for few prompts, "‡" for a wide interval, both, or nothing.
func (e Estimate) Flag() (s string) {
	if e.Few() {
		s = "†"
	}
	if e.Noisy() {
		s += "‡"
	}
	return s
}

// String writes "2.31 (2.05-2.44)" with its flags.
func (e Estimate) String() string {
	if e.N == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f%s (%.2f-%.2f)", e.Value, e.Flag(), e.Low, e.High)
}

// Speedup is the run's speedup over plain decoding around it, and the formula's, as [Capped] says.
func (r *Timed) Speedup() (speedup, formula float64) {
	return Capped(r.Plain(), r.Seconds, len(r.IDs), r.Stats.Rounds, r.Stats.Draft)
}

// Capped is the speedup of a text over plain decoding, and the formula's (Leviathan et al. 2023, theorem 3.8) for the
// rounds that it took and the seconds of its drafting: what it would be if every verification pass took as long as
// decoding a token. The speedup is at most that: a verification pass reads all weights too, so a greater ratio means
// that the machine became faster between the runs. plain is in seconds per token. Without rounds there is no formula,
// and nothing is capped.
func Capped(plain, seconds float64, tokens, rounds int, drafting float64) (speedup, formula float64) {
	speedup = float64(plain*float64(tokens)) / seconds
	if rounds == 0 || plain <= 0 {
		return speedup, 0
	}
	formula = float64(plain*float64(tokens)) / (float64(plain*float64(rounds)) + drafting)
	return min(speedup, formula), formula
}

// Median is the middle of the values, the mean of the middle two of an even number; 0 of none.
func Median(list []float64) float64 {
	_, m, _ := quartiles(list)
	return m
}

// quartiles interpolates between the sorted values.
func quartiles(list []float64) (low, mid, high float64) {
	if len(list) == 0 {
		return 0, 0, 0
	}
	list = slices.Sorted(slices.Values(list))
	return quantile(list, 0.25), quantile(list, 0.5), quantile(list, 0.75)
}

// quantile of sorted values, of which there is at least one.
func quantile(sorted []float64, q float64) float64 {
	place := q * float64(len(sorted)-1)
	i := int(place)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (place-float64(i))*(sorted[i+1]-sorted[i])
}
