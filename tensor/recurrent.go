package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// The recurrent layers of hybrid models, for one head or a few channels and several tokens at once. They run on the
// caller's goroutine and change nothing but their own operands, so that heads and sequences can run on several
// threads ([Runtime.Parallel]). The state is binary32; sums run ascending by fma. The result does not depend on how
// the tokens are divided into calls.

// DeltaTokens are the operands of [Runtime.DeltaScan] for the tokens of one head.
type DeltaTokens = asm.DeltaTokens

// Mamba2Tokens are the operands of [Runtime.Mamba2Scan] for the tokens of one head.
type Mamba2Tokens = asm.Mamba2Tokens

// DeltaScan is the gated delta rule (Yang et al. 2024, arXiv:2412.06464) for one head: it updates state by the tokens
// of x, in order, and writes their outputs. state, a matrix [keys][values], maps keys to values. It is stored in
// panels of 16 values, [values/16][keys][16]; the last panel is narrower if values is not a multiple of 16. For each
// token
//
//	u[j] = sum over i of k[i]*state[i][j], by fma from +0, i ascending
//	u[j] = (v[j] - u[j]*decay)*beta
//	state[i][j] = fma(state[i][j], decay, u[j]*k[i])
//	out[j] = (sum over i of q[i]*state[i][j], likewise)*scale
func (rt *Runtime) DeltaScan(state []float32, keys, values int, x *DeltaTokens) {
	rt.k.DeltaScan(state, keys, values, x)
}

// DecayKey multiplies what a state of [Runtime.DeltaScan] holds for one of its keys, where keys have decays of their
// own.
func DecayKey(state []float32, keys, values, key int, decay float32) {
	for panel := 0; panel < values; panel += asm.PanelRows {
		width := min(asm.PanelRows, values-panel)
		of := state[panel*keys+key*width:][:width]
		for j := range of {
			of[j] *= decay
		}
	}
}

// Mamba2Scan is the recurrence of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) for one head: it updates state by the
// tokens of x, in order, and writes their outputs. state [keys][values], in panels as for DeltaScan, is the transpose
// of the paper's, so that a lane is an element of x. For each token, with decay = exp(step*A),
//
//	state[i][j] = fma(state[i][j], decay, (x[j]*step)*b[i])
//	out[j] = fma(skip, x[j], sum over i of c[i]*state[i][j]), the sum by fma from +0, i ascending
func (rt *Runtime) Mamba2Scan(state []float32, keys, values int, x *Mamba2Tokens) {
	rt.k.Mamba2Scan(state, keys, values, x)
}

// Conv is a causal convolution over time with a filter for each channel:
//
//	out[t][c] = w[0][c]*x[t][c] + … + w[taps-1][c]*x[t+taps-1][c], by fma from +0
//
// w is [taps][channels], out [tokens][channels]. x [taps-1+tokens][channels] begins with the tokens before; out
// shares no memory with it.
func (rt *Runtime) Conv(out, x, w []float32, channels int) { rt.k.Conv(out, x, w, channels) }

// AddRow is dst += x, on the caller's goroutine.
func (rt *Runtime) AddRow(dst, x []float32) { rt.k.Add(dst, x) }

// Softplus is ln(1 + exp(x)), and x itself above 20. With u = 1 + exp(x), rounded, it is ln(u)*(exp(x)/(u-1)): the
// factor corrects the rounding error of u.
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

// SiLU is x = x/(1+exp(-x)), on the caller's goroutine.
func (rt *Runtime) SiLU(x []float32) {
	for len(x) > 0 {
		n := min(len(x), len(ones))
		rt.k.SiLUMul(x[:n], x[:n], ones[:n])
		x = x[n:]
	}
}

// ones are 256 ones, the up operand of SiLU's kernel. They are only read.
var ones = func() (x [256]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// L2Norm divides x by the greater of its Euclidean length and eps, on the caller's goroutine: the sum of squares is
// that of 16 lanes (see the package comment).
func (rt *Runtime) L2Norm(x []float32, eps float32) {
	rt.k.Divide(x, max(float32(math.Sqrt(float64(rt.k.SumSquares(x)))), eps))
}
