package asm

// TQ2_0. A super-block of 256 weights takes 66 bytes: 64 bytes of pairs of bits, bits 2i of byte 32n+l those of weight
// l of sub-block 4n+i; d binary16. A weight, stored as q+1, is d*q.
//
// A panel is super-blocks of 1088 bytes: [8 sub-blocks] of crumbs of q+1, 128 bytes each; d [16 rows] binary16 at 1024;
// 32 bytes of padding. Products of the unsigned weights start at minus the sum of the activations, which is
// Tile.Bias >> 7.
var formatTQ2_0 = format{
	name: "tq2_0", integer: true, blockWeights: 256, blockBytes: 66, panelBytes: tqPanel,
	sums: biasSums, scales: []int{64}, pack: packTQ2_0, row: rowTQ, matMul: matMulTQ,
	sections: []section{{8 * 2, 4}, {2, 2}},
}

// TQ1_0. A super-block of 256 weights takes 54 bytes: 52 bytes whose digits of base 3 are weights q+1, most
// significant first, as the fraction byte/256: of bytes 0 … 31 5 digits, the first ones of all 32 bytes before the
// second ones; then of bytes 32 … 47 5 digits, of bytes 48 … 51 4; d binary16.
//
// A panel is compact, super-blocks of 864 bytes: [13][16 rows][4 of the 52 bytes]; d [16 rows] binary16 at 832.
// Products take that of TQ2_0.
var formatTQ1_0 = format{
	name: "tq1_0", integer: true, blockWeights: 256, blockBytes: 54, panelBytes: tq1Panel,
	sums: biasSums, scales: []int{52}, pack: packTQ1_0, row: rowTQ1_0, matMul: matMulTQ,
	sections: []section{{13, 4}, {1, 2}},
	inflate:  inflateTQ1_0, productBytes: tqPanel,
}

const (
	tqScales = 8 * crumbBytes
	tqPanel  = tqScales + 2*32

	tq1Scales = 13 * 4 * PanelRows
	tq1Panel  = tq1Scales + 2*PanelRows
)

func packTQ2_0(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*66:][:66], panel[b*tqPanel:][:tqPanel]
		for i := range 8 {
			putCrumbs(super[i*crumbBytes+4*r:], block[i/4*32:], i%4*2)
		}
		le.PutUint16(super[tqScales+2*r:], le.Uint16(block[64:]))
	}
}

func packTQ1_0(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*54:][:54], panel[b*tq1Panel:][:tq1Panel]
		for i := range 13 {
			copy(super[64*i+4*r:][:4], block[4*i:])
		}
		copy(super[tq1Scales+2*r:][:2], block[52:])
	}
}

// rowTQ1_0: dst = d*q.
func rowTQ1_0(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*tq1Panel:][:tq1Panel]
		var packed [52]byte
		for i := range 13 {
			copy(packed[4*i:][:4], super[64*i+4*r:])
		}
		var q [SuperBlock]byte
		ternary(&q, packed[:])
		d := FromF16(le.Uint16(super[tq1Scales+2*r:]))
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			out[k] = d * float32(int(q[k])-1)
		}
	}
}

// inflateTQ1_0 is WeightKernels.Inflate. Digits of groups i of 4 weights, at bits 2i, are the crumbs of as many
// sub-blocks. It goes over 8 of the 64 bytes of a group at a time.
func inflateTQ1_0(dst, panel []byte, cols int) {
	const sub = crumbBytes
	for b := range cols / SuperBlock {
		super, to := panel[b*tq1Panel:][:tq1Panel], dst[b*tqPanel:][:tqPanel]
		for at := 0; at < 4*PanelRows; at += 8 {
			for c := 0; c <= 64; c += 64 { // of sub-blocks 0 … 4
				x0, x1, x2, x3, x4 := ternaryCrumbs(super[4*c+at:])
				half := to[c+at:]
				le.PutUint64(half, x0)
				le.PutUint64(half[sub:], x1)
				le.PutUint64(half[2*sub:], x2)
				le.PutUint64(half[3*sub:], x3)
				le.PutUint64(half[4*sub:], x4)
			}
			x0, x1, x2, x3, x4 := ternaryCrumbs(super[512+at:]) // 5 halves of sub-blocks 5, 6 and 7
			half := to[5*sub+at:]
			le.PutUint64(half, x0)
			le.PutUint64(half[64:], x1)
			le.PutUint64(half[sub:], x2)
			le.PutUint64(half[sub+64:], x3)
			le.PutUint64(half[2*sub:], x4)
			x0, x1, x2, x3, _ = ternaryDigits(le.Uint64(super[768+at:]))
			le.PutUint64(half[2*sub+64:], x0|x1<<2|x2<<4|x3<<6)
		}
		copy(to[tqScales:][:2*PanelRows], super[tq1Scales:])
	}
}

// ternaryCrumbs are the digits of 4 groups, 64 bytes apart: of digit n those of group i at bits 2i of each byte.
func ternaryCrumbs(groups []byte) (x0, x1, x2, x3, x4 uint64) {
	for i := 3; i >= 0; i-- {
		d0, d1, d2, d3, d4 := ternaryDigits(le.Uint64(groups[64*i:]))
		x0, x1, x2, x3, x4 = x0<<2|d0, x1<<2|d1, x2<<2|d2, x3<<2|d3, x4<<2|d4
	}
	return
}

// ternaryDigits are the 5 digits of each of 8 bytes of TQ1_0, the most significant first: the whole part of 3 times the
// fraction byte/256 is a digit, the rest the next fraction.
func ternaryDigits(v uint64) (d0, d1, d2, d3, d4 uint64) {
	const bytes = 0x00ff00ff00ff00ff // every second byte, with room for a product
	even, odd := v&bytes*3, v>>8&bytes*3
	d0 = even>>8&bytes | odd&^bytes
	even, odd = even&bytes*3, odd&bytes*3
	d1 = even>>8&bytes | odd&^bytes
	even, odd = even&bytes*3, odd&bytes*3
	d2 = even>>8&bytes | odd&^bytes
	even, odd = even&bytes*3, odd&bytes*3
	d3 = even>>8&bytes | odd&^bytes
	even, odd = even&bytes*3, odd&bytes*3
	d4 = even>>8&bytes | odd&^bytes
	return
}

// ternary reads the digits of a block of TQ1_0.
func ternary(q *[SuperBlock]byte, packed []byte) {
	k := 0
	for _, part := range [3]struct{ from, to, digits int }{{0, 32, 5}, {32, 48, 5}, {48, 52, 4}} {
		power := byte(1)
		for range part.digits {
			for _, v := range packed[part.from:part.to] {
				q[k] = byte(uint16(v*power) * 3 >> 8)
				k++
			}
			power *= 3
		}
	}
}

// rowTQ: dst = d*q.
func rowTQ(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*tqPanel:][:tqPanel]
		d := FromF16(le.Uint16(super[tqScales+2*r:]))
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			out[k] = d * float32(int(crumb(super[k/32*crumbBytes:], r, k%32))-1)
		}
	}
}

// matMulTQ: for sub-blocks of 32 ascending: acc = fma(float(isum), d*dx, acc), isum = sum of q*qx.
func matMulTQ(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super := panel[b/8*tqPanel:][:tqPanel]
		var d perRow
		readF16(d[:], super[tqScales:])
		w.crumbs(super[b%8*crumbBytes:])
		acc.block(x, b, &w, &d, 1)
	}
	acc.store(x.Tokens, out, stride)
}
