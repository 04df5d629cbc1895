package asm

import (
	"bytes"
	"testing"
)

func TestPackRow(t *testing.T) {
	r := newRand(4)
	for _, f := range Formats() {
		for _, n := range []int{1, 2, 3, 5} {
			cols := n * f.BlockWeights()
			for _, rows := range []int{1, 7, 15, 16} {
				raw := randomRows(r, f, rows, cols)
				decoded := literalRows(f, raw, rows)
				for _, offset := range []bool{false, true} {
					panel := tail[byte](t, f.PanelBytes(cols))
					for i := range panel {
						panel[i] = 0x5a // left by another matrix
					}
					Pack(f, offset, panel, raw, rows, cols)
					for i := range PanelRows {
						got, want := make([]float32, cols), make([]float32, cols)
						if i < rows {
							want = decoded[i].w
						}
						Row(f, offset, panel, i, got)
						for k := range got {
							if !same(got[k], want[k]) && !(i >= rows && got[k] == 0) {
								t.Fatalf("%v %dx%d offset %v: row %d, weight %d: %g, want %g", f, rows, cols, offset, i, k, got[k], want[k])
							}
						}
					}
				}
			}
		}
	}
}

// TestCopyRow: panels of copied rows are those that the rows' bytes are packed to.
func TestCopyRow(t *testing.T) {
	r := newRand(6)
	for _, f := range Formats() {
		for _, n := range []int{1, 2, 3, 5} {
			cols, size := n*f.BlockWeights(), f.RowBytes(n*f.BlockWeights())
			for _, offset := range []bool{false, true} {
				var rows, from [2][]byte
				for i := range from {
					rows[i], from[i] = randomRows(r, f, PanelRows, cols), make([]byte, f.PanelBytes(cols))
					Pack(f, offset, from[i], rows[i], PanelRows, cols)
				}
				var raw []byte
				got, want := make([]byte, f.PanelBytes(cols)), make([]byte, f.PanelBytes(cols))
				for i, k := range r.Perm(2 * PanelRows)[:1+r.IntN(PanelRows)] {
					CopyRow(f, got, i, from[k%2], k/2, cols)
					raw = append(raw, rows[k%2][k/2*size:][:size]...)
				}
				for i := len(raw) / size; i < PanelRows; i++ {
					ZeroRow(f, offset, got, i, cols)
				}
				if Pack(f, offset, want, raw, len(raw)/size, cols); !bytes.Equal(got, want) {
					t.Fatalf("%v, %d columns, offset %v: other bytes", f, cols, offset)
				}
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for f, want := range map[Format][2]int{F32: {1024, 16384}, F16: {512, 8192}, BF16: {512, 8192}, Q8_0: {272, 8 * 544},
		Q4_0: {144, 8 * 288}, Q4_K: {144, 2368}, Q6_K: {210, 3392}} {
		if got := [2]int{f.RowBytes(256), f.PanelBytes(256)}; got != want {
			t.Errorf("%v: row and panel of 256 weights take %v bytes, want %v", f, got, want)
		}
		if f.PanelBytes(3*f.BlockWeights())%64 != 0 {
			t.Errorf("%v: a panel is not a multiple of 64 bytes", f)
		}
	}
}

// A word of padding rows in each integer format is the code of zero: an unsigned kernel that starts at a bias must
// get zero.
func TestPaddingRows(t *testing.T) {
	for f, want := range map[Format]uint32{Q8_0: 0x80808080, Q4_0: 0x88888888} {
		panel := make([]byte, f.PanelBytes(32))
		Pack(f, true, panel, randomRow(newRand(5), f, 32), 1, 32)
		if got := le.Uint32(panel[64+4:]); got != want {
			t.Errorf("%v: %#08x, want %#08x", f, got, want)
		}
	}
}
