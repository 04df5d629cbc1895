package tensor

import "github.com/specgo/spec/asm"

// Q4_1: a block of 32 weights is d and m binary16 and 16 bytes whose low nibbles are weights 0 … 15 and whose high
// nibbles are weights 16 … 31; a weight is d*q + m. The product is exact, the sum rounds once.

func decodeQ4_1(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[20:] {
		d, m := asm.FromF16(le.Uint16(row)), asm.FromF16(le.Uint16(row[2:]))
		for i, b := range row[4:20] {
			dst[i] = float32(d*float32(b&15)) + m
			dst[16+i] = float32(d*float32(b>>4)) + m
		}
	}
}

func encodeQ4_1(row []byte, x, importance []float32) error {
	return encodeBlocks(Q4_1, row, x, importance, blockQ4_1)
}

// blockQ4_1: x = d*q + m with q in 0 … 15.
func blockQ4_1(block []byte, x, importance []float32) (d float32) {
	var q [32]byte
	d = encodeRange(block[:4], q[:], x, importance, 15)
	for i := range 16 {
		block[4+i] = q[i] | q[16+i]<<4
	}
	return d
}

// encodeRange encodes a block of Q4_1 or Q5_1: x = d*q + m with q in 0 … most. It writes d, m and q, and returns
// the one of d and m that is greater in magnitude.
func encodeRange(header, q []byte, x, importance []float32, most float32) float32 {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var w, u [32]float32
	weigh(w[:], x, importance)
	scale, minimum := fitRange(x, w[:], u[:], most, true)
	hd, hm := asm.ToF16(scale), asm.ToF16(0-minimum)
	le.PutUint16(header, hd)
	le.PutUint16(header[2:], hm)
	roundUnsigned(u[:], x, reciprocal(asm.FromF16(hd)), -asm.FromF16(hm), most)
	for i, v := range u {
		q[i] = byte(v)
	}
	return max(scale, abs32(minimum))
}
