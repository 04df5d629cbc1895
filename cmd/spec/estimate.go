package main

import (
	"math"
	"time"

	"github.com/specgo/spec/speculative"
)

// An estimate guesses what plain decoding would have taken: every token the time of a pass without
// drafts, of which the auto schedule makes some. Where there was none the shortest pass stands in.
type estimate struct {
	plain    time.Duration // in passes without drafts
	passes   int
	shortest time.Duration
}

func (e *estimate) round(r *speculative.Round) {
	if e.shortest == 0 || r.Verifying < e.shortest {
		e.shortest = r.Verifying
	}
	if r.Drafted() == 0 {
		e.plain += r.Verifying
		e.passes++
	}
}

// speedup is how many times as fast as plain decoding the text was, after the prompt; NaN if there
// is nothing to tell.
func (e *estimate) speedup(s speculative.Stats) float64 {
	pass := e.shortest.Seconds()
	if e.passes > 0 {
		pass = e.plain.Seconds() / float64(e.passes)
	}
	if s.Drafted == 0 || s.Draft+s.Verify <= 0 {
		return math.NaN()
	}
	return float64(float64(s.Generated)*pass) / (s.Draft + s.Verify)
}
