package tensor

import (
	"fmt"

	"github.com/specgo/spec/asm"
)

// Type says how weights are stored; the names are GGUF's. The String method gives the lower-case name.
type Type = asm.Format

// The types. Rows of the float types may have any number of columns, the others a multiple of 32, the K types of 256.
const (
	F32  = asm.F32
	F16  = asm.F16
	BF16 = asm.BF16
	Q8_0 = asm.Q8_0 // 32 signed bytes and a binary16 scale
	Q4_0 = asm.Q4_0 // 32 nibbles and a binary16 scale
	Q4_K = asm.Q4_K // 256 nibbles, 8 6-bit scales and minima
	Q6_K = asm.Q6_K // 256 6-bit weights, 16 8-bit scales
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
)

// ParseKVType finds a cache type by its lower-case name: "f16", "f32" or "q8_0". The empty name is f16.
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
