package tensor

import (
	"fmt"

	"github.com/specgo/spec/asm"
)

// Type says how weights are stored; the names are GGUF's. The String method gives the lower-case name.
type Type = asm.Format

// The types, the one with the most bits per weight first. Rows of F32, F16 and BF16 may have any number of columns,
// those of the types with a scale per 64, 128 or 256 weights a multiple of that, all others a multiple of 32.
const (
	F32    = asm.F32
	F16    = asm.F16
	BF16   = asm.BF16
	Q8_0   = asm.Q8_0   // 8 bits; a binary16 scale per 32 weights
	Q6_K   = asm.Q6_K   // 6 bits; 8-bit scales of 16 weights, and a binary16 scale per 256
	Q5_1   = asm.Q5_1   // 5 bits; a binary16 scale and minimum per 32 weights
	Q5_K   = asm.Q5_K   // 5 bits; 6-bit scales and minimums of 32 weights, and binary16 scales of both per 256
	Q5_0   = asm.Q5_0   // 5 bits; a binary16 scale per 32 weights
	Q4_1   = asm.Q4_1   // 4 bits; a binary16 scale and minimum per 32 weights
	Q4_K   = asm.Q4_K   // 4 bits; 6-bit scales and minimums of 32 weights, and binary16 scales of both per 256
	IQ4_NL = asm.IQ4_NL // 4 bits that stand for the numbers of a table; a binary16 scale per 32 weights
	Q4_0   = asm.Q4_0   // 4 bits; a binary16 scale per 32 weights
	IQ4_XS = asm.IQ4_XS // 4 bits as IQ4_NL; 6-bit scales of 32 weights, and a binary16 scale per 256
	NVFP4  = asm.NVFP4  // 4-bit floating point (E2M1); a floating-point scale of 8 bits per 16 weights
	MXFP4  = asm.MXFP4  // 4-bit floating point (E2M1); a power of two per 32 weights
	Q3_K   = asm.Q3_K   // 3 bits; 6-bit scales of 16 weights, and a binary16 scale per 256
	// groups of 4 or 8 weights that are entries of a grid, with signs; odd scales of 16 or 32 weights, and a binary16
	// scale per 256
	IQ3_S   = asm.IQ3_S   // 3.4 bits
	IQ3_XXS = asm.IQ3_XXS // 3.1 bits
	IQ2_S   = asm.IQ2_S   // 2.6 bits
	IQ2_XS  = asm.IQ2_XS  // 2.3 bits
	IQ2_XXS = asm.IQ2_XXS // 2.1 bits
	IQ1_M   = asm.IQ1_M   // 1.75 bits
	IQ1_S   = asm.IQ1_S   // 1.6 bits
	Q2_0    = asm.Q2_0    // 2 bits for -1, 0, 1 and 2; a binary16 scale per 64 weights
	Q1_0    = asm.Q1_0    // a sign; a binary16 scale per 128 weights
	TQ2_0   = asm.TQ2_0   // 2 bits for -1, 0 and 1; a binary16 scale per 256 weights
	TQ1_0   = asm.TQ1_0   // 1.6 bits, five weights in a byte; a binary16 scale per 256 weights
	Q2_K    = asm.Q2_K    // 2 bits; 4-bit scales and minimums of 16 weights, and binary16 scales of both per 256
)

// ParseType finds a type by its lower-case name, such as "q8_0".
func ParseType(name string) (Type, error) {
	for _, t := range asm.Formats() {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("type %q: %w", name, ErrType)
}

// KVType says how keys and values are stored in a cache.
type KVType = asm.KV

// The storage types of a cache.
const (
	KVF16  = asm.KVF16  // binary16, the default
	KVF32  = asm.KVF32  // binary32
	KVQ8_0 = asm.KVQ8_0 // a signed byte per number and a binary16 scale per position and 32 dimensions
	KVQ4_0 = asm.KVQ4_0 // 4 bits per number and the same scales
)

// ParseKVType finds a cache type by its lower-case name: "f16", "f32", "q8_0" or "q4_0". The empty name is f16.
func ParseKVType(name string) (KVType, error) {
	if name == "" {
		return KVF16, nil
	}
	for t := KVType(0); t.Valid(); t++ {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("key-value type %q: %w", name, ErrType)
}
