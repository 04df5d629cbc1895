package asm

// Q8_0. A block of 32 weights takes 34 bytes: d binary16; q [32] int8. A weight is d*q.
//
// A panel is pairs of blocks (see pairedBlock): d [2][16 rows] binary16; bytes of q [2]. With MatrixKernels.Offset
// the bytes are q^0x80, that is unsigned q+128: their products start at -128*sum(q), which is Tile.Bias.
var formatQ8_0 = format{
	name: "q8_0", integer: true, blockWeights: 32, blockBytes: 34, panelBytes: 32 + 512,
	offset: true, sums: biasSums, scales: []int{0}, pack: packQ8_0, row: rowQ8_0, matMul: matMulQ8_0,
	sections: []section{{2, 2}, {2 * 8, 4}},
}

func packQ8_0(panel, row []byte, r, from, to int, offset bool) {
	var flip uint32
	if offset {
		flip = 0x80808080
	}
	for b := from / BlockSize; b < to/BlockSize; b++ {
		scales, at := pairedBlock(b, 512)
		quants := panel[at+4*r:]
		if row == nil {
			for g := range 8 {
				le.PutUint32(quants[g*64:], flip)
			}
			continue
		}
		block := (*[34]byte)(row[b*34:])
		put4((*[column4]byte)(quants), (*[16]byte)(block[2:]), flip)
		put4((*[column4]byte)(quants[256:]), (*[16]byte)(block[18:]), flip)
		le.PutUint16(panel[scales+2*r:], le.Uint16(block[:]))
	}
}

// rowQ8_0: dst = d*q.
func rowQ8_0(panel []byte, r int, dst []float32, offset bool) {
	var flip byte
	if offset {
		flip = 0x80
	}
	for b := range len(dst) / 32 {
		scales, quants := pairedBlock(b, 512)
		d := FromF16(le.Uint16(panel[scales+2*r:]))
		for k, out := 0, dst[b*32:][:32]; k < 32; k++ {
			q := int8(panel[quants+k/4*64+4*r+k%4] ^ flip)
			out[k] = d * float32(q)
		}
	}
}

// matMulQ8_0: for blocks ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulQ8_0(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	for b := range x.Cols / BlockSize {
		scales, quants := pairedBlock(b, 512)
		var d perRow
		readF16(d[:], panel[scales:])
		acc.block(x, b, (*weights)(panel[quants:]), &d, 0)
	}
	acc.store(x.Tokens, out, stride)
}
