package asm

// Q6_K. A super-block of 256 weights takes 210 bytes: 128 bytes of low nibbles; 64 bytes of high pairs of bits; 16
// scales int8; d binary16. For half n of the super-block and l < 32: weights 128n+{0, 32, 64, 96}+l have the nibbles
// low and low of 32 bytes on, high, high of low[64n+l], and bits 0, 2, 4, 6 and their neighbours of high[32n+l], each
// stored as q+32. A weight is (d*sc[k/16])*q.
//
// A panel is super-blocks of 3392 bytes: [8 sub-blocks] of nibbles and crumbs of q+32, the crumbs bits 4 and 5 with
// the halves of their bytes exchanged, 384 bytes each; sc [16][16 rows] int8 at 3072, one per 16 weights; d [16 rows]
// binary16 at 3328; 32 bytes of padding. The exchange puts the crumbs of the first group of a vector where its bits
// belong, and those of the third one shift of 4 away. Products of the unsigned weights start at -32 times the sums of
// the halves, which is Tile.Half.
var formatQ6_K = format{
	name: "q6_k", integer: true, blockWeights: 256, blockBytes: 210, panelBytes: q6kPanel,
	sums: halfSums, scales: []int{208}, pack: packQ6_K, row: rowQ6_K, matMul: matMulQ6_K,
	sections: []section{{8 * 6, 4}, {16, 1}, {2, 2}},
}

const (
	q6Bytes   = nibbleBytes + crumbBytes
	q6kScales = 8 * q6Bytes
	q6kPanel  = q6kScales + 16*PanelRows + 2*32
)

func packQ6_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock; b++ {
		super := panel[b*q6kPanel:][:q6kPanel]
		if row == nil {
			for i := range 8 {
				high := super[i*q6Bytes+nibbleBytes+4*r:]
				le.PutUint32(high, 0xaaaaaaaa) // 2 in all high bits: q+32 = 32
				le.PutUint32(high[64:], 0xaaaaaaaa)
			}
			continue
		}
		block := row[b*210:][:210]
		for i := range 8 {
			quants := super[i*q6Bytes+4*r:]
			putHalves(quants, block[i/4*64+i%2*32:], i%4/2*4)
			high := quants[nibbleBytes:]
			putCrumbs(high, block[128+i/4*32:], i%4*2)
			swapNibbles(high)
			swapNibbles(high[64:])
		}
		scales := super[q6kScales:]
		for i, sc := range block[192:208] {
			scales[16*i+r] = sc
		}
		le.PutUint16(scales[256+2*r:], le.Uint16(block[208:]))
	}
}

// swapNibbles exchanges the halves of 4 bytes.
func swapNibbles(p []byte) {
	v := le.Uint32(p)
	le.PutUint32(p, v>>4&0x0f0f0f0f|v&0x0f0f0f0f<<4)
}

// rowQ6_K: dst = (d*sc)*q.
func rowQ6_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q6kPanel:][:q6kPanel]
		scales := super[q6kScales:]
		d := FromF16(le.Uint16(scales[256+2*r:]))
		for k, out := 0, dst[b*SuperBlock:][:SuperBlock]; k < SuperBlock; k++ {
			quants := super[k/32*q6Bytes:]
			q := nibble(quants, r, k%32) | swappedCrumb(quants[nibbleBytes:], r, k%32)<<4
			out[k] = float32(d*float32(int8(scales[k/16*16+r]))) * float32(int(q)-32)
		}
	}
}

// swappedCrumb is crumb where the halves of bytes are exchanged: 8 weights, two groups, further on in turn.
func swappedCrumb(p []byte, r, k int) byte { return crumb(p, r, k^8) }

// matMulQ6_K: for sub-blocks of 32 ascending: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc), the integer exact,
// of the two halves of 16 weights, isum = sum of q*qx.
func matMulQ6_K(panel []byte, x *Tile, out []float32, stride int, _ Prefetch) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q6kPanel:][:q6kPanel], b%8
		scales, quants := super[q6kScales:], super[i*q6Bytes:]
		var d perRow
		readF16(d[:], scales[256:])
		w.nibbles(quants)
		w.swappedCrumbs(quants[nibbleBytes:], 4)
		acc.halves(x, b, &w, signedScales(scales[32*i:]), &d, 32)
	}
	acc.store(x.Tokens, out, stride)
}

// swappedCrumbs adds two bits to each weight of a block, as bits to and to+1, from crumbs with the halves of bytes
// exchanged.
func (w *weights) swappedCrumbs(p []byte, to int) {
	for g := range 8 {
		in, out := (*[64]byte)(p[g/4*64:]), (*[64]byte)(w[g*64:])
		for i := 0; i < len(in); i += 4 {
			le.PutUint32(out[i:], le.Uint32(out[i:])|le.Uint32(in[i:])>>((2*g+4)%8)&0x03030303<<to)
		}
	}
}

// signedScales reads the scales of the two halves of a sub-block, [2][16 rows] int8.
func signedScales(p []byte) *[2][PanelRows]int32 {
	var sc [2][PanelRows]int32
	for i, v := range p[:2*PanelRows] {
		sc[i/PanelRows][i%PanelRows] = int32(int8(v))
	}
	return &sc
}
