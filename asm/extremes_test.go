package asm

import (
	"fmt"
	"testing"
)

// extremeRows makes GGUF rows of the greatest and least quants and integer scales, a pattern of bytes in each row.
// With nibbles, crumbs and bits too, every weight of a row is the greatest, or the least, or they alternate.
func extremeRows(f Format, cols int) []byte {
	patterns := [PanelRows][]byte{
		{0x00}, {0x7f}, {0x80}, {0xff}, // -128 and 127 as bytes; all bits of smaller weights
		{0x80, 0x7f}, {0x7f, 0x80}, {0x80, 0x80, 0x7f, 0x7f}, {0x80, 0x80, 0x80, 0x7f},
		{0x00, 0xff}, {0xff, 0x00}, {0x0f}, {0xf0},
		{0x33}, {0xcc}, {0x81}, {0x55},
	}
	var raw []byte
	for r, p := range patterns {
		row := make([]byte, f.RowBytes(cols))
		for i := range row {
			row[i] = p[i%len(p)]
		}
		setScales(f, row, float32(1+r))
		raw = append(raw, row...)
	}
	return raw
}

// setExtremes makes the quants of a tile's tokens 127 or -127, and returns the activations: a pattern of signs for
// each token, of the first ones all plus and all minus.
func setExtremes(k *Kernels, x *Tile) []float32 {
	v := make([]float32, x.Tokens*x.Cols)
	for t := range x.Tokens {
		row := v[t*x.Cols:][:x.Cols]
		for i := range row {
			minus := false
			switch t % 6 {
			case 1:
				minus = true
			case 2:
				minus = i%2 == 1
			case 3:
				minus = i%2 == 0
			case 4:
				minus = i/4%2 == 1
			case 5:
				minus = i/16%2 == 0
			}
			row[i] = 1
			if minus {
				row[i] = -1
			}
		}
		k.Quantize(row, x, t)
	}
	return v
}

// Greatest and least quants everywhere: the scalar kernels' packed sums must not run into each other, and the 16-bit
// sums of AVX2 and NEON must hold them. The scalar kernel is held against the specification, the others against the
// scalar one.
func TestMatMulExtremes(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		for _, f := range Formats() {
			if !f.Integer() {
				continue
			}
			const cols = 2 * SuperBlock
			raw := extremeRows(f, cols)
			mine, theirs := make([]byte, f.ProductBytes(cols)), make([]byte, f.ProductBytes(cols))
			packProduct(f, k.Offset, mine, raw, PanelRows, cols)
			packProduct(f, false, theirs, raw, PanelRows, cols)
			var decoded []literalRow
			if k.Name == scalar.Name {
				decoded = literalRows(f, raw, PanelRows)
			}
			for tokens := 1; tokens <= TileTokens; tokens++ {
				var x Tile
				x.ResizeQuantized(tokens, cols)
				v := setExtremes(scalar, &x)
				for i, q := range x.Q {
					if q != 127 && q != -127 {
						t.Fatalf("quant %d is %d", i, q)
					}
				}
				got, want := make([]float32, tokens*PanelRows), make([]float32, tokens*PanelRows)
				k.Weights[f].MatMul(mine, &x, got, PanelRows, Prefetch{})
				scalar.Weights[f].MatMul(theirs, &x, want, PanelRows, Prefetch{})
				wantSame(t, fmt.Sprintf("%v, %d tokens", f, tokens), got, want)
				if decoded == nil {
					continue
				}
				quantized := literalTokens(v, tokens)
				for i := range got {
					token, row := i/PanelRows, i%PanelRows
					if w := literalDot(f, decoded[row], quantized[token]); !same(got[i], w) {
						t.Fatalf("%v: %d tokens, token %d, row %d: %g, want %g", f, tokens, token, row, got[i], w)
					}
				}
			}
		}
	})
}
