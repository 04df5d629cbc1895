package tensor

import "github.com/specgo/spec/asm"

// Q5_0: a block of 32 weights is d binary16, 32 high bits, weight 0's the lowest, and 16 bytes of low 4 bits: weights
// 0 … 15 in the low nibbles, 16 … 31 in the high ones. A weight, stored as q+16, is d*q.

func decodeQ5_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[22:] {
		d, high := asm.FromF16(le.Uint16(row)), le.Uint32(row[2:])
		for i, b := range row[6:22] {
			dst[i] = d * float32(int(b&15)+int(high>>i&1)*16-16)
			dst[16+i] = d * float32(int(b>>4)+int(high>>(16+i)&1)*16-16)
		}
	}
}

func encodeQ5_0(row []byte, x, importance []float32) error {
	return encodeBlocks(Q5_0, row, x, importance, blockQ5_0)
}

// blockQ5_0: x = d*q with q in -16 … 15.
func blockQ5_0(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var w, u [32]float32
	weigh(w[:], x, importance)
	d = fitScale(x, w[:], u[:], 16)
	h := asm.ToF16(d)
	le.PutUint16(block, h)
	roundSigned(u[:], x, reciprocal(asm.FromF16(h)), 16)
	var q [32]byte
	for i, v := range u {
		q[i] = byte(int32(v) + 16)
	}
	putFiveBits(block[2:], &q)
	return d
}

// putFiveBits writes 32 weights as Q5_0 and Q5_1 store them: high bits, then nibbles.
func putFiveBits(p []byte, q *[32]byte) {
	var high uint32
	for i, v := range q {
		high |= uint32(v>>4) << i
	}
	le.PutUint32(p, high)
	for i := range 16 {
		p[4+i] = q[i]&15 | q[16+i]<<4
	}
}
