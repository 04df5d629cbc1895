package asm

// F16: a GGUF row is binary16 numbers. A panel is [cols][16 rows] binary16.
var formatF16 = format{
	name: "f16", blockWeights: 1, blockBytes: 2, panelBytes: 32,
	notFinite: notFiniteF16, pack: pack16, row: rowF16, matMul: matMulF16, sections: []section{{1, 2}},
}

func notFiniteF16(row []byte) int {
	return exponents(row, 2, 0x7c007c007c007c00, 0x0400040004000400)
}

// pack16 packs numbers of 16 bits.
func pack16(panel, row []byte, r, from, to int, _ bool) {
	for k := from; k < to && row != nil; k++ {
		le.PutUint16(panel[(k*PanelRows+r)*2:], le.Uint16(row[2*k:]))
	}
}

func rowF16(panel []byte, r int, dst []float32, _ bool) {
	for k := range dst {
		dst[k] = FromF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
	}
}

// matMulF16: for k ascending: acc = fma(w[k], x[k], acc).
func matMulF16(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w perRow
	for k := range x.Cols {
		readF16(w[:], panel[k*2*PanelRows:])
		acc.column(x, k, &w)
	}
	acc.store(x.Tokens, out, stride)
}
