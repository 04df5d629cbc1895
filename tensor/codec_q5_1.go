package tensor

import "github.com/specgo/spec/asm"

// Q5_1: a block of 32 weights is d and m binary16, 32 high bits, weight 0's the lowest, and 16 bytes of low 4 bits:
// weights 0 … 15 in the low nibbles, 16 … 31 in the high ones. A weight is d*q + m; the product is exact, the sum
// rounds once.

func decodeQ5_1(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[24:] {
		d, m, high := asm.FromF16(le.Uint16(row)), asm.FromF16(le.Uint16(row[2:])), le.Uint32(row[4:])
		for i, b := range row[8:24] {
			dst[i] = float32(d*float32(int(b&15)+int(high>>i&1)*16)) + m
			dst[16+i] = float32(d*float32(int(b>>4)+int(high>>(16+i)&1)*16)) + m
		}
	}
}

func encodeQ5_1(row []byte, x, importance []float32) error {
	return encodeBlocks(Q5_1, row, x, importance, blockQ5_1)
}

// blockQ5_1: x = d*q + m with q in 0 … 31.
func blockQ5_1(block []byte, x, importance []float32) (d float32) {
	var q [32]byte
	d = encodeRange(block[:4], q[:], x, importance, 31)
	putFiveBits(block[4:], &q)
	return d
}
