package asm

// Q5_0. A block of 32 weights takes 22 bytes: d binary16; 32 high bits, weight 0's the lowest; 16 bytes whose low
// nibbles are the low 4 bits of weights 0 … 15 and whose high nibbles are those of 16 … 31, each stored as q+16.
// A weight is d*q.
//
// A panel is pairs of blocks (see pairedBlock): d [2][16 rows] binary16; [2] of nibbles and bits of q+16, the bits 4.
// Their products start at -16*sum(q), which is Tile.Bias >> 3.
var formatQ5_0 = format{
	name: "q5_0", integer: true, blockWeights: 32, blockBytes: 22, panelBytes: 32 + q5Bytes,
	sums: biasSums, scales: []int{0}, pack: packQ5_0, row: rowQ5_0, matMul: matMulQ5_0,
	sections: []section{{2, 2}, {2 * 5, 4}},
}

// q5Bytes is the size of a block's weights of 5 bits: nibbles, then bits.
const q5Bytes = nibbleBytes + bitBytes

func packQ5_0(panel, row []byte, r, from, to int, _ bool) {
	for b := from / BlockSize; b < to/BlockSize && row != nil; b++ {
		scales, at := pairedBlock(b, q5Bytes)
		block, quants := row[b*22:][:22], panel[at+4*r:]
		le.PutUint16(panel[scales+2*r:], le.Uint16(block))
		putNibbles(quants, block[6:])
		putBits32(quants[nibbleBytes:], le.Uint32(block[2:]))
	}
}

// rowQ5_0: dst = d*q.
func rowQ5_0(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / BlockSize {
		scales, at := pairedBlock(b, q5Bytes)
		d, quants := FromF16(le.Uint16(panel[scales+2*r:])), panel[at:]
		for k, out := 0, dst[b*BlockSize:][:BlockSize]; k < BlockSize; k++ {
			q := nibble(quants, r, k) | bit(quants[nibbleBytes:], r, k)<<4
			out[k] = d * float32(int(q)-16)
		}
	}
}

// matMulQ5_0: for blocks ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulQ5_0(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		scales, quants := pairedBlock(b, q5Bytes)
		var d perRow
		readF16(d[:], panel[scales:])
		w.nibbles(panel[quants:])
		w.bits(panel[quants+nibbleBytes:], 4)
		acc.block(x, b, &w, &d, 16)
	}
	acc.store(x.Tokens, out, stride)
}
