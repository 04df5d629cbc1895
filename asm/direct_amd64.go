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

// Weights of entries: magnitudes; of IQ1 16 more than weights without minus.
var (
	weightsIQ3_XXS = entryWeights(formatIQ3_XXS.table, formatIQ3_XXS.table.grid.quads[:], 0)
	weightsIQ2_S   = entryWeights(formatIQ2_S.table, formatIQ2_S.table.grid.octets[:], 0)
	weightsIQ2_XS  = entryWeights(formatIQ2_XS.table, formatIQ2_XS.table.grid.octets[:], 0)
	weightsIQ2_XXS = entryWeights(formatIQ2_XXS.table, formatIQ2_XXS.table.grid.octets[:], 0)
	weightsIQ1     = entryWeights(formatIQ1_S.table, entriesIQ1[:], 16)
)

// entryWeights has what the nibbles of entries stand for, plus a number, in their place. Kernels may read 8 bytes or 3
// entries before the first.
func entryWeights[E uint32 | uint64](t *table, entries []E, plus int8) []E {
	const before = 3
	to := make([]E, before+len(entries))[before:]
	for i, e := range entries {
		for j := 0; e>>j > 0; j += 8 {
			to[i] |= E(uint8(t.values[e>>j&15]+plus)) << j
		}
	}
	return to
}

// directAVX2 sets the products of one token with compact panels.
func directAVX2(k *Kernels) {
	k.Weights[IQ3_XXS].MatMulCompact = directOf(IQ3_XXS, iq3xxsDirectAVX2, &weightsIQ3_XXS[0], tileBias)
	k.Weights[IQ2_S].MatMulCompact = directOf(IQ2_S, iq2sDirectAVX2, &weightsIQ2_S[0], tileHalf)
	k.Weights[IQ2_XS].MatMulCompact = directOf(IQ2_XS, iq2xsDirectAVX2, &weightsIQ2_XS[0], tileHalf)
	k.Weights[IQ2_XXS].MatMulCompact = directOf(IQ2_XXS, iq2xxsDirectAVX2, &weightsIQ2_XXS[0], tileBias)
	k.Weights[IQ1_M].MatMulCompact = directOf(IQ1_M, iq1mDirectAVX2, &weightsIQ1[0], tileHalf)
	k.Weights[IQ1_S].MatMulCompact = directOf(IQ1_S, iq1sDirectAVX2, &weightsIQ1[0], tileBias)
}
