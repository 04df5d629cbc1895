package asm

// Q1_0. A block of 128 weights takes 18 bytes: d binary16; 16 bytes, a bit per weight, the lowest first. A weight is d
// where its bit is set, else -d.
//
// A panel is compact, blocks of 288 bytes: [4 sub-blocks of 32][16 rows][4 bytes] of bits; d [16 rows] binary16 at 256.
// Products take that of Q4_0, which has the weights exactly.
var formatQ1_0 = narrowFormat("q1_0", 128, 4, func(quants []byte, k int) int { return 2*int(quants[k/8]>>(k%8)&1) - 1 },
	inflateQ1_0)

// Q2_0. A block of 64 weights takes 18 bytes: d binary16; 16 bytes of pairs of bits q+1, the lowest first. A weight is
// d*q.
//
// A panel is compact, blocks of 288 bytes: [2 sub-blocks of 32][16 rows][8 bytes] of pairs of bits; d [16 rows]
// binary16 at 256. Products take that of Q4_0, which has the weights exactly.
var formatQ2_0 = narrowFormat("q2_0", 64, 8, func(quants []byte, k int) int { return int(quants[k/4]>>(k%4*2)&3) - 1 },
	inflateQ2_0)

const (
	narrowBytes  = 18
	narrowScales = 16 * PanelRows
	narrowPanel  = narrowScales + 2*PanelRows
)

// narrowFormat is the entry of Q1_0 or Q2_0, whose sub-blocks have size bytes; quant is weight k of 16 bytes.
func narrowFormat(name string, weights, size int, quant func(quants []byte, k int) int,
	inflate func(nibbles, quants []byte)) format {
	return format{
		name: name, integer: true, blockWeights: weights, blockBytes: narrowBytes, panelBytes: narrowPanel,
		sums: biasSums, scales: []int{0}, matMul: matMulQ4_0,
		sections:     []section{{16 / size, size}, {1, 2}},
		productBytes: weights / BlockSize * formatQ4_0.panelBytes,
		pack: func(panel, row []byte, r, from, to int, _ bool) {
			for b := from / weights; b < to/weights && row != nil; b++ {
				block, to := row[b*narrowBytes:][:narrowBytes], panel[b*narrowPanel:][:narrowPanel]
				for i := range 16 / size {
					copy(to[(i*PanelRows+r)*size:][:size], block[2+i*size:])
				}
				copy(to[narrowScales+2*r:][:2], block)
			}
		},
		row: func(panel []byte, r int, dst []float32, _ bool) {
			for b := range len(dst) / weights {
				from := panel[b*narrowPanel:][:narrowPanel]
				d := FromF16(le.Uint16(from[narrowScales+2*r:]))
				for k, out := 0, dst[b*weights:][:weights]; k < weights; k++ {
					out[k] = d * float32(quant(from[(k/BlockSize*PanelRows+r)*size:], k%BlockSize))
				}
			}
		},
		inflate: narrowInflate(weights, size, inflate),
	}
}

// narrowInflate makes an Inflate of a function for a sub-block.
func narrowInflate(weights, size int, inflate func(nibbles, quants []byte)) func(dst, panel []byte, cols int) {
	return func(dst, panel []byte, cols int) {
		for b := range cols / BlockSize {
			from := panel[b*BlockSize/weights*narrowPanel:][:narrowPanel]
			scales, nibbles := pairedBlock(b, nibbleBytes)
			copy(dst[scales:][:2*PanelRows], from[narrowScales:])
			inflate(dst[nibbles:][:nibbleBytes], from[b*BlockSize%weights/BlockSize*PanelRows*size:][:PanelRows*size])
		}
	}
}

// inflateQ1_0 writes the nibbles q+8 of 32 weights of 16 rows: 7 for a clear bit, 9 for one that is set.
func inflateQ1_0(nibbles, quants []byte) {
	const spread, ones = 0x204081, 0x01010101 // bit j of 4 to bit 0 of byte j
	for r := range PanelRows {
		v := le.Uint32(quants[4*r:])
		for h := range 4 {
			low, high := v>>(4*h)&15*spread&ones, v>>(16+4*h)&15*spread&ones
			le.PutUint32(nibbles[64*h+4*r:], 0x77777777+low<<1+high<<5)
		}
	}
}

// crumbsOf4 has the 4 pairs of bits of a byte in a byte each.
var crumbsOf4 = func() *[256]uint32 {
	t := new([256]uint32)
	for v := range t {
		for j := range 4 {
			t[v] |= uint32(v>>(2*j)&3) << (8 * j)
		}
	}
	return t
}()

// inflateQ2_0 writes the nibbles q+8 of 32 weights of 16 rows.
func inflateQ2_0(nibbles, quants []byte) {
	for r := range PanelRows {
		for h := range 4 {
			low, high := crumbsOf4[quants[8*r+h]], crumbsOf4[quants[8*r+4+h]]
			le.PutUint32(nibbles[64*h+4*r:], 0x77777777+low+high<<4)
		}
	}
}

// shareQ4_0 makes the set's product of Q4_0 that of the types whose panels become its.
func shareQ4_0(k *Kernels) {
	for _, f := range []Format{Q1_0, Q2_0} {
		k.Weights[f].MatMul, k.Weights[f].MatMulTiles = k.Weights[Q4_0].MatMul, k.Weights[Q4_0].MatMulTiles
	}
}
