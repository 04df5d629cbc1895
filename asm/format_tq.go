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
	inflate: inflateTQ1_0, productBytes: tqPanel,
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

// ternaryDigits has the digits of a byte of TQ1_0, digit n in byte n.
var ternaryDigits = func() *[256]uint64 {
	t := new([256]uint64)
	for v := range t {
		for n, power := 0, 1; n < 5; n, power = n+1, power*3 {
			t[v] |= uint64(v*power%256*3>>8) << (8 * n)
		}
	}
	return t
}()

// inflateTQ1_0 is Kernels.Inflate. Digits of groups i of 4 weights, at bits 2i, are the crumbs of as many sub-blocks.
func inflateTQ1_0(dst, panel []byte, cols int) {
	for b := range cols / SuperBlock {
		super, to := panel[b*tq1Panel:][:tq1Panel], dst[b*tqPanel:][:tqPanel]
		for at := range 4 * PanelRows {
			v := func(i int) uint64 { return ternaryDigits[super[64*i+at]] }
			for c := range 2 { // of sub-blocks 0 … 4
				x := v(4*c) | v(4*c+1)<<2 | v(4*c+2)<<4 | v(4*c+3)<<6
				for n := range 5 {
					to[n*crumbBytes+64*c+at] = byte(x >> (8 * n))
				}
			}
			x := v(8) | v(9)<<2 | v(10)<<4 | v(11)<<6 // 5 halves of sub-blocks 5, 6 and 7
			for n := range 5 {
				to[(5+n/2)*crumbBytes+n%2*64+at] = byte(x >> (8 * n))
			}
			x = v(12)
			to[7*crumbBytes+64+at] = byte(x | x>>6&12 | x>>12&48 | x>>18&192)
		}
		copy(to[tqScales:][:2*PanelRows], super[tq1Scales:])
	}
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
