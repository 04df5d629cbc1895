package asm

import "math"

// FMA returns x*y + z with one rounding, in binary32.
//
// The product of two binary32 numbers is exact in binary64, so only the sum is rounded there. Rounding it once more, to
// binary32, is right unless the first rounding moved the sum onto a midpoint of two binary32 numbers; see [hard].
func FMA(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := float64(p) + float64(z)
	if hard(s) {
		return fmaOdd(p, z)
	}
	return float32(s)
}

// hard reports whether rounding s to binary32 may differ from rounding the exact sum: whether s is a midpoint of two
// neighboring binary32 numbers. The low 29 bits of a midpoint are 1 0000…, except among subnormal results, which
// are all reported as hard.
func hard(s float64) bool {
	b := math.Float64bits(s)
	return b&(1<<29-1) == 1<<28 || b<<1 < 2*(1023-126)<<52
}

// fmaOdd is p+z rounded to binary32 once: it rounds to odd in binary64, which preserves on which side of a midpoint
// the sum is, and then to binary32.
//
//go:noinline
func fmaOdd(p float64, z float32) float32 {
	c := float64(z)
	s := p + c
	v := s - p // s + e is the sum exactly (TwoSum)
	e := (p - (s - v)) + (c - v)
	b := math.Float64bits(s)
	if e != 0 && b&1 == 0 {
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
		p := float64(w[i]) * xd
		s := float64(p) + float64(a)
		if hard(s) {
			acc[i] = fmaOdd(p, a)
		} else {
			acc[i] = float32(s)
		}
	}
}

// fmaRows is for r: acc[r] = fma(a[r], b[r], acc[r]).
func fmaRows(acc, a, b *[PanelRows]float32) {
	for r, c := range acc {
		p := float64(a[r]) * float64(b[r])
		s := float64(p) + float64(c)
		if hard(s) {
			acc[r] = fmaOdd(p, c)
		} else {
			acc[r] = float32(s)
		}
	}
}
