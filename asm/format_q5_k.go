package asm

// Q5_K. A super-block of 256 weights takes 176 bytes: d, dmin binary16; 8 scales and 8 minimums of 6 bits in 12 bytes
// as in Q4_K; 32 bytes of high bits, bit i of byte l that of weight l of sub-block i; 128 bytes of nibbles, of which
// 32 bytes hold sub-blocks 2p (low nibbles) and 2p+1. A weight of sub-block i is (d*sc[i])*q - dmin*mn[i].
//
// A panel is super-blocks of 2880 bytes: [8 sub-blocks] of nibbles and bits of q, the bits 4, 320 bytes each; d [16
// rows] binary16 at 2560; dmin [16] at 2592; sc [8][16] uint8 at 2624; mn [8][16] uint8 at 2752. Unlike in Q4_K a
// sub-block's quants lie together.
var formatQ5_K = format{
	name: "q5_k", integer: true, blockWeights: 256, blockBytes: 176, panelBytes: q5kPanel,
	sums: dSums, scales: []int{0, 2}, pack: packQ5_K, row: rowQ5_K, matMul: matMulQ5_K,
	sections: []section{{8 * 5, 4}, {2, 2}, {2 * 8, 1}},
}

const (
	q5kScales = 8 * q5Bytes
	q5kPanel  = q5kScales + 2*32 + 2*8*PanelRows
)

func packQ5_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*176:][:176], panel[b*q5kPanel:][:q5kPanel]
		scales := super[q5kScales:]
		le.PutUint16(scales[2*r:], le.Uint16(block))
		le.PutUint16(scales[32+2*r:], le.Uint16(block[2:]))
		sc, mn := unpackScales(block[4:16])
		for i := range 8 {
			scales[64+16*i+r] = sc[i]
			scales[192+16*i+r] = mn[i]
			quants := super[i*q5Bytes+4*r:]
			putHalves(quants, block[48+i/2*32:], i%2*4)
			putBits(quants[nibbleBytes:], block[16:48], i)
		}
	}
}

// rowQ5_K: dst = (d*sc)*q - dmin*mn.
func rowQ5_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q5kPanel:][:q5kPanel]
		scales := super[q5kScales:]
		d, dmin := FromF16(le.Uint16(scales[2*r:])), FromF16(le.Uint16(scales[32+2*r:]))
		for i := range 8 {
			s := d * float32(scales[64+16*i+r])
			m := float32(dmin * float32(scales[192+16*i+r]))
			quants := super[i*q5Bytes:]
			for k, out := 0, dst[b*SuperBlock+32*i:][:32]; k < 32; k++ {
				q := nibble(quants, r, k) | bit(quants[nibbleBytes:], r, k)<<4
				out[k] = float32(s*float32(q)) - m
			}
		}
	}
}

// matMulQ5_K: for sub-blocks ascending: acc = fma(float(isum), (d*float(sc))*dx, acc);
// acc = fma(-(dmin*float(mn)), dx*float(sum), acc), isum = sum of q*qx, sum = sum of qx.
func matMulQ5_K(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q5kPanel:][:q5kPanel], b%8
		scales, quants := super[q5kScales:], super[i*q5Bytes:]
		var d, m perRow
		readF16(d[:], scales)
		readF16(m[:], scales[32:])
		scaleRows(&d, &m, (*[PanelRows]byte)(scales[64+16*i:]), (*[PanelRows]byte)(scales[192+16*i:]))
		w.nibbles(quants)
		w.bits(quants[nibbleBytes:], 4)
		acc.block(x, b, &w, &d, 0)
		acc.minimum(x, b, &m)
	}
	acc.store(x.Tokens, out, stride)
}
