package asm

// BF16: a GGUF row is bfloat16 numbers, the upper halves of float32. A panel is [cols][16 rows] bfloat16.
var formatBF16 = format{
	name: "bf16", blockWeights: 1, blockBytes: 2, panelBytes: 32,
	finite: finiteBF16, pack: pack16, row: rowBF16, matMul: matMulBF16,
}

func finiteBF16(block []byte) bool { return le.Uint16(block)&0x7f80 != 0x7f80 }

func rowBF16(panel []byte, r int, dst []float32, _ bool) {
	for k := range dst {
		dst[k] = FromBF16(le.Uint16(panel[(k*PanelRows+r)*2:]))
	}
}

// matMulBF16: for k ascending: acc = fma(w[k], x[k], acc).
func matMulBF16(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
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
