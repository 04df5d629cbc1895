package engine

import (
	"math"
	"testing"
)

// From passes of one number of rows and the time of a prompt's token the times of other numbers of rows follow, as they were measured with a
// model of 1 B on two sets of kernels.
func TestPassCostGuess(t *testing.T) {
	for _, c := range []struct {
		name   string
		prompt float64
		known  int
		passes map[int]float64 // milliseconds by rows
	}{
		{"AVX-512", 1.76, 2, map[int]float64{2: 18.3, 4: 18.9, 8: 20.2, 12: 26.2, 16: 31.2, 24: 46.3, 32: 61.1}},
		{"AVX-512", 1.76, 8, map[int]float64{4: 18.9, 8: 20.2, 12: 26.2, 16: 31.2, 24: 46.3, 32: 61.1}},
		{"AVX2", 6.2, 2, map[int]float64{2: 16.5, 3: 19.2, 4: 24.1, 6: 34.3, 8: 44.4}},
		{"AVX2", 6.2, 4, map[int]float64{3: 19.2, 4: 24.1, 6: 34.3, 8: 44.4, 12: 99, 16: 125, 24: 177, 32: 220}},
	} {
		var p passCost
		p.prompt(256, 256*c.prompt/1e3)
		p.learn(c.known, c.passes[c.known]/1e3)
		for rows, want := range c.passes {
			if got := 1e3 * p.time(float64(rows)); got < 0.74*want || got > 1.16*want {
				t.Errorf("%s, %d rows known: %d rows take %.1f ms, %.1f were measured", c.name, c.known, rows, got, want)
			}
		}
	}
}

// A machine that becomes slower is slower with every number of rows, whichever it computes meanwhile.
func TestPassCostSpeed(t *testing.T) {
	var p passCost
	for range 40 {
		p.learn(8, 0.020)
		p.learn(16, 0.030)
	}
	for range 12 {
		p.learn(8, 0.040)
	}
	for rows, want := range map[int]float64{8: 0.040, 16: 0.060, 12: 0.050} {
		if got := p.time(float64(rows)); math.Abs(got/want-1) > 0.1 {
			t.Errorf("half the speed: %d rows take %.4f s, expected %.4f", rows, got, want)
		}
	}
	for range 12 {
		p.learn(8, 0.020)
	}
	if got := p.time(16); math.Abs(got/0.030-1) > 0.1 {
		t.Errorf("the old speed again: 16 rows take %.4f s, expected 0.0300", got)
	}
}

// An interruption of two passes looks like a slower machine. Until passes have shown whether it is, the speed is not settled, so that nobody
// drafts, and their times are those of passes without drafts. (With AVX2 and four decoders, drafts went on for a whole text that took 1.8 passes'
// time and brought 1.6 passes' tokens.)
func TestPassCostInterruption(t *testing.T) {
	var p passCost
	for range 20 {
		p.learn(4, 0.022)
	}
	p.learn(8, 0.0403)
	p.learn(4, 0.033)
	if !p.settled() {
		t.Error("one slow pass is taken for a change of speed")
	}
	p.learn(4, 0.036)
	if got := p.time(8); p.settled() || got < 0.055 {
		t.Errorf("after two slow passes 8 rows take %.4f s; the speed is settled: %v", got, p.settled())
	}
	for range 2 {
		p.learn(4, 0.022)
	}
	if got, more := p.time(4), p.time(8); math.Abs(got/0.022-1) > 0.05 || math.Abs(more/0.0403-1) > 0.05 || p.settled() {
		t.Errorf("the old speed again: 4 rows take %.4f s, 8 rows %.4f; settled: %v", got, more, p.settled())
	}
	for range settles {
		p.learn(4, 0.022)
	}
	if !p.settled() {
		t.Error("not settled after passes at the same speed")
	}
}
