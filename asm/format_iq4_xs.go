package asm

// IQ4_XS. A super-block of 256 weights takes 136 bytes: d binary16; 16 bits with the high 2 bits of 8 scales; 4 bytes
// with their low 4 bits; 8 sub-blocks of 16 bytes, nibbles as in Q4_0. A weight of sub-block i is (d*ls[i])*q, q =
// tableIQ4[nibble], ls the 6-bit scale minus 32.
//
// A panel is super-blocks of 2240 bytes: [8 sub-blocks] of nibbles; ls [8][16 rows] int8 at 2048; d [16 rows]
// binary16 at 2176; 32 bytes of padding. A kernel that multiplies u8 x s8 looks up q+128, whose products start at
// -128*sum(q), which is Tile.Bias.
var formatIQ4_XS = format{
	name: "iq4_xs", integer: true, blockWeights: 256, blockBytes: 136, panelBytes: iq4xsPanel,
	sums: biasSums, scales: []int{0}, pack: packIQ4_XS, row: rowIQ4_XS, matMul: matMulIQ4_XS,
}

const (
	iq4xsScales = 8 * nibbleBytes
	iq4xsPanel  = iq4xsScales + 8*PanelRows + 2*32
)

func packIQ4_XS(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock && row != nil; b++ {
		block, super := row[b*136:][:136], panel[b*iq4xsPanel:][:iq4xsPanel]
		scales := super[iq4xsScales:]
		high, low := le.Uint16(block[2:]), block[4:8]
		for i := range 8 {
			ls := low[i/2]>>(i%2*4)&15 | byte(high>>(2*i)&3<<4)
			scales[16*i+r] = ls - 32
			putNibbles(super[i*nibbleBytes+4*r:], block[8+16*i:])
		}
		le.PutUint16(scales[128+2*r:], le.Uint16(block))
	}
}

// rowIQ4_XS: dst = (d*ls)*q.
func rowIQ4_XS(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*iq4xsPanel:][:iq4xsPanel]
		scales := super[iq4xsScales:]
		d := FromF16(le.Uint16(scales[128+2*r:]))
		for i := range 8 {
			s := d * float32(int8(scales[16*i+r]))
			for k, out := 0, dst[b*SuperBlock+32*i:][:32]; k < 32; k++ {
				out[k] = s * float32(tableIQ4[nibble(super[i*nibbleBytes:], r, k)])
			}
		}
	}
}

// matMulIQ4_XS: for sub-blocks ascending: acc = fma(float(isum), (d*float(ls))*dx, acc), isum = sum of q*qx.
func matMulIQ4_XS(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*iq4xsPanel:][:iq4xsPanel], b%8
		scales := super[iq4xsScales:]
		var d perRow
		readF16(d[:], scales[128:])
		for r, ls := range scales[16*i:][:PanelRows] {
			d[r] *= float32(int8(ls))
		}
		w.nibbles(super[i*nibbleBytes:])
		w.lookup(&tableIQ4)
		acc.block(x, b, &w, &d, 0)
	}
	acc.store(x.Tokens, out, stride)
}
