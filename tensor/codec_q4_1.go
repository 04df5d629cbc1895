package tensor

import "github.com/specgo/spec/asm"

// Q4_1: a block of 32 weights is d and m binary16 and 16 bytes whose low nibbles are weights 0 … 15 and whose high nibbles are
// weights 16 … 31; a weight is d*q + m. The product is exact, the sum rounds once.

func decodeQ4_1(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[20:] {
		d, m := asm.FromF16(le.Uint16(row)), asm.FromF16(le.Uint16(row[2:]))
		for i, b := range row[4:20] {
			dst[i] = float32(d*float32(b&15)) + m
			dst[16+i] = float32(d*float32(b>>4)) + m
		}
	}
}
