package tensor

import "github.com/specgo/spec/asm"

// Q2_K: a super-block of 256 weights is 16 bytes with a scale (low nibble) and a minimum (high nibble) of 16 weights
// each, 64 bytes of pairs of bits, d and dmin binary16. Weight l of sub-block i, of 32, is bits 2(i%4) of byte
// 32(i/4)+l. A weight is (d*sc[k/16])*q - dmin*mn[k/16]; the products are exact, the difference rounds once.

func decodeQ2_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[84:] {
		scales, low := row[:16], row[16:80]
		d, dmin := asm.FromF16(le.Uint16(row[80:])), asm.FromF16(le.Uint16(row[82:]))
		for j, v := range scales {
			s, m := d*float32(v&15), float32(dmin*float32(v>>4))
			for k := 16 * j; k < 16*j+16; k++ {
				i, l := k/32, k%32
				dst[k] = float32(s*float32(low[i/4*32+l]>>(i%4*2)&3)) - m
			}
		}
	}
}
