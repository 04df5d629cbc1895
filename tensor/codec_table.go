package tensor

import "github.com/specgo/spec/asm"

// The types IQ1_S to IQ3_S, whose blocks and grids package asm describes.

func decodeTable(t Type) func(dst []float32, row []byte) {
	return func(dst []float32, row []byte) { asm.DecodeTable(t, dst, row) }
}
