//go:build purego || !(amd64 || arm64)

package asm

// sets returns the kernel sets this machine can run: without assembly, the scalar one.
func sets() []Kernels { return []Kernels{Scalar()} }
