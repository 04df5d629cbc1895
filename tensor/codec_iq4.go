package tensor

import "github.com/specgo/spec/asm"

// tableIQ4 are the weights that the nibbles of IQ4_NL and IQ4_XS stand for.
var tableIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: a block of 32 weights is d binary16 and 16 bytes whose low nibbles are weights 0 … 15 and whose high nibbles are
// weights 16 … 31. A weight is d*tableIQ4[nibble].

func decodeIQ4_NL(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[18:] {
		d := asm.FromF16(le.Uint16(row))
		for i, b := range row[2:18] {
			dst[i] = d * tableIQ4[b&15]
			dst[16+i] = d * tableIQ4[b>>4]
		}
	}
}

// IQ4_XS: a super-block of 256 weights is d binary16, 16 bits with the high 2 bits of 8 scales, 4 bytes with their low 4 bits,
// and 8 sub-blocks of 16 bytes, nibbles as in IQ4_NL. A weight is (d*(scale-32))*tableIQ4[nibble].

func decodeIQ4_XS(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[136:] {
		d, high, low := asm.FromF16(le.Uint16(row)), le.Uint16(row[2:]), row[4:8]
		for j := range 8 {
			s := d * float32(int(low[j/2]>>(j%2*4)&15|byte(high>>(2*j)&3<<4))-32)
			for i, b := range row[8+16*j:][:16] {
				dst[32*j+i] = s * tableIQ4[b&15]
				dst[32*j+16+i] = s * tableIQ4[b>>4]
			}
		}
	}
}
