package asm

// Q2_K. A super-block of 256 weights takes 84 bytes: 16 bytes with a scale in the low nibble and a minimum in the
// high nibble, one per 16 weights; 64 bytes of pairs of bits, bits 2i of byte 32n+l those of weight l of sub-block
// 4n+i; d, dmin binary16. A weight is (d*sc[k/16])*q - dmin*mn[k/16].
//
// A panel is super-blocks of 1344 bytes: [8 sub-blocks] of crumbs of q, 128 bytes each; [16][16 rows] bytes at 1024,
// one per 16 weights, sc in the low and mn in the high nibble; d [16 rows] binary16 at 1280; dmin [16 rows] binary16
// at 1312. The sums of the halves are Tile.Half / -32.
var formatQ2_K = format{
	name: "q2_k", integer: true, blockWeights: 256, blockBytes: 84, panelBytes: q2kPanel,
	sums: halfSums, scales: []int{80, 82}, pack: packQ2_K, row: rowQ2_K, matMul: matMulQ2_K,
	sections: []section{{8 * 2, 4}, {16, 1}, {2, 2}},
}

const (
	q2kScales = 8 * crumbBytes
	q2kPanel  = q2kScales + 16*PanelRows + 2*32
)

func packQ2_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*84:][:84], panel[b*q2kPanel:][:q2kPanel]
		for i := range 8 {
			putCrumbs(super[i*crumbBytes+4*r:], block[16+i/4*32:], i%4*2)
		}
		scales := super[q2kScales:]
		for i, v := range block[:16] {
			scales[16*i+r] = v
		}
		le.PutUint16(scales[256+2*r:], le.Uint16(block[80:]))
		le.PutUint16(scales[288+2*r:], le.Uint16(block[82:]))
	}
}

// rowQ2_K: dst = (d*sc)*q - dmin*mn.
func rowQ2_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q2kPanel:][:q2kPanel]
		scales := super[q2kScales:]
		d, dmin := FromF16(le.Uint16(scales[256+2*r:])), FromF16(le.Uint16(scales[288+2*r:]))
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			v := scales[k/16*16+r]
			s, m := d*float32(v&15), float32(dmin*float32(v>>4))
			out[k] = float32(s*float32(crumb(super[k/32*crumbBytes:], r, k%32))) - m
		}
	}
}

// matMulQ2_K: for sub-blocks of 32 ascending: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc); acc =
// fma(-float(mn0*sum0 + mn1*sum1), dmin*dx, acc), the integers exact, of the two halves of 16 weights, isum = sum of
// q*qx, sum = sum of qx.
func matMulQ2_K(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q2kPanel:][:q2kPanel], b%8
		scales := super[q2kScales:]
		var d, dmin perRow
		readF16(d[:], scales[256:])
		readF16(dmin[:], scales[288:])
		var sc, mn [2][PanelRows]int32
		for k, v := range scales[32*i:][:2*PanelRows] {
			sc[k/PanelRows][k%PanelRows], mn[k/PanelRows][k%PanelRows] = int32(v&15), int32(v>>4)
		}
		w.crumbs(super[i*crumbBytes:])
		acc.halves(x, b, &w, &sc, &d, 0)
		for t := range x.Tokens {
			at := b*x.Tokens + t
			var u, m perRow
			for r := range u {
				u[r] = -float32(mn[0][r]*(x.Half[2*at]/-32) + mn[1][r]*(x.Half[2*at+1]/-32))
				m[r] = dmin[r] * x.D[at]
			}
			fmaRows(&acc[t], &u, &m)
		}
	}
	acc.store(x.Tokens, out, stride)
}
