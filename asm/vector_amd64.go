//go:build !purego

package asm

import "math"

// Kernels of 256 bits whose assembly takes whole registers only, or other arguments. The scalar kernel computes the
// remaining elements.

func quantize256(v []float32, x *Tile, t int) bool {
	blocks := x.Cols / BlockSize
	if blocks == 0 {
		return true
	}
	last := (blocks-1)*x.Tokens + t
	_, _, _ = v[x.Cols-1], x.Q[last*BlockSize+BlockSize-1], x.D[last]
	_, _, _ = x.Bias[last], x.DSum[last], x.Half[2*last+1]
	greatest := quantizeAVX2(&v[0], &x.Q[t*BlockSize], &x.D[t], &x.Bias[t], &x.DSum[t], &x.Half[2*t], blocks, x.Tokens)
	return greatest < 0x7f800000 // the bits of Inf; those of NaN are greater
}

func encodeQ4_0x32(dst []byte, x []float32) bool {
	blocks := len(x) / BlockSize
	if blocks == 0 {
		return true
	}
	_ = dst[blocks*18-1]
	return encodeQ4_0AVX2(&dst[0], &x[0], blocks) < int(math.Float32bits(tooLargeQ4_0))
}

func encodeF16x8(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := len(src) &^ 7
	if n > 0 {
		encodeF16AVX2(&dst[0], &src[0], n)
	}
	encodeF16(dst[n:], src[n:])
}

func decodeF16x8(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := len(src) &^ 7
	if n > 0 {
		decodeF16AVX2(&dst[0], &src[0], n)
	}
	decodeF16(dst[n:], src[n:])
}

func ropeInterleaved256(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	n := len(cos) &^ 3
	if n > 0 {
		ropeInterleavedAVX2(&x[0], &cos[0], &sin[0], n)
	}
	ropeInterleaved(x[2*n:], cos[n:], sin[n:])
}

// argMax256 finds the greatest element, then the first index that has it.
func argMax256(x []float32) int {
	if len(x) == 0 {
		return 0
	}
	m := maximumAVX2(x)
	n := len(x) &^ 7
	if i := indexAVX2(&x[0], n, m); i < n {
		return i
	}
	for i, e := range x[n:] {
		if e == m {
			return n + i
		}
	}
	return 0 // all are NaN
}

func finite256(x []float32) bool { return greatestAVX2(x) < 0x7f800000 }

func maxHash256(n int, first uint32, key uint64) uint32 {
	return uint32(maxHashAVX2(n, first, uint32(key), uint32(key>>32)))
}

func gumbel256(dst []float32, first uint32, key uint64) {
	gumbelAVX2(dst, first, uint32(key), uint32(key>>32))
}

func expSum256(s []float32) (float32, float32) {
	var m, l [1]float32
	expSumsAVX2(s, 0, len(s), m[:], l[:])
	return m[0], l[0]
}

func expSum512(s []float32) (float32, float32) {
	var m, l [1]float32
	expSumsAVX512(s, 0, len(s), m[:], l[:])
	return m[0], l[0]
}

// expSums is [AttentionKernels].ExpSums, all maxima first.
type expSums func(s []float32, stride, n int, m, l []float32)

// expSumRows gives a kernel few rows at a time: their elements are read twice.
func expSumRows(kernel expSums) expSums {
	const most = 8
	return func(s []float32, stride, n int, m, l []float32) {
		for r := 0; r < len(m); r += most {
			rows := min(most, len(m)-r)
			_ = s[(r+rows-1)*stride:][:n]
			kernel(s[r*stride:], stride, n, m[r:][:rows], l[r:][:rows])
		}
	}
}
