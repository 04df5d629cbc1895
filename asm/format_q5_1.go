package asm

// Q5_1. A block of 32 weights takes 24 bytes: d, m binary16; 32 high bits, weight 0's the lowest; 16 bytes whose low
// nibbles are the low 4 bits of weights 0 … 15 and whose high nibbles are those of 16 … 31. A weight is d*q + m.
//
// A panel is blocks of 384 bytes: d [16 rows] binary16; m [16 rows] binary16; nibbles and bits of q, the bits 4.
var formatQ5_1 = format{
	name: "q5_1", integer: true, blockWeights: 32, blockBytes: 24, panelBytes: 64 + q5Bytes,
	sums: dSums, scales: []int{0, 2}, pack: packQ5_1, row: rowQ5_1, matMul: matMulQ5_1,
	sections: []section{{2, 2}, {5, 4}},
}

func packQ5_1(panel, row []byte, r, from, to int, _ bool) {
	for b := from / BlockSize; b < to/BlockSize && row != nil; b++ {
		block, part := row[b*24:][:24], panel[b*(64+q5Bytes):]
		le.PutUint16(part[2*r:], le.Uint16(block))
		le.PutUint16(part[32+2*r:], le.Uint16(block[2:]))
		putNibbles(part[64+4*r:], block[8:])
		putBits32(part[64+nibbleBytes+4*r:], le.Uint32(block[4:]))
	}
}

// rowQ5_1: dst = d*q + m.
func rowQ5_1(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / BlockSize {
		part := panel[b*(64+q5Bytes):]
		d, m := FromF16(le.Uint16(part[2*r:])), FromF16(le.Uint16(part[32+2*r:]))
		for k, out := 0, dst[b*BlockSize:][:BlockSize]; k < BlockSize; k++ {
			q := nibble(part[64:], r, k) | bit(part[64+nibbleBytes:], r, k)<<4
			out[k] = float32(d*float32(q)) + m
		}
	}
}

// matMulQ5_1: for blocks ascending: acc = fma(float(isum), d*dx, acc); acc = fma(m, dx*float(sum), acc),
// isum = sum of q*qx, sum = sum of qx.
func matMulQ5_1(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		part := panel[b*(64+q5Bytes):]
		var d, m perRow
		readF16(d[:], part)
		readF16(m[:], part[32:])
		w.nibbles(part[64:])
		w.bits(part[64+nibbleBytes:], 4)
		acc.block(x, b, &w, &d, 0)
		acc.minimum(x, b, &m)
	}
	acc.store(x.Tokens, out, stride)
}
