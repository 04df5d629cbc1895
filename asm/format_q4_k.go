package asm

// Q4_K. A super-block of 256 weights takes 144 bytes: d, dmin binary16; 8 scales and 8 minimums of 6 bits in 12
// bytes; 128 bytes of nibbles, of which 32 bytes hold sub-blocks 2p (low nibbles) and 2p+1. A weight of sub-block i
// is (d*sc[i])*q - dmin*mn[i].
//
// A panel is super-blocks of 2368 bytes: nibbles [4 pairs][8 groups][16 rows][4 bytes], low nibble sub-block 2p, high
// nibble sub-block 2p+1, weight 4g+j of it; d [16 rows] binary16 at 2048; dmin [16] at 2080; sc [8][16] uint8 at
// 2112; mn [8][16] uint8 at 2240.
var formatQ4_K = format{
	name: "q4_k", integer: true, blockWeights: 256, blockBytes: 144, panelBytes: q4kPanel,
	sums: dSums, scales: []int{0, 2}, pack: packQ4_K, row: rowQ4_K, matMul: matMulQ4_K,
	sections: []section{{4 * 8, 4}, {2, 2}, {2 * 8, 1}},
}

const q4kPanel = 2368

func packQ4_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block := row[b*144:][:144]
		super := panel[b*q4kPanel:][:q4kPanel]
		for g := 0; g < 32; g += 4 {
			put4((*[column4]byte)(super[g*64+4*r:]), (*[16]byte)(block[16+4*g:]), 0)
		}
		le.PutUint16(super[2048+2*r:], le.Uint16(block[0:]))
		le.PutUint16(super[2080+2*r:], le.Uint16(block[2:]))
		sc, mn := unpackScales(block[4:16])
		for i := range 8 {
			super[2112+16*i+r] = sc[i]
			super[2240+16*i+r] = mn[i]
		}
	}
}

// unpackScales reads the eight 6-bit scales and minimums of a Q4_K or Q5_K block.
func unpackScales(s []byte) (sc, mn [8]byte) {
	for i := range 4 {
		sc[i] = s[i] & 63
		mn[i] = s[i+4] & 63
		sc[i+4] = s[i+8]&15 | s[i]>>6<<4
		mn[i+4] = s[i+8]>>4 | s[i+4]>>6<<4
	}
	return sc, mn
}

// rowQ4_K: dst = (d*sc)*q - dmin*mn.
func rowQ4_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q4kPanel:][:q4kPanel]
		d, dmin := FromF16(le.Uint16(super[2048+2*r:])), FromF16(le.Uint16(super[2080+2*r:]))
		for i := range 8 {
			s := d * float32(super[2112+16*i+r])
			m := float32(dmin * float32(super[2240+16*i+r]))
			for k, out := 0, dst[b*SuperBlock+32*i:][:32]; k < 32; k++ {
				q := super[i/2*512+k/4*64+4*r+k%4] >> (i % 2 * 4) & 15
				out[k] = float32(s*float32(q)) - m
			}
		}
	}
}

// matMulQ4_K: for sub-blocks ascending: acc = fma(float(isum), (d*float(sc))*dx, acc);
// acc = fma(-(dmin*float(mn)), dx*float(sum), acc), isum = sum of q*qx, sum = sum of qx.
func matMulQ4_K(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q4kPanel:][:q4kPanel], b%8
		var d, m perRow
		readF16(d[:], super[2048:])
		readF16(m[:], super[2080:])
		scaleRows(&d, &m, (*[PanelRows]byte)(super[2112+16*i:]), (*[PanelRows]byte)(super[2240+16*i:]))
		quants, shift := (*[512]byte)(super[i/2*512:]), i%2*4
		for at := 0; at < len(w); at += 4 {
			le.PutUint32(w[at:], le.Uint32(quants[at:])>>shift&0x0f0f0f0f)
		}
		acc.block(x, b, &w, &d, 0)
		acc.minimum(x, b, &m)
	}
	acc.store(x.Tokens, out, stride)
}

// scaleRows makes d the scales of a sub-block, d*sc, and m what its minimums add, -(dmin*mn), of the super-block's d
// and dmin.
func scaleRows(d, m *perRow, sc, mn *[PanelRows]byte) {
	for r := range d {
		d[r] *= float32(sc[r])
		m[r] = -float32(m[r] * float32(mn[r]))
	}
}
