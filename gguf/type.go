package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Type is the storage format of a tensor's elements, with ggml's numbers. Quantized
// types store blocks: a fixed number of consecutive weights of one row.
type Type uint32

const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// types describes each Type. Those without a size have been removed from the
// format; their names are for messages.
var types = [...]struct {
	name           string
	weights, bytes int // per block
}{
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	Q4_0:    {"Q4_0", 32, 2 + 16},
	Q4_1:    {"Q4_1", 32, 2 + 2 + 16},
	4:       {name: "Q4_2"},
	5:       {name: "Q4_3"},
	Q5_0:    {"Q5_0", 32, 2 + 4 + 16},
	Q5_1:    {"Q5_1", 32, 2 + 2 + 4 + 16},
	Q8_0:    {"Q8_0", 32, 2 + 32},
	Q8_1:    {"Q8_1", 32, 2 + 2 + 32},
	Q2_K:    {"Q2_K", 256, 2 + 2 + 16 + 64},
	Q3_K:    {"Q3_K", 256, 2 + 64 + 32 + 12},
	Q4_K:    {"Q4_K", 256, 2 + 2 + 12 + 128},
	Q5_K:    {"Q5_K", 256, 2 + 2 + 12 + 128 + 32},
	Q6_K:    {"Q6_K", 256, 2 + 128 + 64 + 16},
	Q8_K:    {"Q8_K", 256, 4 + 256 + 32},
	IQ2_XXS: {"IQ2_XXS", 256, 2 + 64},
	IQ2_XS:  {"IQ2_XS", 256, 2 + 64 + 8},
	IQ3_XXS: {"IQ3_XXS", 256, 2 + 64 + 32},
	IQ1_S:   {"IQ1_S", 256, 2 + 32 + 16},
	IQ4_NL:  {"IQ4_NL", 32, 2 + 16},
	IQ3_S:   {"IQ3_S", 256, 2 + 64 + 32 + 8 + 4},
	IQ2_S:   {"IQ2_S", 256, 2 + 64 + 16},
	IQ4_XS:  {"IQ4_XS", 256, 2 + 2 + 4 + 128},
	I8:      {"I8", 1, 1},
	I16:     {"I16", 1, 2},
	I32:     {"I32", 1, 4},
	I64:     {"I64", 1, 8},
	F64:     {"F64", 1, 8},
	IQ1_M:   {"IQ1_M", 256, 32 + 16 + 8},
	BF16:    {"BF16", 1, 2},
	31:      {name: "Q4_0_4_4"},
	32:      {name: "Q4_0_4_8"},
	33:      {name: "Q4_0_8_8"},
	TQ1_0:   {"TQ1_0", 256, 2 + 48 + 4},
	TQ2_0:   {"TQ2_0", 256, 2 + 64},
	36:      {name: "IQ4_NL_4_4"},
	37:      {name: "IQ4_NL_4_8"},
	38:      {name: "IQ4_NL_8_8"},
	MXFP4:   {"MXFP4", 32, 1 + 16},
	NVFP4:   {"NVFP4", 64, 4 + 32},
	Q1_0:    {"Q1_0", 128, 2 + 16},
	Q2_0:    {"Q2_0", 64, 2 + 16},
}

// String returns the type's name as ggml spells it, in capitals: "Q4_K".
func (t Type) String() string {
	if int64(t) < int64(len(types)) {
		return types[t].name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// BlockWeights returns the number of weights per block: 1 for types without blocks,
// 0 for a type that is unknown or removed from the format.
func (t Type) BlockWeights() int {
	if int64(t) < int64(len(types)) {
		return types[t].weights
	}
	return 0
}

// BlockBytes returns the number of bytes per block, 0 for a type that is unknown or
// removed from the format.
func (t Type) BlockBytes() int {
	if int64(t) < int64(len(types)) {
		return types[t].bytes
	}
	return 0
}

// Size returns the number of bytes of a tensor of this type and shape, without
// padding. Dims are as in [Tensor]: columns first. It is an error if the type is
// unknown, there are more than four dimensions, one is zero, a row is not a whole
// number of blocks, or the size overflows int64.
func (t Type) Size(dims ...uint64) (int64, error) {
	weights, bytes := uint64(t.BlockWeights()), uint64(t.BlockBytes())
	if weights == 0 {
		if int64(t) < int64(len(types)) {
			return 0, fmt.Errorf("type %v is no longer part of the format", t)
		}
		return 0, fmt.Errorf("unknown tensor %v", t)
	}
	if len(dims) > maxDims {
		return 0, fmt.Errorf("%d dimensions, at most %d are allowed", len(dims), maxDims)
	}
	n := uint64(1)
	for i, d := range dims {
		if d == 0 {
			return 0, fmt.Errorf("dimension %d is zero", i)
		}
		over, product := bits.Mul64(n, d)
		if over != 0 {
			return 0, fmt.Errorf("shape %d has more elements than can be counted", dims)
		}
		n = product
	}
	if len(dims) > 0 && dims[0]%weights != 0 || n%weights != 0 {
		return 0, fmt.Errorf("rows of shape %d are not whole blocks of %d, which %v needs", dims, weights, t)
	}
	over, size := bits.Mul64(n/weights, bytes)
	if over != 0 || size > math.MaxInt64 {
		return 0, fmt.Errorf("shape %d of %v has more bytes than can be counted", dims, t)
	}
	return int64(size), nil
}
