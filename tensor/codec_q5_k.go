package tensor

import "github.com/specgo/spec/asm"

// Q5_K: a super-block of 256 weights is that of Q4_K with 32 bytes of high bits before the nibbles: bit i of byte l
// is weight l's of sub-block i. A weight of sub-block i is (d*sc[i])*q - dmin*mn[i]; the products are exact, the
// difference rounds once.

func decodeQ5_K(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[256:], row[176:] {
		d, dmin := asm.FromF16(le.Uint16(row)), asm.FromF16(le.Uint16(row[2:]))
		sc, mn := decodeScales(row[4:16])
		for i := range 8 {
			s, m := d*float32(sc[i]), float32(dmin*float32(mn[i]))
			for k := range 32 {
				q := row[48+i/2*32+k]>>(i%2*4)&15 | row[16+k]>>i&1<<4
				dst[32*i+k] = float32(s*float32(q)) - m
			}
		}
	}
}

func encodeQ5_K(row []byte, x, importance []float32) error {
	return encodeBlocks(Q5_K, row, x, importance, blockQ5_K)
}

// blockQ5_K: x = d*scale*q - dmin*minimum with q in 0 … 31.
func blockQ5_K(block []byte, x, importance []float32) (d float32) {
	var q [256]byte
	d = encodeRanges(block[:16], q[:], x, importance, 31)
	high := block[16:48]
	clear(high)
	for j := range 8 {
		for i := range 32 {
			high[i] |= q[32*j+i] >> 4 << j
		}
	}
	for j := range 4 {
		for i := range 32 {
			block[48+32*j+i] = q[64*j+i]&15 | q[64*j+32+i]<<4
		}
	}
	return d
}
