package tensor

import (
	"math"
	"testing"
)

// The table of halves finds the nearest number of an IQ4 block, the greater of two, also just beside every border.
func TestNearestIQ4IsTheNearest(t *testing.T) {
	check := func(v float32) {
		want := 0
		for j := range tableIQ4 {
			if math.Abs(float64(v)-float64(tableIQ4[j])) <= math.Abs(float64(v)-float64(tableIQ4[want])) {
				want = j
			}
		}
		if got := nearestIQ4(v); got != want {
			t.Errorf("%g is nearest to %g, not to %g", v, tableIQ4[want], tableIQ4[got])
		}
	}
	for half := range int32(2*300 + 1) {
		v := float32(half-300) / 2
		check(math.Nextafter32(v, -1000))
		check(v)
		check(math.Nextafter32(v, 1000))
	}
	inf := float32(math.Inf(1))
	if nearestIQ4(3e38) != 15 || nearestIQ4(-3e38) != 0 || nearestIQ4(inf) != 15 || nearestIQ4(-inf) != 0 ||
		nearestIQ4(inf-inf) != 0 {
		t.Error("what no whole number of 32 bits holds is at no end of the table")
	}
}
