package tensor

import (
	"errors"
	"math"
	"testing"
)

// TestRopeYarn: the frequencies and the magnitude of YaRN, computed the long way round.
func TestRopeYarn(t *testing.T) {
	const dims, base, factor, original = 64, 10000.0, 8.0, 512.0
	y := Yarn{Original: original, Fast: 32, Slow: 1}
	table, err := NewRopeTable(RopeOptions{Dims: dims, Base: base, Scale: 1 / factor, Magnitude: 1.5, Yarn: y})
	ok(t, err)
	pair := func(turns float64) float64 { // where a pair turns so often in the original context
		return dims * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := math.Floor(pair(32)), math.Ceil(pair(1))
	if low < 1 || high > dims/2-2 || high-low < 4 {
		t.Fatalf("pairs %v to %v: no pairs of all three kinds", low, high)
	}
	magnitude := 1.5 * (0.1*math.Log(factor) + 1)
	for _, position := range []int{1, 300, 5000} {
		cos, sin := table.At(position)
		var want []float64
		for i := range dims / 2 {
			theta := float64(position) * math.Pow(base, -2*float64(i)/dims)
			share := 1 - math.Min(1, math.Max(0, (float64(i)-low)/(high-low)))
			angle := theta*share + theta/factor*(1-share)
			want = append(want, magnitude*math.Cos(angle), magnitude*math.Sin(angle))
		}
		var got []float32
		for i := range cos {
			got = append(got, cos[i], sin[i])
		}
		near(t, "YaRN", got, want, 1e-6)
	}
	for _, o := range []RopeOptions{
		{Dims: 4, Base: 10, Yarn: Yarn{Original: 10}}, {Dims: 4, Base: 10, Yarn: Yarn{Original: -1, Fast: 1, Slow: 1}},
		{Dims: 4, Base: 1, Yarn: y},
		{Dims: 4, Base: 10, Scale: -1}, {Dims: 4, Base: 10, Magnitude: math.Inf(1)}, {Dims: 4, Base: 10, Magnitude: -1},
		{Dims: 8, Base: 1e-30},
	} {
		if _, err := NewRopeTable(o); !errors.Is(err, ErrShape) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
