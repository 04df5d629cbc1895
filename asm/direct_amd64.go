//go:build !purego

package asm

// directKernel multiplies supers super-blocks of a compact panel with the quants q of one token, whose scales are d.
type directKernel[E any] func(panel *byte, entries *E, q *int8, d *float32, sums *int32, supers int, out *float32)

// directOf makes a MatMulCompact of a kernel that gets a type's entries.
func directOf[E any](f Format, kernel directKernel[E], entries *E, of func(*Tile) []int32) func([]byte, *Tile,
	[]float32) {
	t := formats[f].table
	return func(panel []byte, x *Tile, out []float32) {
		supers := x.Cols / SuperBlock
		if supers == 0 {
			clearTile(x, out, PanelRows)
			return
		}
		sums, blocks := of(x), x.Cols/BlockSize
		_, _, _ = panel[supers*formats[f].panelBytes-1], x.Q[blocks*BlockSize-1], x.D[blocks-1]
		_, _ = sums[blocks*f.sumsPerToken()-1], out[PanelRows-1]
		kernel(&panel[0], entries, &x.Q[0], &x.D[0], &sums[0], supers, &out[0])
		t.scaleOut(1, out, PanelRows)
	}
}

// Magnitudes of the weights of an entry; of IQ1 weights, plus 16, of those whose sign is not minus.
var (
	magnitudesIQ3_XXS = quads(gridIQ3_XXS[:], [8]byte{2, 6, 10, 14, 18, 22, 26, 31})
	magnitudesIQ2_S   = octets(gridIQ2_S[:], [4]byte{8, 25, 43})
	magnitudesIQ2_XS  = octets(gridIQ2_XS[:], [4]byte{8, 25, 43})
	magnitudesIQ2_XXS = octets(gridIQ2_XXS[:], [4]byte{8, 25, 43})
	raisedIQ1         = octets(gridIQ1[:], [4]byte{16 - 7, 16 + 1, 16 + 9})
)

// directAVX2 sets the products of one token with compact panels.
func directAVX2(k *Kernels) {
	k.Weights[IQ3_XXS].MatMulCompact = directOf(IQ3_XXS, iq3xxsDirectAVX2, &magnitudesIQ3_XXS[0], tileBias)
	k.Weights[IQ2_S].MatMulCompact = directOf(IQ2_S, iq2sDirectAVX2, &magnitudesIQ2_S[0], tileHalf)
	k.Weights[IQ2_XS].MatMulCompact = directOf(IQ2_XS, iq2xsDirectAVX2, &magnitudesIQ2_XS[0], tileHalf)
	k.Weights[IQ2_XXS].MatMulCompact = directOf(IQ2_XXS, iq2xxsDirectAVX2, &magnitudesIQ2_XXS[0], tileBias)
	k.Weights[IQ1_M].MatMulCompact = directOf(IQ1_M, iq1mDirectAVX2, &raisedIQ1[0], tileHalf)
	k.Weights[IQ1_S].MatMulCompact = directOf(IQ1_S, iq1sDirectAVX2, &raisedIQ1[0], tileBias)
}
