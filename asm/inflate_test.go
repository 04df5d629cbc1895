package asm

import (
	"bytes"
	"fmt"
	"testing"
)

// TestInflate: every set writes the scalar set's panel, and nothing behind it, whatever the bytes of the compact one
// are; the panel's rows are those of the compact one.
func TestInflate(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(61)
		for _, f := range Formats() {
			if (k.Weights[f].Inflate != nil) != f.Compact() {
				t.Errorf("%v: inflated: %v, compact: %v", f, k.Weights[f].Inflate != nil, f.Compact())
			}
			if !f.Compact() {
				continue
			}
			for n := 1; n <= 3; n++ {
				cols := n * SuperBlock
				compact := tail[byte](t, f.PanelBytes(cols))
				Pack(f, k.Offset, compact, randomRows(r, f, PanelRows, cols), PanelRows, cols)
				want, got := make([]byte, f.ProductBytes(cols)), tail[byte](t, f.ProductBytes(cols))
				clear(got)
				scalar.Weights[f].Inflate(want, compact, cols)
				k.Weights[f].Inflate(got, compact, cols)
				if !bytes.Equal(got, want) {
					t.Fatalf("%v: not the scalar set's panel", f)
				}
				if formats[f].table == nil {
					continue
				}
				a, b := make([]float32, cols), make([]float32, cols)
				for row := range PanelRows {
					Row(f, k.Offset, compact, row, a)
					formats[f].table.row(want, row, b, false)
					wantSame(t, fmt.Sprintf("%v, row %d", f, row), b, a)
				}
			}
		}
	})
}

// BenchmarkInflate: a panel of 2048 columns, in the caches.
func BenchmarkInflate(b *testing.B) {
	for _, f := range Formats() {
		if !f.Compact() {
			continue
		}
		b.Run(f.String(), func(b *testing.B) {
			eachSetB(b, func(b *testing.B, k *Kernels) {
				const cols = 2048
				compact, panel := make([]byte, f.PanelBytes(cols)), make([]byte, f.ProductBytes(cols))
				Pack(f, k.Offset, compact, randomRows(newRand(1), f, PanelRows, cols), PanelRows, cols)
				b.SetBytes(int64(len(compact)))
				for b.Loop() {
					k.Weights[f].Inflate(panel, compact, cols)
				}
			})
		})
	}
}
