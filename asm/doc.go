// Package asm holds the arithmetic of the project: kernels over slices of numbers, one set per instruction set, and for
// every kernel a scalar twin in Go.
//
// The scalar set is the specification. A kernel's comment is its Go loop, and every other set gives the same results bit
// for bit (payloads of NaN apart, the floating-point unit in its default mode), so that a model's results do not depend on the
// machine. Three rules make that possible at little cost:
//
//   - Every operation is one IEEE binary32 rounding to nearest even, subnormals kept. A fused multiply-add is used where the
//     loop says [FMA] and nowhere else: the compiler may fuse a*b+c by itself, so Go code here writes float32(a*b)+c.
//   - A lane of a vector register is an output row, a position or a dimension, so that long sums never cross lanes. Sums along
//     a vector use 16 lanes: element i goes to lane i mod 16, ascending; then lane j += lane j+8, then 4, 2, 1.
//   - Transcendental functions are the package's own: package math's differ between machines.
//
// Weights lie in panels of [PanelRows] output rows; see [Format]. Activations lie in a [Tile]. [Select]
// chooses a [Kernels] value; the caller keeps it, and nothing here is global.
//
// # Caveats
//
// Kernels trust their callers: slices must be as long as a kernel's comment says. The scalar set then panics on a short
// slice; assembly reads past its end. Package tensor is the checked surface.
//
// The build tag purego leaves out all assembly.
package asm
