package asm

import (
	"math"
	"testing"
)

func TestFMA(t *testing.T) {
	check := func(x, y, z float32) {
		t.Helper()
		if got, want := FMA(x, y, z), exactFMA(x, y, z); !same(got, want) {
			t.Fatalf("FMA(%b, %b, %b) = %b, want %b", x, y, z, got, want)
		}
		acc := []float32{z}
		axpy(acc, x, []float32{y})
		if want := FMA(x, y, z); !same(acc[0], want) {
			t.Fatalf("axpy of %b, %b, %b = %b, want %b", x, y, z, acc[0], want)
		}
		a, b, c := perRow{z}, perRow{x}, perRow{y}
		fmaRows(&a, &b, &c)
		if want := FMA(x, y, z); !same(a[0], want) {
			t.Fatalf("fmaRows of %b, %b, %b = %b, want %b", x, y, z, a[0], want)
		}
	}
	r := newRand(1)
	finite := func() float32 {
		for {
			if f := math.Float32frombits(r.Uint32()); f-f == 0 {
				return f
			}
		}
	}
	sign := func() float32 { return float32(1 - 2*r.IntN(2)) }
	for range 30000 {
		check(finite(), finite(), finite())
	}
	for range 30000 { // a product that is exactly a middle, and a much smaller third number
		x, y := float32(r.IntN(1<<12)|1<<12|1), float32(r.IntN(1<<11)|1<<11|1)
		z := float32(math.Ldexp(float64(sign()), -r.IntN(180)+30))
		check(x, y*sign(), z)
	}
	for range 30000 { // a sum half way between two numbers, or next to it
		z := finite()
		half := math.Nextafter32(float32(math.Abs(float64(z))), float32(math.Inf(1))) - float32(math.Abs(float64(z)))
		e := r.IntN(20) - 10
		x := float32(math.Ldexp(1, e))
		y := float32(math.Ldexp(float64(half), -1-e)) * sign()
		if y-y != 0 {
			continue
		}
		check(x, y, z)
		check(math.Nextafter32(x, 2*x), y, z)
		check(math.Nextafter32(x, 0), y, z)
	}
	for range 30000 { // subnormal results
		x := float32(math.Ldexp(1+r.Float64(), -r.IntN(80)))
		y := float32(math.Ldexp(1+r.Float64(), -70-r.IntN(60))) * sign()
		z := math.Float32frombits(r.Uint32()>>8) * sign()
		check(x, y, z)
		check(x, float32(math.Ldexp(float64(sign()), -130-r.IntN(20))), z)
	}
	for range 1000 { // a sum so close to half way between two subnormal numbers that binary64 has it there
		e := r.IntN(100) - 50
		x, y := float32(math.Ldexp(1+0x1p-23, e-75)), float32(math.Ldexp(1-0x1p-23, -e-75))
		check(x, y*sign(), math.Float32frombits(r.Uint32()>>9)*sign())
	}
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, c := range [][4]float32{
		{inf, 1, 1, inf}, {inf, 0, 1, nan}, {inf, 1, -inf, nan}, {1, 1, -inf, -inf}, {nan, 1, 1, nan}, {1, 1, nan, nan},
		{math.MaxFloat32, 2, -inf, -inf}, {math.MaxFloat32, 2, 0, inf},
		{math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32},
	} {
		if got := FMA(c[0], c[1], c[2]); !same(got, c[3]) {
			t.Errorf("FMA(%g, %g, %g) = %g, want %g", c[0], c[1], c[2], got, c[3])
		}
	}
}
