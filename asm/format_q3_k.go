package asm

// Q3_K. A super-block of 256 weights takes 110 bytes: 32 bytes of high bits, bit i of byte l that of weight l of sub-block i; 64 bytes
// of low pairs of bits, bits 2i of byte 32n+l those of weight l of sub-block 4n+i; 16 scales of 6 bits in 12 bytes; d binary16. A
// weight, stored as q+4, is (d*sc[k/16])*q, sc the 6-bit scale minus 32.
//
// A panel is super-blocks of 1856 bytes: [8 sub-blocks] of crumbs and bits of q+4, the bits 2, 192 bytes each; sc [16][16 rows] int8 at
// 1536, one per 16 weights; d [16 rows] binary16 at 1792; 32 bytes of padding. Products of the unsigned weights start at -4
// times the sums of the halves, which is Tile.Half >> 3.
var formatQ3_K = format{
	name: "q3_k", integer: true, blockWeights: 256, blockBytes: 110, panelBytes: q3kPanel,
	sums: halfSums, scales: []int{108}, pack: packQ3_K, row: rowQ3_K, matMul: matMulQ3_K,
}

const (
	q3Bytes   = crumbBytes + bitBytes
	q3kScales = 8 * q3Bytes
	q3kPanel  = q3kScales + 16*PanelRows + 2*32
)

func packQ3_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*110:][:110], panel[b*q3kPanel:][:q3kPanel]
		for i := range 8 {
			quants := super[i*q3Bytes+4*r:]
			putCrumbs(quants, block[32+i/4*32:], i%4*2)
			putBits(quants[crumbBytes:], block[:32], i)
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
			q := crumb(quants, r, k%32) | bit(quants[crumbBytes:], r, k%32)<<2
			out[k] = float32(d*float32(int8(scales[k/16*16+r]))) * float32(int(q)-4)
		}
	}
}

// matMulQ3_K: for sub-blocks of 32 ascending: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc), the integer exact, of the two
// halves of 16 weights, isum = sum of q*qx.
func matMulQ3_K(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q3kPanel:][:q3kPanel], b%8
		scales, quants := super[q3kScales:], super[i*q3Bytes:]
		var d perRow
		readF16(d[:], scales[256:])
		w.crumbs(quants)
		w.bits(quants[crumbBytes:], 2)
		acc.halves(x, b, &w, signedScales(scales[32*i:]), &d, 4)
	}
	acc.store(x.Tokens, out, stride)
}
