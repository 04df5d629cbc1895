//go:build !purego

package asm

// The assembly below computes multiples of 16 elements; the scalar kernel computes the remaining ones.

func quantizeARM64(v []float32, x *Tile, t int) bool {
	blocks := x.Cols / BlockSize
	if blocks == 0 {
		return true
	}
	last := (blocks-1)*x.Tokens + t
	_, _, _ = v[blocks*BlockSize-1], x.Q[last*BlockSize+31], x.D[last]
	_, _, _ = x.Bias[last], x.DSum[last], x.Half[2*last+1]
	return quantizeNEON(&v[0], &x.Q[t*BlockSize], &x.D[t], &x.Bias[t], &x.DSum[t], &x.Half[2*t], blocks,
		x.Tokens) == blocks
}

func encodeQ4_0ARM64(dst []byte, x []float32) bool {
	blocks := len(x) / BlockSize
	if blocks == 0 {
		return true
	}
	_ = dst[blocks*18-1]
	return encodeQ4_0NEON(&dst[0], &x[0], blocks) == blocks
}

func encodeF16ARM64(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	n := len(src) &^ 15
	if n > 0 {
		encodeF16NEON(&dst[0], &src[0], n/16)
	}
	encodeF16(dst[n:], src[n:])
}

func decodeF16ARM64(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	n := len(src) &^ 15
	if n > 0 {
		decodeF16NEON(&dst[0], &src[0], n/16)
	}
	decodeF16(dst[n:], src[n:])
}

func ropeInterleavedARM64(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	n := len(cos) &^ 15
	if n > 0 {
		ropeInterleavedNEON(x, cos, sin, n/16)
	}
	ropeInterleaved(x[2*n:], cos[n:], sin[n:])
}

func finiteARM64(x []float32) bool { return greatestNEON(x) < 0x7f800000 }

func maxHashARM64(n int, first uint32, key uint64) (most uint32) {
	whole := n &^ 15
	if whole > 0 {
		most = uint32(maxHashNEON(uint64(first), key, whole/16))
	}
	return max(most, maxHash(n-whole, first+uint32(whole), key))
}

func gumbelARM64(dst []float32, first uint32, key uint64) {
	n := len(dst) &^ 15
	if n > 0 {
		gumbelNEON(&dst[0], uint64(first), key, n/16)
	}
	gumbel(dst[n:], first+uint32(n), key)
}

// argMaxARM64 finds the greatest element, then the first index that has it.
func argMaxARM64(x []float32) int {
	n := len(x) / 16
	m := maximumNEON(x)
	i := 0
	if n > 0 {
		i = 16 * findNEON(&x[0], m, n)
	}
	for ; i < len(x); i++ {
		if x[i] == m {
			return i
		}
	}
	return 0 // all are NaN
}
