package tensor

import (
	"math"

	"github.com/specgo/spec/asm"
)

// Q8_0: a block of 32 weights is d binary16 and 32 signed bytes q; a weight is d*q.

func decodeQ8_0(dst []float32, row []byte) {
	for ; len(dst) > 0; dst, row = dst[32:], row[34:] {
		d := asm.FromF16(le.Uint16(row))
		for i := range 32 {
			dst[i] = d * float32(int8(row[2+i]))
		}
	}
}

func encodeQ8_0(row []byte, x, importance []float32) error {
	return encodeBlocks(Q8_0, row, x, importance, blockQ8_0)
}

// blockQ8_0: d = amax/127; q = x/d, halves away from zero.
func blockQ8_0(block []byte, x, _ []float32) (d float32) {
	d = greatest(x) / 127
	inverse := reciprocal(d)
	le.PutUint16(block, asm.ToF16(d))
	for i, v := range x {
		block[2+i] = byte(int8(math.Round(float64(v * inverse)))) // float64 makes no difference to the rounding
	}
	return d
}
