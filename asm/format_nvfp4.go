package asm

// NVFP4. A block of 64 weights takes 36 bytes: 4 scales of 16 weights each, numbers of 4 bits of exponent and 3 of
// mantissa; then 8 bytes for each 16 weights, low nibbles first 8, high nibbles the next 8. A weight is half the scale
// times the value of its nibble, which is as in MXFP4.
//
// A panel is compact, blocks of 576 bytes: for each 16 weights [16 rows] of scales, then [8 bytes][16 rows]. Products
// take that of F16, which has the weights exactly: a scale and a nibble have at most 6 significant bits together,
// 2^-10 … 2880.
var formatNVFP4 = format{
	name: "nvfp4", blockWeights: nvfp4Weights, blockBytes: nvfp4Bytes, panelBytes: PanelRows * nvfp4Bytes,
	notFinite: func([]byte) int { return -1 }, matMul: matMulF16, productBytes: nvfp4Weights * 2 * PanelRows,
	sections: []section{{4 * (1 + 8), 1}},
	pack: func(panel, row []byte, r, from, to int, _ bool) {
		for b := from / nvfp4Weights; b < to/nvfp4Weights && row != nil; b++ {
			block := row[b*nvfp4Bytes:][:nvfp4Bytes]
			for s, e := range block[:4] {
				part := panel[(4*b+s)*nvfp4Part:][:nvfp4Part]
				part[r] = e
				for i, q := range block[4+8*s:][:8] {
					part[(1+i)*PanelRows+r] = q
				}
			}
		}
	},
	row: func(panel []byte, r int, dst []float32, _ bool) {
		for k := range dst {
			part := panel[k/16*nvfp4Part:][:nvfp4Part]
			q := part[(1+k%8)*PanelRows+r] >> (k / 8 % 2 * 4) & 15
			dst[k] = FromF16(nvfp4Values[part[r]][q])
		}
	},
	inflate: func(dst, panel []byte, cols int) {
		for i := range cols / 16 {
			part, to := panel[i*nvfp4Part:][:nvfp4Part], dst[i*16*PanelRows*2:][:16*PanelRows*2]
			for r, e := range part[:PanelRows] {
				values := &nvfp4Values[e]
				for k := range 8 {
					q := part[(1+k)*PanelRows+r]
					le.PutUint16(to[(k*PanelRows+r)*2:], values[q&15])
					le.PutUint16(to[((8+k)*PanelRows+r)*2:], values[q>>4])
				}
			}
		}
	},
}

const (
	nvfp4Weights = 64
	nvfp4Bytes   = 36
	nvfp4Part    = PanelRows * nvfp4Bytes / 4 // 16 weights of a panel
)

// nvfp4Values has the weights of every scale and nibble, as binary16.
var nvfp4Values = func() *[256][16]uint16 {
	t := new([256][16]uint16)
	for s := range t {
		scale := float32(s&7) / 1024 // half of man*2^-9
		if e := s >> 3 & 15; e > 0 {
			scale = float32(8+s&7) / 2048 * float32(int(1)<<e)
		}
		if s == 0x7f {
			scale = 0
		}
		for q, v := range tableMXFP4 {
			t[s][q] = ToF16(scale * float32(v))
		}
	}
	return t
}()
