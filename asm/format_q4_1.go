package asm

// Q4_1. A block of 32 weights takes 20 bytes: d, m binary16; 16 bytes whose low nibbles are weights 0 … 15 and
// whose high nibbles are weights 16 … 31. A weight is d*q + m.
//
// A panel is blocks of 320 bytes: d [16 rows] binary16; m [16 rows] binary16; nibbles of q.
var formatQ4_1 = format{
	name: "q4_1", integer: true, blockWeights: 32, blockBytes: 20, panelBytes: 64 + nibbleBytes,
	sums: dSums, scales: []int{0, 2}, pack: packQ4_1, row: rowQ4_1, matMul: matMulQ4_1,
	sections: []section{{2, 2}, {4, 4}},
}

func packQ4_1(panel, row []byte, r, from, to int, _ bool) {
	for b := from / BlockSize; b < to/BlockSize && row != nil; b++ {
		block, part := row[b*20:][:20], panel[b*(64+nibbleBytes):]
		le.PutUint16(part[2*r:], le.Uint16(block))
		le.PutUint16(part[32+2*r:], le.Uint16(block[2:]))
		putNibbles(part[64+4*r:], block[4:])
	}
}

// rowQ4_1: dst = d*q + m.
func rowQ4_1(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / BlockSize {
		part := panel[b*(64+nibbleBytes):]
		d, m := FromF16(le.Uint16(part[2*r:])), FromF16(le.Uint16(part[32+2*r:]))
		for k, out := 0, dst[b*BlockSize:][:BlockSize]; k < BlockSize; k++ {
			out[k] = float32(d*float32(nibble(part[64:], r, k))) + m
		}
	}
}

// matMulQ4_1: for blocks ascending: acc = fma(float(isum), d*dx, acc); acc = fma(m, dx*float(sum), acc),
// isum = sum of q*qx, sum = sum of qx.
func matMulQ4_1(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		part := panel[b*(64+nibbleBytes):]
		var d, m perRow
		readF16(d[:], part)
		readF16(m[:], part[32:])
		w.nibbles(part[64:])
		acc.block(x, b, &w, &d, 0)
		acc.minimum(x, b, &m)
	}
	acc.store(x.Tokens, out, stride)
}
