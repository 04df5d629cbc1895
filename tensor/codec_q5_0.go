package tensor

import "github.com/specgo/spec/asm"

// Q5_0: a block of 32 weights is d binary16, 32 high bits, weight 0's the lowest, and 16 bytes of low 4 bits: weights 0 … 15 in
// the low nibbles, 16 … 31 in the high ones. A weight, stored as q+16, is d*q.

func decodeQ5_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[22:] {
		d, high := asm.FromF16(le.Uint16(row)), le.Uint32(row[2:])
		for i, b := range row[6:22] {
			dst[i] = d * float32(int(b&15)+int(high>>i&1)*16-16)
			dst[16+i] = d * float32(int(b>>4)+int(high>>(16+i)&1)*16-16)
		}
	}
}
