package asm

import "testing"

// The least powers of two of MXFP4, two of which are subnormal, in every set: beside greater ones they would not be
// noticed.
func TestMXFP4LeastPowers(t *testing.T) {
	const cols, tokens = 256, 3
	r := newRand(30)
	raw := randomRows(r, MXFP4, PanelRows, cols)
	for b := 0; b < len(raw); b += MXFP4.BlockBytes() {
		raw[b] = byte(r.IntN(3))
	}
	scalar := Scalar()
	var want []float32
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		x, _ := newTile(t, &scalar, newRand(31), tokens, cols)
		panel, got := make([]byte, MXFP4.PanelBytes(cols)), make([]float32, tokens*PanelRows)
		packProduct(MXFP4, k.Offset, panel, raw, PanelRows, cols)
		k.Weights[MXFP4].MatMul(panel, x, got, PanelRows, Prefetch{})
		if want == nil { // scalar is the first
			want = got
		}
		wantSame(t, "products", got, want)
	})
}
