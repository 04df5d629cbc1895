package asm

import "math"

// quantize turns activations into signed bytes, block by block:
//
//	amax = greatest |v|; if amax is Inf or NaN, return false
//	if amax < 2^-100 { q = 0, d = 0 } else {
//	    d = amax/127; inv = 127/amax
//	    q[i] = v[i]*inv rounded half to even, clamped to ±127
//	}
//	s0 = sum of q[0..15], s1 = sum of q[16..31]; Bias = -128*(s0+s1); Half = -32*s0, -32*s1; DSum = d*float(s0+s1)
func quantize(v []float32, x *Tile, t int) bool {
	v = v[:x.Cols]
	for b := range x.Cols / BlockSize {
		block := (*[BlockSize]float32)(v[b*BlockSize:])
		i := b*x.Tokens + t
		amax, ok := absMax(block[:])
		if !ok {
			return false
		}
		q := (*[BlockSize]int8)(x.Q[i*BlockSize:])
		if amax < 0x1p-100 {
			*q = [BlockSize]int8{}
			x.D[i], x.Bias[i], x.DSum[i], x.Half[2*i], x.Half[2*i+1] = 0, 0, 0, 0, 0
			continue
		}
		inv := 127 / amax
		var s [2]int32
		for k, e := range block {
			n := roundInt(float32(e * inv))
			q[k] = int8(n)
			s[k/16] += n
		}
		d := amax / 127
		x.D[i] = d
		x.Bias[i] = -128 * (s[0] + s[1])
		x.DSum[i] = d * float32(s[0]+s[1])
		x.Half[2*i] = -32 * s[0]
		x.Half[2*i+1] = -32 * s[1]
	}
	return true
}

// absMax is the greatest magnitude; ok is false if there is an Inf or NaN.
func absMax(v []float32) (amax float32, ok bool) {
	var m uint32 // magnitudes compare as their bits
	for _, e := range v {
		m = max(m, math.Float32bits(e)&^(1<<31))
	}
	return math.Float32frombits(m), m < 0x7f800000
}

// roundInt rounds half to even and clamps to ±127; |x| < 2^22.
func roundInt(x float32) int32 {
	n := int32(math.Float32bits(x+roundMagic)) - 0x4b400000
	return min(max(n, -127), 127)
}
