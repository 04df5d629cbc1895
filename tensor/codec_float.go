package tensor

import (
	"fmt"
	"math"

	"github.com/specgo/spec/asm"
)

// F32, F16 and BF16 have no blocks: a row is numbers of 4 or 2 bytes.

func decodeF32(dst []float32, row []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(le.Uint32(row[4*i:]))
	}
}

func encodeF32(row []byte, x, _ []float32) error {
	for i, v := range x {
		le.PutUint32(row[4*i:], math.Float32bits(v))
	}
	return nil
}

func decodeF16(dst []float32, row []byte) {
	for i := range dst {
		dst[i] = asm.FromF16(le.Uint16(row[2*i:]))
	}
}

func encodeF16(row []byte, x, _ []float32) error {
	for i, v := range x {
		if abs32(v) >= maxF16 {
			return fmt.Errorf("number %d, %v, exceeds binary16: %w", i, v, ErrNotFinite)
		}
		le.PutUint16(row[2*i:], asm.ToF16(v))
	}
	return nil
}

func decodeBF16(dst []float32, row []byte) {
	for i := range dst {
		dst[i] = asm.FromBF16(le.Uint16(row[2*i:]))
	}
}

func encodeBF16(row []byte, x, _ []float32) error {
	for i, v := range x {
		le.PutUint16(row[2*i:], asm.ToBF16(v))
	}
	return nil
}
