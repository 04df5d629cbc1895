package main

import (
	"math"
	"slices"

	"github.com/specgo/spec/speculative"
)

// An estimate guesses what plain decoding would have taken: every token the median time of a pass without
// drafts, of which the auto schedule makes some. Where there are too few the shortest pass stands in.
type estimate struct {
	plain  []float64 // seconds of passes without drafts
	passes []float64 // of all passes
}

func (e *estimate) round(r *speculative.Round) {
	e.passes = append(e.passes, r.Verifying.Seconds())
	if r.Drafted() == 0 {
		e.plain = append(e.plain, r.Verifying.Seconds())
	}
}

const (
	estimateTokens = 64 // generated, below which there is too little to tell
	estimatePasses = 8  // without drafts, from which their median is used
)

// speedup is how many times as fast as plain decoding the text was, after the prompt. It is NaN where
// there is too little to tell: few tokens, no drafts, or pass times that vary more than the speedup is.
func (e *estimate) speedup(s speculative.Stats) float64 {
	spent := s.Draft + s.Verify
	if s.Drafted == 0 || s.Generated < estimateTokens || spent <= 0 {
		return math.NaN()
	}
	low, mid, high := quartiles(e.plain)
	if len(e.plain) < estimatePasses {
		// A plain pass takes about as long as the shortest, and less than the median of those that verify.
		low, mid, high = slices.Min(e.passes), slices.Min(e.passes), median(e.passes)
	}
	at := func(pass float64) float64 { return float64(s.Generated) * pass / spent }
	if spread, effect := at(high)-at(low), math.Abs(at(mid)-1); spread > effect {
		return math.NaN()
	}
	return at(mid)
}

// quartiles are the values a quarter, half and three quarters up the sorted list; 0 of none.
func quartiles(list []float64) (low, mid, high float64) {
	if len(list) == 0 {
		return 0, 0, 0
	}
	x := slices.Sorted(slices.Values(list))
	return x[len(x)/4], median(list), x[len(x)*3/4]
}

func median(list []float64) float64 {
	x := slices.Sorted(slices.Values(list))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
