package costs

import (
	"math"
	"testing"
)

// From passes of one number of rows and the time of a prompt's token the times of other numbers of rows follow, as
// they were measured with a model of 1 B on two sets of kernels.
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
		var p Costs
		p.Learn(0, 256, 256*c.prompt/1e3)
		p.Learn(c.known, 0, c.passes[c.known]/1e3)
		for rows, want := range c.passes {
			if got := 1e3 * p.At(float64(rows)); got < 0.74*want || got > 1.16*want {
				t.Errorf("%s, %d rows known: %d rows take %.1f ms, %.1f were measured", c.name, c.known, rows, got, want)
			}
		}
	}
}

// A machine that becomes slower is slower with every number of rows, whichever it computes meanwhile.
func TestPassCostSpeed(t *testing.T) {
	var p Costs
	for range 40 {
		p.Learn(8, 0, 0.020)
		p.Learn(16, 0, 0.030)
	}
	for range 12 {
		p.Learn(8, 0, 0.040)
	}
	for rows, want := range map[int]float64{8: 0.040, 16: 0.060, 12: 0.050} {
		if got := p.At(float64(rows)); math.Abs(got/want-1) > 0.1 {
			t.Errorf("half the speed: %d rows take %.4f s, expected %.4f", rows, got, want)
		}
	}
	for range 12 {
		p.Learn(8, 0, 0.020)
	}
	if got := p.At(16); math.Abs(got/0.030-1) > 0.1 {
		t.Errorf("the old speed again: 16 rows take %.4f s, expected 0.0300", got)
	}
}

// An interruption of two passes looks like a slower machine. The first pass at the old speed tells, also one of a
// number of rows that was never measured: it is not learned as of few rows' time. (With AVX2 and four decoders, drafts
// went on for a whole text that took 1.8 passes' time and brought 1.6 passes' tokens.)
func TestPassCostInterruption(t *testing.T) {
	for _, rows := range []int{4, 8} { // of the first pass after it
		var p Costs
		for range 20 {
			p.Learn(4, 0, 0.022)
		}
		p.Learn(6, 0, 0.032)
		p.Learn(4, 0, 0.033)
		p.Learn(4, 0, 0.036)
		if got := p.At(4); math.Abs(got/0.036-1) > 0.05 {
			t.Errorf("after two slow passes, 4 rows take %.4f s, expected 0.0360", got)
		}
		p.Learn(rows, 0, 0.0055*float64(rows))
		p.Learn(4, 0, 0.022)
		for _, n := range []int{4, 8} {
			if got, want := p.At(float64(n)), 0.0055*float64(n); math.Abs(got/want-1) > 0.12 { // 6 rows were seen once
				t.Errorf("the old speed again, first in a pass of %d rows: %d rows take %.4f s, expected %.4f", rows, n, got, want)
			}
		}
	}
}
