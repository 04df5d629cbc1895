package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// codec decodes GGUF rows of a type to numbers and, where encode is not nil, encodes numbers as rows. Each type has a
// file, codec_<type>.go.
type codec struct {
	// decode writes the weights of a row, whose length is RowBytes(len(dst)), exactly: each is rounded once.
	decode func(dst []float32, row []byte)

	// encode writes x, whole blocks of finite numbers, as a row. importance is as in EncodeWeighted, or nil.
	encode func(row []byte, x, importance []float32) error

	// fallback is the type used instead where rows are not whole blocks; the type itself if there is none.
	fallback Type
}

// codecs has an entry for every type.
var codecs = [...]codec{
	F32:     {decodeF32, encodeF32, F32},
	F16:     {decodeF16, encodeF16, F16},
	BF16:    {decodeBF16, encodeBF16, BF16},
	Q8_0:    {decodeQ8_0, encodeQ8_0, Q8_0},
	Q6_K:    {decodeQ6_K, encodeQ6_K, Q8_0},
	Q5_1:    {decodeQ5_1, encodeQ5_1, Q5_1},
	Q5_K:    {decodeQ5_K, encodeQ5_K, Q5_1},
	Q5_0:    {decodeQ5_0, encodeQ5_0, Q5_0},
	Q4_1:    {decodeQ4_1, encodeQ4_1, Q4_1},
	Q4_K:    {decodeQ4_K, encodeQ4_K, Q5_0},
	IQ4_NL:  {decodeIQ4_NL, encodeIQ4_NL, IQ4_NL},
	Q4_0:    {decodeQ4_0, encodeQ4_0, Q4_0},
	IQ4_XS:  {decodeIQ4_XS, encodeIQ4_XS, IQ4_NL},
	NVFP4:   {decodeNVFP4, nil, Q4_0},
	MXFP4:   {decodeMXFP4, nil, MXFP4},
	Q3_K:    {decodeQ3_K, encodeQ3_K, Q4_0},
	Q2_K:    {decodeQ2_K, encodeQ2_K, Q4_0},
	IQ3_S:   {decodeTable(IQ3_S), encodeGrid(IQ3_S), IQ4_NL},
	IQ3_XXS: {decodeTable(IQ3_XXS), encodeGrid(IQ3_XXS), IQ4_NL},
	IQ2_S:   {decodeTable(IQ2_S), encodeGrid(IQ2_S), IQ4_NL},
	IQ2_XS:  {decodeTable(IQ2_XS), encodeGrid(IQ2_XS), IQ4_NL},
	IQ2_XXS: {decodeTable(IQ2_XXS), encodeGrid(IQ2_XXS), IQ4_NL},
	IQ1_M:   {decodeTable(IQ1_M), nil, IQ4_NL},
	IQ1_S:   {decodeTable(IQ1_S), nil, IQ4_NL},
	TQ2_0:   {decodeTQ2_0, encodeTQ2_0, Q4_0},
	TQ1_0:   {decodeTQ1_0, encodeTQ1_0, Q4_0},
	Q2_0:    {decodeQ2_0, nil, Q4_0},
	Q1_0:    {decodeQ1_0, nil, Q4_0},
}

// Encodable lists the types that [Encode] can write, the one with the most bits per weight first.
func Encodable() []Type {
	var list []Type
	for t := range codecs {
		if codecs[t].encode != nil {
			list = append(list, Type(t))
		}
	}
	return list
}

// encodable reports whether Encode can write a type.
func encodable(t Type) bool { return t.Valid() && codecs[t].encode != nil }

// Encode writes x as a GGUF row of type t into dst, whose length is t.RowBytes(len(x)). len(x) is a multiple of
// t.BlockWeights(); t is one of [Encodable]. The bytes of F32, F16, BF16, Q8_0 and Q4_0 are those of ggml's reference
// quantizers; the other types search for scales with a small error in their own way. The bytes are the same on every
// machine. A number that is NaN or infinite, or too large for a binary16 number or scale, gives ErrNotFinite.
func Encode(t Type, dst []byte, x []float32) error { return encode(t, dst, x, nil) }

