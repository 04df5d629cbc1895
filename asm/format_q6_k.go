package asm

// Q6_K. A super-block of 256 weights takes 210 bytes: 128 bytes of low nibbles; 64 bytes of high pairs of bits; 16 scales int8; d
// binary16. For half n of the super-block and l < 32: weights 128n+{0, 32, 64, 96}+l have the nibbles low and low of 32 bytes on,
// high, high of low[64n+l], and bits 0, 2, 4, 6 and their neighbours of high[32n+l], each stored as q+32. A weight is
// (d*sc[k/16])*q.
//
// A panel is super-blocks of 3392 bytes: low 4 bits [4 pairs][8 groups][16 rows][4 bytes], low nibble sub-block 2p, high nibble
// sub-block 2p+1; high 2 bits [2][8 groups][16 rows][4 bytes] at 2048, sub-block 4n+i at bits 2i; sc [16][16 rows] int8 at 3072, one
// per 16 weights; d [16 rows] binary16 at 3328; 32 bytes of padding. Products of the unsigned weights start at -32 times the
// sums of the halves, which is Tile.Half.
var formatQ6_K = format{
	name: "q6_k", integer: true, blockWeights: 256, blockBytes: 210, panelBytes: q6kPanel,
	sums: halfSums, scales: []int{208}, pack: packQ6_K, row: rowQ6_K, matMul: matMulQ6_K,
}

const q6kPanel = 3392

func packQ6_K(panel, row []byte, r, from, to int, _ bool) {
	for b := from / SuperBlock; b < to/SuperBlock; b++ {
		super := panel[b*q6kPanel:][:q6kPanel]
		low, high := super[4*r:], super[2048+4*r:]
		if row == nil {
			for g := range 16 {
				le.PutUint32(high[g*64:], 0xaaaaaaaa) // 2 in all high bits: q+32 = 32
			}
			continue
		}
		block := row[b*210:][:210]
		for n := range 2 { // halves of 128 weights: sub-blocks 4n .. 4n+3
			for g := range 8 {
				// GGUF pairs sub-blocks 0 and 2, 1 and 3 in a byte; here 0 and 1, 2 and 3.
				a, c := le.Uint32(block[64*n+4*g:]), le.Uint32(block[64*n+32+4*g:])
				le.PutUint32(low[(16*n+g)*64:], a&0x0f0f0f0f|c&0x0f0f0f0f<<4)
				le.PutUint32(low[(16*n+8+g)*64:], a>>4&0x0f0f0f0f|c&0xf0f0f0f0)
				le.PutUint32(high[(8*n+g)*64:], le.Uint32(block[128+32*n+4*g:]))
			}
		}
		for i := range 16 {
			super[3072+16*i+r] = block[192+i]
		}
		le.PutUint16(super[3328+2*r:], le.Uint16(block[208:]))
	}
}

// rowQ6_K: dst = (d*sc)*q.
func rowQ6_K(panel []byte, r int, dst []float32, _ bool) {
	for b := range len(dst) / SuperBlock {
		super := panel[b*q6kPanel:][:q6kPanel]
		d := FromF16(le.Uint16(super[3328+2*r:]))
		for i := range 16 {
			s := d * float32(int8(super[3072+16*i+r]))
			for k, out := 0, dst[b*SuperBlock+16*i:][:16]; k < 16; k++ {
				sub, w := i/2, i%2*16+k // sub-block of 32 and weight in it
				at := w/4*64 + 4*r + w%4
				low := super[sub/2*512+at] >> (sub % 2 * 4) & 15
				high := super[2048+sub/4*512+at] >> (sub % 4 * 2) & 3
				out[k] = s * float32(int(low|high<<4)-32)
			}
		}
	}
}

// matMulQ6_K: for sub-blocks of 32 ascending: acc = fma(float(sc0*isum0 + sc1*isum1), d*dx, acc), the integer exact, of the two
// halves of 16 weights, isum = sum of q*qx.
func matMulQ6_K(panel []byte, x *Tile, out []float32, stride int, _ Ahead) {
	var acc accumulators
	var w weights
	for b := range x.Cols / BlockSize {
		super, i := panel[b/8*q6kPanel:][:q6kPanel], b%8
		var d perRow
		readF16(d[:], super[3328:])
		low, high, nibble, pair := (*[512]byte)(super[i/2*512:]), (*[512]byte)(super[2048+i/4*512:]), i%2*4, i%4*2
		for at := 0; at < len(w); at += 4 {
			le.PutUint32(w[at:], le.Uint32(low[at:])>>nibble&0x0f0f0f0f|le.Uint32(high[at:])>>pair&0x03030303<<4)
		}
		acc.halves(x, b, &w, signedScales(super[3072+32*i:]), &d, 32)
	}
	acc.store(x.Tokens, out, stride)
}

// signedScales reads the scales of the two halves of a sub-block, [2][16 rows] int8.
func signedScales(p []byte) *[2][PanelRows]int32 {
	var sc [2][PanelRows]int32
	for i, v := range p[:2*PanelRows] {
		sc[i/PanelRows][i%PanelRows] = int32(int8(v))
	}
	return &sc
}
