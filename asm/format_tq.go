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
// second ones; then of bytes 32 … 47 5 digits, of bytes 48 … 51 4; d binary16. A panel is that of TQ2_0.
var formatTQ1_0 = format{
	name: "tq1_0", integer: true, blockWeights: 256, blockBytes: 54, panelBytes: tqPanel,
	sums: biasSums, scales: []int{52}, pack: packTQ1_0, row: rowTQ, matMul: matMulTQ,
}

const (
	tqScales = 8 * crumbBytes
	tqPanel  = tqScales + 2*32
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
		block, super := row[b*54:][:54], panel[b*tqPanel:][:tqPanel]
		var q [SuperBlock]byte
		ternary(&q, block[:52])
		for i := range 8 {
			putCrumbs(super[i*crumbBytes+4*r:], q[32*i:], 0)
		}
		le.PutUint16(super[tqScales+2*r:], le.Uint16(block[52:]))
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