func encode(t Type, dst []byte, x, importance []float32) error {
	if err := checkRow(t, len(dst), len(x)); err != nil {
		return err
	}
	if !encodable(t) {
		return fmt.Errorf("cannot encode %v: %w", t, ErrType)
	}
	if i := firstNotFinite(x); i >= 0 {
		return fmt.Errorf("number %d is %v: %w", i, x[i], ErrNotFinite)
	}
	return codecs[t].encode(dst, x, importance)
}

// EncodeWeighted is Encode for x [cols] that errors of some numbers matter more of: the square of the error of x[i]
// counts importance[i]-fold, and a little more where x[i] is greater. importance [cols] is finite, not negative, and
// as a rule the mean square of what is multiplied with x[i]; nil, and what has no effect on F32, F16, BF16 and Q8_0, is
// as in Encode.
func EncodeWeighted(t Type, dst []byte, x, importance []float32) error {
	if importance == nil {
		return Encode(t, dst, x)
	}
	if len(importance) != len(x) {
		return shapeError("the importance of %d numbers for %d", len(importance), len(x))
	}
	var sum float64
	for i, v := range importance {
		if !(v >= 0) || v > math.MaxFloat32 {
			return fmt.Errorf("importance %d is %v: %w", i, v, ErrNotFinite)
		}
		sum += float64(v)
	}
	mean := sum / float64(len(importance))
	if mean < 1e-30 {
		return Encode(t, dst, x)
	}
	// Relative to their mean they stay in float32's range. What never mattered counts for a little: it may once.
	const least = 1e-5
	relative := make([]float32, len(importance))
	for i, v := range importance {
		relative[i] = float32(max(float64(v)/mean, least))
	}
	return encode(t, dst, x, relative)
}

// Decode writes the weights of a GGUF row of type t into dst. The length of raw is t.RowBytes(len(dst)). Weights that
// are NaN or infinite are written as they are.
func Decode(t Type, dst []float32, raw []byte) error {
	if err := checkRow(t, len(raw), len(dst)); err != nil {
		return err
	}
	codecs[t].decode(dst, raw)
	return nil
}

// Fitting returns the type that rows of cols numbers are stored in when t is asked for: t itself if the rows are
// whole blocks of it, else the fallback that llama.cpp uses, such as Q5_0 for Q4_K, Q5_1 for Q5_K and Q8_0 for Q6_K.
// ok is false if the rows are not whole blocks of the fallback either.
func Fitting(t Type, cols int) (fit Type, ok bool) {
	if cols%t.BlockWeights() != 0 {
		t = codecs[t].fallback
	}
	return t, cols%t.BlockWeights() == 0
}

// checkRow checks that size bytes are a row of cols numbers of type t.
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

// encodeBlocks encodes x block by block. block returns the scale of greatest magnitude that it stores in binary16.
func encodeBlocks(t Type, row []byte, x, importance []float32,
	block func(dst []byte, x, importance []float32) (d float32)) error {
	weights, size := t.BlockWeights(), t.BlockBytes()
	for at := 0; at < len(x); at, row = at+weights, row[size:] {
		if d := block(row[:size], x[at:at+weights], part(importance, at, weights)); abs32(d) >= maxF16 {
			return fmt.Errorf("scale %v exceeds binary16: %w", d, ErrNotFinite)
		}
	}
	return nil
}

// part is n numbers of the importance of a row, nil if there is none.
func part(importance []float32, at, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[at : at+n]
}

// maxF16 is the least number that rounds to infinity in binary16.
const maxF16 = 65520

var le = binary.LittleEndian

// reciprocal is 1/d, or 0 where d is too small to have one. Such a scale is 0 in binary16 anyway.
func reciprocal(d float32) float32 {
	if abs32(d) < 0x1p-126 {
		return 0
	}
	return 1 / d
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// greatest is the greatest magnitude.
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
