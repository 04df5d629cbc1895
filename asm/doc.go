// Package asm holds the arithmetic of the project: kernels over slices of numbers, one set per instruction set, and for
// every kernel a scalar twin in Go.
//
//	k, err := asm.Select("")                  // the best set of this machine
//	k.Exp(dst, x)                             // for i: dst[i] = exp(x[i])
//	reference, err := asm.Select("scalar")    // the same bits
//
// # Numeric rules
//
// The scalar set is the specification. A kernel's comment is its Go loop, and every other set gives the same results
// bit for bit (payloads of NaN apart, the floating-point unit in its default mode), so that a model's results do not
// depend on the machine. Three rules make that possible at little cost:
//
//   - Every operation is one IEEE binary32 rounding to nearest even, subnormals kept. A fused multiply-add is used
//     where the loop says [FMA] and nowhere else: the compiler may fuse a*b+c by itself, so Go code here writes
//     float32(a*b)+c.
//   - A lane of a vector register is an output row, a position or a dimension, so that long sums never cross lanes.
//     Sums along a vector use 16 lanes: element i goes to lane i mod 16, ascending; then lane j += lane j+8, then 4,
//     2, 1.
//   - Transcendental functions are the package's own: package math's differ between machines.
//
// # Data
//
// Weights are stored in panels of [PanelRows] output rows; see [Format]. Activations are stored in a [Tile] of up to
// [TileTokens] tokens, keys and values in pages of [Page] positions; see [KV].
//
// # Choosing a kernel
//
// [Select] returns a [Kernels] value: the set that was named, or the best one of this processor. A set is a copy of
// the scalar set in which some fields are replaced: dispatch_amd64.go and dispatch_arm64.go list which, and which
// processor features each set needs. The caller keeps the value and calls its fields; the package has no global
// state.
//
// # Reading the code
//
// Start with one operation and follow it from its definition to its assembly:
//
//   - kernels.go: the operations, each with its loop and shapes; scalar.go: the scalar set.
//   - vector.go, attention.go, quantize.go, recurrent.go, noise.go, math32.go, fma.go: the scalar kernels.
//   - format_q8_0.go, the simplest of the quantized types: the block of a GGUF row, the panel, and the scalar
//     product. format.go describes what the types share, pack.go fills panels, matmul.go has the parts of the scalar
//     products, tile.go the activations.
//   - kv.go: pages of the key-value cache; f16.go: half precision; math64.go: float64 functions for tables.
//   - *_simd.go, *_amd64.go, *_arm64.go: Go around the assembly. It checks the slices' lengths once, passes pointers,
//     and leaves incomplete vectors to the scalar kernel. stubs_*.go declare the assembly; each declaration has its
//     loop.
//   - _gen, a module of its own, writes all *.s files, stubs_*.go, integer_*.go and neon_arm64.h: "go generate
//     ./asm". Start with _gen/main.go, which lists the files, then _gen/type_q8_0.go: the parts of one type that the
//     loop nests of nest512.go, nest256.go and neonnest.go are composed with.
//
// # Tests
//
// matmul_test.go and literal_test.go compare the scalar products with the definition of each type, read from the
// bytes of a GGUF row, in exact arithmetic. kernels_test.go, lengths_test.go and extremes_test.go compare every set
// of this machine with the scalar set, bit for bit: all lengths and tails, extreme values, slices that end at an
// unreadable page. testdata/vectors.txt holds results of every rule, fuzz_test.go draws operands at random. "go run
// ./interpret" in _gen runs these tests with the amd64 assembly interpreted, so that every amd64 set is tested on
// every machine; a test in _gen disassembles the arm64 instructions that Go's assembler lacks.
//
// # Caveats
//
// Kernels trust their callers: slices must be as long as a kernel's comment says. The scalar set then panics on a short
// slice; assembly reads past its end. Package tensor is the checked surface.
//
// The build tag purego leaves out all assembly.
package asm
