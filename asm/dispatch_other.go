//go:build purego || !(amd64 || arm64)

package asm

// sets returns the kernel sets this machine can run: without assembly, the scalar one.
func sets() []Kernels { return []Kernels{Scalar()} }

// tileSet says that there is no kernel set with a tile unit.
func tileSet() (Kernels, error) { return Kernels{}, errNoTiles }
