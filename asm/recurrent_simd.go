//go:build !purego && (amd64 || arm64)

package asm

// deltaKernel and mamba2Kernel compute the tokens of a head for some whole panels of its state; see stubs_*.go.
// Strides are in bytes.
type (
	deltaKernel func(state *float32, keys int, q, k, v *float32, stride int, decay, beta *float32, scale float32,
		tokens int, out *float32, outStride int)
	mamba2Kernel func(state *float32, keys int, x, b, c *float32, stride int, step, decay *float32, skip float32,
		tokens int, out *float32, outStride int)
)

// deltaScanOf makes a DeltaScan of a kernel for one panel, and of one for several, which may be nil. Values past the
// last multiple of 16 are computed in Go.
func deltaScanOf(one, several deltaKernel, panels int) func([]float32, int, int, *DeltaTokens) {
	return func(state []float32, keys, values int, x *DeltaTokens) {
		at, last := 0, x.Tokens-1
		if keys > 0 && last >= 0 && values > 0 {
			_, _, _ = x.Q[last*x.Stride+keys-1], x.K[last*x.Stride+keys-1], x.V[last*x.Stride+values-1]
			_, _, _, _ = state[keys*values-1], x.Decay[last], x.Beta[last], x.Out[last*x.OutStride+values-1]
			for n := 0; at+PanelRows <= values; at += n {
				kernel := one
				if n = PanelRows; several != nil && values-at >= panels*PanelRows {
					kernel, n = several, panels*PanelRows
				}
				kernel(&state[keys*at], keys, &x.Q[0], &x.K[0], &x.V[at], 4*x.Stride, &x.Decay[0], &x.Beta[0], x.Scale, x.Tokens,
					&x.Out[at], 4*x.OutStride)
			}
		}
		deltaColumns(state[keys*at:], keys, at, values, x)
	}
}

// mamba2ScanOf makes a Mamba2Scan of kernels as deltaScanOf does.
func mamba2ScanOf(one, several mamba2Kernel, panels int) func([]float32, int, int, *Mamba2Tokens) {
	return func(state []float32, keys, values int, x *Mamba2Tokens) {
		at, last := 0, x.Tokens-1
		if keys > 0 && last >= 0 && values > 0 {
			_, _, _ = x.X[last*x.Stride+values-1], x.B[last*x.Stride+keys-1], x.C[last*x.Stride+keys-1]
			_, _, _, _ = state[keys*values-1], x.Step[last], x.Decay[last], x.Out[last*x.OutStride+values-1]
			for n := 0; at+PanelRows <= values; at += n {
				kernel := one
				if n = PanelRows; several != nil && values-at >= panels*PanelRows {
					kernel, n = several, panels*PanelRows
				}
				kernel(&state[keys*at], keys, &x.X[at], &x.B[0], &x.C[0], 4*x.Stride, &x.Step[0], &x.Decay[0], x.Skip, x.Tokens,
					&x.Out[at], 4*x.OutStride)
			}
		}
		mamba2Columns(state[keys*at:], keys, at, values, x)
	}
}

// convOf makes a Conv of a kernel for multiples of 16 channels, whose strides are rowBytes. The other channels are
// computed in Go.
func convOf(kernel func(out, x, w *float32, sixteens, taps, tokens, rowBytes int)) func(
	[]float32, []float32, []float32, int) {
	return func(out, x, w []float32, channels int) {
		n := channels / PanelRows
		if len(out) == 0 || len(w) == 0 || n == 0 {
			convColumns(out, x, w, channels, 0)
			return
		}
		tokens, taps := len(out)/channels, len(w)/channels
		_ = x[(tokens+taps-1)*channels-1]
		kernel(&out[0], &x[0], &w[0], n, taps, tokens, 4*channels)
		convColumns(out, x, w, channels, n*PanelRows)
	}
}
