package asm

import (
	"math"
	"testing"
)

// decodeRow reads a GGUF row by the letter of the format's definition: the weights as float32 (rounded as Row rounds), and for
// integer formats the quants, per 32 (Q6_K: 16) weights a scale, and for Q4_K a minimum.
func decodeRow(f Format, row []byte, cols int) (w []float32, q []int, scale, minimum []float32) {
	f16 := func(at int) float32 { return FromF16(uint16(row[at]) | uint16(row[at+1])<<8) }
	for b := range cols / f.BlockWeights() {
		at := b * f.BlockBytes()
		switch f {
		case F32:
			w = append(w, math.Float32frombits(le.Uint32(row[at:])))
		case F16:
			w = append(w, f16(at))
		case BF16:
			w = append(w, math.Float32frombits(uint32(row[at])<<16|uint32(row[at+1])<<24))
		case Q8_0:
			d := f16(at)
			scale = append(scale, d)
			for i := range 32 {
				n := int(int8(row[at+2+i]))
				q, w = append(q, n), append(w, d*float32(n))
			}
		case Q4_0:
			d := f16(at)
			scale = append(scale, d)
			for i := range 32 {
				n := int(row[at+2+i%16])>>(i/16*4)&15 - 8
				q, w = append(q, n), append(w, d*float32(n))
			}
		case Q4_K:
			d, dmin, s := f16(at), f16(at+2), row[at+4:at+16]
			for i := range 8 {
				sc, m := s[i&3]&63, s[i&3+4]&63
				if i >= 4 {
					sc, m = s[i+4]&15|s[i-4]>>6<<4, s[i+4]>>4|s[i]>>6<<4
				}
				sd, sm := d*float32(sc), float32(dmin*float32(m))
				scale, minimum = append(scale, sd), append(minimum, sm)
				for k := range 32 {
					n := int(row[at+16+i/2*32+k]) >> (i % 2 * 4) & 15
					q, w = append(q, n), append(w, float32(sd*float32(n))-sm)
				}
			}
		case Q6_K:
			ql, qh, sc, d := row[at:at+128], row[at+128:at+192], row[at+192:at+208], f16(at+208)
			var y [256]int
			for n := range 2 {
				for l := range 32 {
					low, high := ql[64*n:], qh[32*n+l]
					y[128*n+l] = int(low[l]&15|high&3<<4) - 32
					y[128*n+32+l] = int(low[32+l]&15|high>>2&3<<4) - 32
					y[128*n+64+l] = int(low[l]>>4|high>>4&3<<4) - 32
					y[128*n+96+l] = int(low[32+l]>>4|high>>6<<4) - 32
				}
			}
			for k, n := range y {
				s := float32(int8(sc[k/16]))
				q, w = append(q, n), append(w, float32(d*s)*float32(n))
			}
			scale = append(scale, d)
			for _, s := range sc {
				minimum = append(minimum, float32(int8(s))) // the 16 integer scales
			}
		}
	}
	return w, q, scale, minimum
}

func TestPackRow(t *testing.T) {
	r := newRand(4)
	for _, f := range Formats() {
		for _, n := range []int{1, 2, 3, 5} {
			cols := n * f.BlockWeights()
			for _, rows := range []int{1, 7, 15, 16} {
				raw := randomRows(r, f, rows, cols)
				for _, offset := range []bool{false, true} {
					panel := tail[byte](t, f.PanelBytes(cols))
					for i := range panel {
						panel[i] = 0x5a // left by another matrix
					}
					Pack(f, offset, panel, raw, rows, cols)
					for i := range PanelRows {
						got, want := make([]float32, cols), make([]float32, cols)
						if i < rows {
							want, _, _, _ = decodeRow(f, raw[i*f.RowBytes(cols):][:f.RowBytes(cols)], cols)
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

// A word of padding rows in each integer format is the code of zero: an unsigned kernel that starts at a bias must get zero.
func TestPaddingRows(t *testing.T) {
	for f, want := range map[Format]uint32{Q8_0: 0x80808080, Q4_0: 0x88888888} {
		panel := make([]byte, f.PanelBytes(32))
		Pack(f, true, panel, randomRow(newRand(5), f, 32), 1, 32)
		if got := le.Uint32(panel[64+4:]); got != want {
			t.Errorf("%v: %#08x, want %#08x", f, got, want)
		}
	}
}
