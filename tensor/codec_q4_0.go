package tensor

import "github.com/specgo/spec/asm"

// Q4_0: a block of 32 weights is d binary16 and 16 bytes whose low nibbles are weights 0 … 15 and whose high
// nibbles are weights 16 … 31, each stored as q+8; a weight is d*q.

func decodeQ4_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[18:] {
		d := asm.FromF16(le.Uint16(row))
		for i, b := range row[2:18] {
			dst[i] = d * float32(int(b&15)-8)
			dst[16+i] = d * float32(int(b>>4)-8)
		}
	}
}

// encodeQ4_0 is [asm.EncodeQ4_0]. Where the importance of x is known, the scale is searched for, as those of the other
// types are.
func encodeQ4_0(row []byte, x, importance []float32) error {
	block := weightedQ4_0
	if importance == nil {
		if asm.EncodeQ4_0(row, x) {
			return nil
		}
		block = func(_ []byte, x, _ []float32) (d float32) { return greatestSigned(x) / -8 } // for the error
	}
	return encodeBlocks(Q4_0, row, x, importance, block)
}

func weightedQ4_0(block []byte, x, importance []float32) (d float32) {
	if amax := greatest(x); amax >= maxK {
		return amax
	}
	var w, u [32]float32
	weigh(w[:], x, importance)
	d = fitScale(x, w[:], u[:], 8)
	h := asm.ToF16(d)
	le.PutUint16(block, h)
	roundSigned(u[:], x, reciprocal(asm.FromF16(h)), 8)
	for i := range 16 {
		block[2+i] = byte(int32(u[i])+8) | byte(int32(u[16+i])+8)<<4
	}
	return d
}
