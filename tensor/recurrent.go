package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// One token's step of the recurrent layers of hybrid models, for one head or a few channels. They run on the caller's goroutine and
// change nothing but their own state, so that heads and sequences can run on several threads ([Runtime.Parallel]). The state is
// binary32; sums run ascending by fma; a step's result does not depend on how the text is cut into passes.

// ConvStep is one step of a causal convolution over time with a filter for each channel: with x_0 this token's inputs and x_-1 the ones before,
//
//	out[c] = w[0][c]*x_-(taps-1)[c] + … + w[taps-1][c]*x_0[c], by fma from +0
//
// history [taps-1][channels] holds the earlier inputs, the oldest first, and moves on by x. w is [taps][channels]. out may be nil:
// then only the history moves on. out and x have len(x) = channels numbers and are distinct.
func (rt *Runtime) ConvStep(out, history, x, w []float32) {
	n := len(x)
	if out != nil {
		out = out[:n]
		clear(out)
		for tap := 0; (tap+1)*n <= len(history); tap++ {
			mulAddEach(out, w[tap*n:(tap+1)*n], history[tap*n:(tap+1)*n])
		}
		mulAddEach(out, w[len(w)-n:], x)
	}
	if len(history) > 0 {
		copy(history, history[n:])
		copy(history[len(history)-n:], x)
	}
}

// mulAddEach is dst[i] = fma(a[i], b[i], dst[i]).
func mulAddEach(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, d := range dst {
		dst[i] = asm.FMA(a[i], b[i], d)
	}
}

// Mamba2Step is one step of a head of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060). state [len(b)][len(x)] holds the head's state, transposed so
// that a lane is an element of x:
//
//	state[i][j] = fma(state[i][j], decay, (x[j]*dt)*b[i])
//	out[j] = fma(skip, x[j], sum over i of c[i]*state[i][j]), the sum by fma from +0, i ascending
//
// decay is exp(dt*A). out may be nil: then only the state moves on. scaled has room for len(x) numbers.
func (rt *Runtime) Mamba2Step(out, state, x, b, c []float32, dt, decay, skip float32, scaled []float32) {
	n := len(x)
	scaled = scaled[:n]
	for j, v := range x {
		scaled[j] = v * dt
	}
	if out != nil {
		out = out[:n]
		clear(out)
	}
	for i, v := range b {
		row := state[i*n : (i+1)*n]
		rt.k.Blend(row, scaled, decay, v)
		if out != nil {
			MulAdd(out, row, c[i])
		}
	}
	if out != nil {
		MulAdd(out, x, skip)
	}
}

// DeltaStep is one step of a head of a gated delta net (Yang et al. 2024, arXiv:2412.06464). state [len(k)][len(v)] maps keys to values:
//
//	u[j] = sum over i of k[i]*state[i][j], by fma from +0, i ascending
//	u[j] = (v[j] - u[j]*decay)*beta
//	state[i][j] = fma(state[i][j], decay, u[j]*k[i])
//	out[j] = sum over i of q[i]*state[i][j], likewise
//
// out may be nil: then only the state moves on. u has room for len(v) numbers.
func (rt *Runtime) DeltaStep(out, state, q, k, v []float32, decay, beta float32, u []float32) {
	n := len(v)
	u = u[:n]
	clear(u)
	for i, x := range k {
		MulAdd(u, state[i*n:(i+1)*n], x)
	}
	for j, x := range v {
		u[j] = (x - float32(u[j]*decay)) * beta
	}
	if out != nil {
		out = out[:n]
		clear(out)
	}
	for i, x := range k {
		row := state[i*n : (i+1)*n]
		rt.k.Blend(row, u, decay, x)
		if out != nil {
			MulAdd(out, row, q[i])
		}
	}
}

// Softplus is ln(1 + exp(x)), x itself above 20. With u = 1 + exp(x), rounded, it is ln(u)*(exp(x)/(u-1)), which makes up for what
// the rounding of u has lost.
func Softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	e := asm.Exp32(x)
	u := 1 + e
	if u == 1 {
		return e
	}
	return asm.Log32(u) * (e / (u - 1))
}

// SiLU is x = x/(1+exp(-x)), on the caller's thread.
func SiLU(x []float32) {
	for i, v := range x {
		x[i] = v / (1 + asm.Exp32(-v))
	}
}

// L2Norm divides x by the greater of its Euclidean length and eps: by the sum of 16 lanes of squares (see the package's comment).
func L2Norm(x []float32, eps float32) {
	n := max(float32(math.Sqrt(float64(anyKernels().SumSquares(x)))), eps)
	for i := range x {
		x[i] /= n
	}
}
