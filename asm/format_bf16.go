package asm

// BF16: a GGUF row is bfloat16 numbers, the upper halves of float32. A panel is [cols][16 rows] bfloat16.
var formatBF16 = format{
	name: "bf16", blockWeights: 1, blockBytes: 2, panelBytes: 32,
	notFinite: notFiniteBF16, pack: pack16, row: rowBF16, matMul: matMulBF16, sections: []section{{1, 2}},
}

func notFiniteBF16(row []byte) int {
	return exponents(row, 2, 0x7f807f807f807f80, 0x0080008000800080)
}

func rowBF16(panel []byte, r int, dst []float32, _ bool) {
	for k := range dst {
		dst[k] = FromBF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
	}
}

// matMulBF16: for k ascending: acc = fma(w[k], x[k], acc).
func matMulBF16(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w perRow
	for k := range x.Cols {
		for r := range w {
			w[r] = FromBF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
		}
		acc.column(x, k, &w)
	}
	acc.store(x.Tokens, out, stride)
}
