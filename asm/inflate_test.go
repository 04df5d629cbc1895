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

// TestInflateEveryEntry: every entry of a grid, with every sign that counts, in every row.
func TestInflateEveryEntry(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(62)
		for _, f := range Formats() {
			if !f.Compact() || formats[f].table == nil {
				continue
			}
			table := formats[f].table
			l, most := table.grid.layout(table), 256<<table.grid.high
			cols := most / 32 * SuperBlock
			compact := make([]byte, f.PanelBytes(cols))
			for i := range cols / SuperBlock {
				for row := range PanelRows {
					var b gridBlock
					for j := range b.entry {
						b.entry[j] = uint16((32*i + j + 7*row) % most)
					}
					for j := range b.signs {
						b.signs[j] = byte(r.Uint32())
						if table.grid.minus {
							b.signs[j] &= 1
						}
					}
					l.put(compact[i*l.size:][:l.size], &b, row)
				}
			}
			want, got := make([]byte, f.ProductBytes(cols)), make([]byte, f.ProductBytes(cols))
			scalar.Weights[f].Inflate(want, compact, cols)
			k.Weights[f].Inflate(got, compact, cols)
			if !bytes.Equal(got, want) {
				t.Errorf("%v: not the scalar set's panel", f)
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

// TestMatMulCompact: a product with a compact panel is that with the inflated one, whatever its bytes are.
func TestMatMulCompact(t *testing.T) {
	eachSet(t, func(t *testing.T, k, scalar *Kernels) {
		r := newRand(63)
		for _, f := range Formats() {
			direct := k.Weights[f].MatMulCompact
			if direct == nil {
				continue
			}
			for n := range 40 {
				cols := n % 9 * SuperBlock
				compact, plain := tail[byte](t, f.PanelBytes(cols)), make([]byte, f.ProductBytes(cols))
				for i := range compact {
					compact[i] = byte(r.Uint32())
				}
				size := f.PanelBytes(SuperBlock)
				for at := size; at <= len(compact); at += size { // numbers d are finite
					for row := range PanelRows {
						compact[at-2*row-1] &= 0xbf
					}
				}
				x, _ := newTile(t, k, r, 1, cols)
				if n%3 == 0 {
					setExtremes(k, x)
				}
				got, want := tail[float32](t, PanelRows), make([]float32, PanelRows)
				scalar.Weights[f].Inflate(plain, compact, cols)
				scalar.Weights[f].MatMul(plain, x, want, PanelRows, Prefetch{})
				direct(compact, x, got)
				wantSame(t, fmt.Sprintf("%v, %d columns", f, cols), got, want)
			}
		}
	})
}
