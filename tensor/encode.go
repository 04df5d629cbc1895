package tensor

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/specgo/spec/asm"
)

// Encode writes x as a GGUF row of type t into dst, whose length is t.RowBytes(len(x)). len(x) is a multiple of
// t.BlockWeights(). All types can be written. The bytes of F32, F16, BF16, Q8_0 and Q4_0 are those of ggml's reference
// quantizers; Q4_K and Q6_K look for scales with a small error in a way of their own. On every machine the bytes are the
// same. A number that is NaN or infinite, or too great for a binary16 number or scale, gives ErrNotFinite.
func Encode(t Type, dst []byte, x []float32) error {
	if err := checkRow(t, len(dst), len(x)); err != nil {
		return err
	}
	if i := firstNotFinite(x); i >= 0 {
		return fmt.Errorf("number %d is %v: %w", i, x[i], ErrNotFinite)
	}
	switch t {
	case F32:
		for i, v := range x {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case F16:
		for i, v := range x {
			h := asm.ToF16(v)
			if h&0x7c00 == 0x7c00 {
				return fmt.Errorf("number %d, %v, exceeds binary16: %w", i, v, ErrNotFinite)
			}
			binary.LittleEndian.PutUint16(dst[2*i:], h)
		}
	case BF16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(dst[2*i:], asm.ToBF16(v))
		}
	case Q8_0, Q4_0, Q4_K, Q6_K:
		weights, size := t.BlockWeights(), t.BlockBytes()
		for ; len(x) > 0; x, dst = x[weights:], dst[size:] {
			var d float32
			switch block, x := dst[:size], x[:weights]; t {
			case Q8_0:
				d = encodeQ8(block, x)
			case Q4_0:
				d = encodeQ4(block, x)
			case Q4_K:
				d = encodeQ4K(block, x)
			case Q6_K:
				d = encodeQ6K(block, x)
			}
			if abs32(d) >= 65520 {
				return fmt.Errorf("scale %v exceeds binary16: %w", d, ErrNotFinite)
			}
		}
	default:
		return fmt.Errorf("cannot encode %v: %w", t, ErrType)
	}
	return nil
}

// encodeQ8: d = amax/127; q = x/d, halves away from zero.
func encodeQ8(block []byte, x []float32) (d float32) {
	d = greatest(x) / 127
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(block, asm.ToF16(d))
	for i, v := range x {
		block[2+i] = byte(int8(math.Round(float64(v * inverse)))) // float64 makes no difference to the rounding
	}
	return d
}

// encodeQ4: d = the x of greatest magnitude, over -8, so that it becomes -8 itself; q = x/d + 8, halves up, at most 15.
func encodeQ4(block []byte, x []float32) (d float32) {
	d = greatestSigned(x) / -8
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(block, asm.ToF16(d))
	for i := range 16 {
		low := min(15, byte(int8(float32(x[i]*inverse)+8.5)))
		high := min(15, byte(int8(float32(x[16+i]*inverse)+8.5)))
		block[2+i] = low | high<<4
	}
	return d
}

// reciprocal is 1/d, or 0 where d is too small to have one. Such a scale is 0 in binary16 anyway.
func reciprocal(d float32) float32 {
	if abs32(d) < 0x1p-126 {
		return 0
	}
	return 1 / d
}

// Fitting returns the type that stands in for t where rows of cols numbers are not whole blocks of it: t itself if they
// are, else Q4_0 for Q4_K and Q8_0 for Q6_K. ok is false if not even that fits.
func Fitting(t Type, cols int) (fit Type, ok bool) {
	if cols%t.BlockWeights() != 0 {
		switch t {
		case Q4_K:
			t = Q4_0
		case Q6_K:
			t = Q8_0
		}
	}
	return t, cols%t.BlockWeights() == 0
}

// Decode is the inverse of Encode, for all types: it writes the numbers of a GGUF row of type t into dst. The length of raw
// is t.RowBytes(len(dst)).
func Decode(t Type, dst []float32, raw []byte) error {
	if err := checkRow(t, len(raw), len(dst)); err != nil {
		return err
	}
	decode(t, dst, raw)
	return nil
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func greatest(x []float32) (amax float32) {
	for _, v := range x {
		amax = max(amax, abs32(v))
	}
	return amax
}

// greatestSigned is the number of greatest magnitude, the first of several.
func greatestSigned(x []float32) (top float32) {
	for _, v := range x {
		if abs32(v) > abs32(top) {
			top = v
		}
	}
	return top
}

// firstNotFinite is the index of the first NaN or infinity, or -1.
func firstNotFinite(x []float32) int {
	for i, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

func checkRow(t Type, size, cols int) error {
	switch {
	case !t.Valid():
		return fmt.Errorf("type %d: %w", t, ErrType)
	case cols%t.BlockWeights() != 0:
		return shapeError("%d numbers are not a multiple of %d (%v)", cols, t.BlockWeights(), t)
	case size != t.RowBytes(cols):
		return shapeError("%d bytes for %d numbers of type %v, which take %d", size, cols, t, t.RowBytes(cols))
	}
	return nil
}
