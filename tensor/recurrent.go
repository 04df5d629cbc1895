package tensor

import (
	"encoding/binary"
	"math"
	"unsafe"

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

// StepScratch is the memory of a step. The zero value is ready; several threads need one each.
type StepScratch struct {
	tile asm.Tile
	u    []float32 // [values]
}

// A head's state, a matrix [keys][values], lies in panels of 16 columns as float32 weights do, so that a kernel multiplies it:
// [values/16][keys][16]. The last panel is narrower if the values are not a multiple of 16.

// product is out[j] = sum over i of p[i]*state[i][j], by fma from +0, i ascending.
func (rt *Runtime) product(out, state, p []float32, s *StepScratch) {
	for n := len(out); n > 0; n = len(out) {
		width := min(n, asm.PanelRows)
		panel := state[:len(p)*width]
		if width == asm.PanelRows && littleEndian && len(p) > 0 {
			s.tile.Tokens, s.tile.Cols, s.tile.F = 1, len(p), p
			rt.k.MatMul[asm.F32](bytesOf(panel), &s.tile, out[:width], width, asm.Ahead{})
			s.tile.F = nil
		} else {
			clear(out[:width])
			for i, x := range p {
				MulAdd(out[:width], panel[i*width:(i+1)*width], x)
			}
		}
		out, state = out[width:], state[len(panel):]
	}
}

// update is state[i][j] = fma(state[i][j], decay, u[j]*k[i]).
func (rt *Runtime) update(state, u, k []float32, decay float32) {
	for len(u) > 0 {
		width := min(len(u), asm.PanelRows)
		for i, x := range k {
			rt.k.Blend(state[i*width:(i+1)*width], u[:width], decay, x)
		}
		u, state = u[width:], state[len(k)*width:]
	}
}

// littleEndian says that float32 numbers lie in memory as in panels of weights.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf is the memory of x.
func bytesOf(x []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)) }

// Mamba2Step is one step of a head of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060). state [len(b)][len(x)], in panels, holds the head's
// state, transposed so that a lane is an element of x:
//
//	state[i][j] = fma(state[i][j], decay, (x[j]*dt)*b[i])
//	out[j] = fma(skip, x[j], sum over i of c[i]*state[i][j]), the sum by fma from +0, i ascending
//
// decay is exp(dt*A). out may be nil: then only the state moves on.
func (rt *Runtime) Mamba2Step(out, state, x, b, c []float32, dt, decay, skip float32, s *StepScratch) {
	s.u = grow(s.u, len(x))
	for j, v := range x {
		s.u[j] = v * dt
	}
	rt.update(state, s.u, b, decay)
	if out != nil {
		rt.product(out[:len(x)], state, c, s)
		MulAdd(out[:len(x)], x, skip)
	}
}

// DeltaStep is one step of a head of a gated delta net (Yang et al. 2024, arXiv:2412.06464). state [len(k)][len(v)], in panels, maps
// keys to values:
//
//	u[j] = sum over i of k[i]*state[i][j], by fma from +0, i ascending
//	u[j] = (v[j] - u[j]*decay)*beta
//	state[i][j] = fma(state[i][j], decay, u[j]*k[i])
//	out[j] = sum over i of q[i]*state[i][j], likewise
//
// out may be nil: then only the state moves on.
func (rt *Runtime) DeltaStep(out, state, q, k, v []float32, decay, beta float32, s *StepScratch) {
	s.u = grow(s.u, len(v))
	rt.product(s.u, state, k, s)
	for j, x := range v {
		s.u[j] = (x - float32(s.u[j]*decay)) * beta
	}
	rt.update(state, s.u, k, decay)
	if out != nil {
		rt.product(out[:len(v)], state, q, s)
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
