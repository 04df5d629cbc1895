package asm

import "math"

// F32: a GGUF row is float32 numbers. A panel is [cols][16 rows] float32.
var formatF32 = format{
	name: "f32", blockWeights: 1, blockBytes: 4, panelBytes: 64,
	notFinite: notFiniteF32, pack: packF32, row: rowF32, matMul: matMulF32, sections: []section{{1, 4}},
}

func notFiniteF32(row []byte) int {
	return exponents(row, 4, 0x7f8000007f800000, 0x0080000000800000)
}

func packF32(panel, row []byte, r, from, to int, _ bool) {
	for k := from; k < to && row != nil; k++ {
		le.PutUint32(panel[(k*PanelRows+r)*4:], le.Uint32(row[4*k:]))
	}
}

func rowF32(panel []byte, r int, dst []float32, _ bool) {
	for k := range dst {
		dst[k] = math.Float32frombits(le.Uint32(panel[(k*PanelRows+r)*4:]))
	}
}

// matMulF32: for k ascending: acc = fma(w[k], x[k], acc).
func matMulF32(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w perRow
	for k := range x.Cols {
		readF32(w[:], panel[k*4*PanelRows:])
		acc.column(x, k, &w)
	}
	acc.store(x.Tokens, out, stride)
}
