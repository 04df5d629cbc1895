package asm

import "math"

// lanes is the sum of 16 lanes in the order every kernel uses: lane j += lane j+8, then 4, 2, 1.
func lanes(l *[16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for j := range n {
			l[j] += l[j+n]
		}
	}
	return l[0]
}

func sumSquares(x []float32) float32 {
	var l [16]float32
	for ; len(x) >= 16; x = x[16:] {
		v := (*[16]float32)(x)
		fmaRows(&l, v, v)
	}
	for i, e := range x {
		l[i] = FMA(e, e, l[i])
	}
	return lanes(&l)
}

func sum(x []float32) float32 {
	var l [16]float32
	for ; len(x) >= 16; x = x[16:] {
		for i, e := range x[:16] {
			l[i] += e
		}
	}
	for i, e := range x {
		l[i] += e
	}
	return lanes(&l)
}

func rmsNorm(dst, x, w []float32, eps float32) {
	dst, w = dst[:len(x)], w[:len(x)]
	s := sumSquares(x) / float32(len(x))
	inv := 1 / sqrt32(s+eps)
	for i, e := range x {
		dst[i] = float32(e*inv) * w[i]
	}
}

func layerNorm(dst, x, w, b []float32, eps float32) {
	dst, w, b = dst[:len(x)], w[:len(x)], b[:len(x)]
	n := float32(len(x))
	mean := sum(x) / n
	var l [16]float32
	for i, e := range x {
		c := e - mean
		l[i%16] = FMA(c, c, l[i%16])
	}
	inv := 1 / sqrt32(lanes(&l)/n+eps)
	for i, e := range x {
		dst[i] = FMA(float32((e-mean)*inv), w[i], b[i])
	}
}

func finite(x []float32) bool {
	for _, e := range x {
		if math.Float32bits(e)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

func add(dst, x []float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		dst[i] += e
	}
}

func blend(dst, x []float32, a, b float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		dst[i] = FMA(dst[i], a, float32(e*b))
	}
}

func siluMul(dst, gate, up []float32) {
	dst, up = dst[:len(gate)], up[:len(gate)]
	for i, g := range gate {
		dst[i] = float32(g/(1+Exp32(-g))) * up[i]
	}
}

func sigmoidMul(dst, x []float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		dst[i] *= Sigmoid32(e)
	}
}

func gelu(dst, x []float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		z := e * FMA(e*e, geluCubic, geluLinear)
		dst[i] = e / (1 + Exp32(z))
	}
}

func geluErf(dst, x []float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		a := math.Float32frombits(math.Float32bits(e) &^ (1 << 31))
		positive := float32(0)
		if e > 0 {
			positive = e
		}
		dst[i] = FMA(-a, UpperTail32(a), positive)
	}
}

func ropeInterleaved(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		x[2*i] = FMA(a, c, -float32(b*sin[i]))
		x[2*i+1] = FMA(b, c, float32(a*sin[i]))
	}
}

func ropeHalves(x, cos, sin []float32) {
	n := len(cos)
	lo, hi, sin := x[:n], x[n:2*n], sin[:n]
	for i, c := range cos {
		a, b := lo[i], hi[i]
		lo[i] = FMA(a, c, -float32(b*sin[i]))
		hi[i] = FMA(b, c, float32(a*sin[i]))
	}
}

func exp(dst, x []float32) {
	dst = dst[:len(x)]
	for i, e := range x {
		dst[i] = Exp32(e)
	}
}

func expSum(s []float32) (m, l float32) {
	m = float32(math.Inf(-1))
	for _, e := range s {
		if e > m {
			m = e
		}
	}
	m += 0 // no -0
	for i, e := range s {
		s[i] = Weight32(e - m)
	}
	return m, sum(s)
}

// expSumsOf is [AttentionKernels].ExpSums, row by row.
func expSumsOf(one func(s []float32) (m, l float32)) func(s []float32, stride, n int, m, l []float32) {
	return func(s []float32, stride, n int, m, l []float32) {
		l = l[:len(m)]
		for r := range m {
			m[r], l[r] = one(s[r*stride:][:n])
		}
	}
}

func argMax(x []float32) int {
	best := 0
	for i, e := range x {
		if e > x[best] || x[best] != x[best] && e == e {
			best = i
		}
	}
	return best
}
