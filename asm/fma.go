package asm

import "math"

// FMA returns x*y + z with one rounding, in binary32.
//
// The product of two binary32 numbers is exact in binary64, so only the sum is rounded there. Rounding it once more, to
// binary32, is right unless the first rounding moved the sum onto a midpoint of two binary32 numbers; see [hard].
func FMA(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := float64(p) + c
	if hard(s) {
		return fmaOdd(p, c)
	}
	return float32(s)
}

// hard reports whether rounding s to binary32 may differ from rounding the exact sum: whether s may be a midpoint of
// two neighboring binary32 numbers. The low 29 bits of a midpoint are 1 0000…, and more of them are 0 among subnormal
// results. Other numbers that end in 28 zeros are few, and [fmaOdd] is right for them too.
func hard(s float64) bool { return math.Float64bits(s)&(1<<28-1) == 0 }

// fmaOdd is p+c rounded to binary32 once: it rounds to odd in binary64, which preserves on which side of a midpoint
// the sum is, and then to binary32.
//
//go:noinline
func fmaOdd(p, c float64) float32 {
	s := p + c
	v := s - p // s + e is the sum exactly (TwoSum)
	e := (p - (s - v)) + (c - v)
	b := math.Float64bits(s)
	if (e < 0 || e > 0) && b&1 == 0 { // of an infinite sum e is NaN
		if (e > 0) == (s > 0) {
			b++ // the sum lies between s and the next number away from zero
		} else {
			b-- // … towards zero
		}
	}
	return float32(math.Float64frombits(b))
}

// axpy is for i: acc[i] = fma(w[i], x, acc[i]), with FMA written out because calls would be most of its cost.
func axpy(acc []float32, x float32, w []float32) {
	w = w[:len(acc)]
	xd := float64(x)
	for i, a := range acc {
		p, c := float64(w[i])*xd, float64(a)
		s := float64(p) + c
		if hard(s) {
			acc[i] = fmaOdd(p, c)
		} else {
			acc[i] = float32(s)
		}
	}
}

// fmaRows is for r: acc[r] = fma(a[r], b[r], acc[r]).
func fmaRows(acc, a, b *[PanelRows]float32) {
	for r, z := range acc {
		p, c := float64(a[r])*float64(b[r]), float64(z)
		s := float64(p) + c
		if hard(s) {
			acc[r] = fmaOdd(p, c)
		} else {
			acc[r] = float32(s)
		}
	}
}
