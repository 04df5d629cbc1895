package asm

// Q3_K. A super-block of 256 weights takes 110 bytes: 32 bytes of high bits, bit i of byte l that of weight l of
// sub-block i; 64 bytes of low pairs of bits, bits 2i of byte 32n+l those of weight l of sub-block 4n+i; 16 scales of
// 6 bits in 12 bytes; d binary16. A weight, stored as q+4, is (d*sc[k/16])*q, sc the 6-bit scale minus 32.
//
// A panel is super-blocks of 1856 bytes: [8 sub-blocks] of q+4, 192 bytes each; sc [16][16 rows] int8 at 1536, one
// per 16 weights; d [16 rows] binary16 at 1792; 32 bytes of padding. A sub-block is three vectors [16 rows][4 bytes],
// byte j with weight j of groups of 4:
//
//	vector  bits 0-2  bits 3-5  bit 6             bit 7
//	0       group 0   group 1   bits 0 and 1 of group 6
//	1       group 2   group 3   bit 2 of group 6  bit 2 of group 7
//	2       group 4   group 5   bits 0 and 1 of group 7
//
// Products of the unsigned weights start at -4 times the sums of the halves, which is Tile.Half >> 3.
var formatQ3_K = format{
	name: "q3_k", integer: true, blockWeights: 256, blockBytes: 110, panelBytes: q3kPanel,
	sums: halfSums, scales: []int{108}, pack: packQ3_K, row: rowQ3_K, matMul: matMulQ3_K,
	sections: []section{{8 * 3, 4}, {16, 1}, {2, 2}},
}

const (
	q3Bytes   = 3 * 64
	q3kScales = 8 * q3Bytes
	q3kPanel  = q3kScales + 16*PanelRows + 2*32
)

func packQ3_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*110:][:110], panel[b*q3kPanel:][:q3kPanel]
		for i := range 8 {
			var q [8]uint32 // groups
			for g := range q {
				q[g] = le.Uint32(block[32+i/4*32+4*g:])>>(i%4*2)&0x03030303 | le.Uint32(block[4*g:])>>i&0x01010101<<2
			}
			quants := super[i*q3Bytes+4*r:]
			le.PutUint32(quants, q[0]|q[1]<<3|q[6]&0x03030303<<6)
			le.PutUint32(quants[64:], q[2]|q[3]<<3|q[6]&0x04040404<<4|q[7]&0x04040404<<5)
			le.PutUint32(quants[128:], q[4]|q[5]<<3|q[7]&0x03030303<<6)
		}
		scales := super[q3kScales:]
		for i, packed := 0, block[96:108]; i < 16; i++ {
			sc := packed[i%8]>>(i/8*4)&15 | packed[8+i%4]>>(i/4*2)&3<<4
			scales[16*i+r] = sc - 32
		}
		le.PutUint16(scales[256+2*r:], le.Uint16(block[108:]))
	}
}

// rowQ3_K: dst = (d*sc)*q.
func rowQ3_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q3kPanel:][:q3kPanel]
		scales := super[q3kScales:]
		d := FromF16(le.Uint16(scales[256+2*r:]))
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			quants := super[k/32*q3Bytes:]
			four := threeBits(le.Uint32(quants[4*r:]), le.Uint32(quants[64+4*r:]), le.Uint32(quants[128+4*r:]), k%32/4)
			q := four >> (k % 4 * 8) & 7
			out[k] = float32(d*float32(int8(scales[k/16*16+r]))) * float32(int(q)-4)
		}
	}
}

// matMulQ3_K: for sub-blocks of 32 ascending: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc), the integer exact,
// of the two halves of 16 weights, isum = sum of q*qx.
func matMulQ3_K(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q3kPanel:][:q3kPanel], b%8
		scales, quants := super[q3kScales:], super[i*q3Bytes:]
		var d perRow
		readF16(d[:], scales[256:])
		for r := range PanelRows {
			v0, v1, v2 := le.Uint32(quants[4*r:]), le.Uint32(quants[64+4*r:]), le.Uint32(quants[128+4*r:])
			for g := range 8 {
				le.PutUint32(w[64*g+4*r:], threeBits(v0, v1, v2, g))
			}
		}
		acc.halves(x, b, &w, signedScales(scales[32*i:]), &d, 4)
	}
	acc.store(x.Tokens, out, stride)
}

// threeBits takes the 4 weights of group g from a row's bytes of the three vectors.
func threeBits(v0, v1, v2 uint32, g int) uint32 {
	const all, low = 0x07070707, 0x03030303
	switch g {
	case 6:
		return v0>>6&low | v1>>4&(all-low)
	case 7:
		return v2>>6&low | v1>>5&(all-low)
	}
	return [3]uint32{v0, v1, v2}[g/2] >> (g % 2 * 3) & all
}
