package asm

// IQ4_NL. A block of 32 weights takes 18 bytes: d binary16; 16 bytes whose low nibbles are weights 0 … 15 and whose
// high nibbles are weights 16 … 31. A weight is d*q, q = tableIQ4[nibble].
//
// A panel is that of Q4_0: pairs of blocks (see pairedBlock), d [2][16 rows] binary16 and nibbles [2]. A kernel that
// multiplies u8 x s8 looks up q+128, whose products start at -128*sum(q), which is Tile.Bias.
var formatIQ4_NL = format{
	name: "iq4_nl", integer: true, blockWeights: 32, blockBytes: 18, panelBytes: 32 + nibbleBytes,
	sums: biasSums, scales: []int{0}, pack: packQ4_0, row: rowIQ4_NL, matMul: matMulIQ4_NL,
	sections: []section{{2, 2}, {2 * 4, 4}},
}

// tableIQ4 maps the nibbles of IQ4_NL and IQ4_XS to weights.
var tableIQ4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// rowIQ4_NL: dst = d*q.
func rowIQ4_NL(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / BlockSize {
		scales, quants := pairedBlock(b, nibbleBytes)
		d := FromF16(le.Uint16(panel[scales+2*r:]))
		for k, out := 0, dst[b*BlockSize:][:BlockSize]; k < BlockSize; k++ {
			out[k] = d * float32(tableIQ4[nibble(panel[quants:], r, k)])
		}
	}
}

// matMulIQ4_NL: for blocks ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulIQ4_NL(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		scales, quants := pairedBlock(b, nibbleBytes)
		var d perRow
		readF16(d[:], panel[scales:])
		w.nibbles(panel[quants:])
		w.lookup(&tableIQ4)
		acc.block(x, b, &w, &d, 0)
	}
	acc.store(x.Tokens, out, stride)
}
