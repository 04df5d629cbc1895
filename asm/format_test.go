package asm

import (
	"fmt"
	"math"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestFormatTable: every type's entry is complete, its name its own, its panel near the size of its rows.
func TestFormatTable(t *testing.T) {
	names := map[string]bool{}
	for i, f := range Formats() {
		e := formats[f]
		if e.name == "" || names[e.name] || e.pack == nil || e.row == nil || e.matMul == nil ||
			(e.notFinite == nil) == (e.scales == nil) {
			t.Errorf("the entry of type %d, %q, is not complete", f, e.name)
		}
		names[e.name] = true
		if e.integer != (e.sums != noSums) || e.integer != (e.blockWeights > 1 && f != NVFP4) || e.integer &&
			literals[f] == nil {
			t.Errorf("%v: integer %v, sums %v, blocks of %d", f, e.integer, e.sums, e.blockWeights)
		}
		most := 1.1 // of those below 2.6 bits a promise
		if f == IQ3_S {
			most = 1.28 // nibbles instead of entries of a grid
		}
		if ratio := float64(f.PanelBytes(2*SuperBlock)) / float64(PanelRows*f.RowBytes(2*SuperBlock)); ratio < 1 ||
			ratio > most {
			t.Errorf("%v: panels take %.3f of the rows' size", f, ratio)
		}
		if f.PanelBytes(3*f.BlockWeights())%64 != 0 {
			t.Errorf("%v: a panel is not a multiple of 64 bytes", f)
		}
		if i > 0 && f.RowBytes(SuperBlock) > Format(i-1).RowBytes(SuperBlock) {
			t.Errorf("%v has more bits per weight than %v before it", f, Format(i-1))
		}
	}
}

// TestSums: a product takes no other sums of a tile than its type says.
func TestSums(t *testing.T) {
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		for _, f := range Formats() {
			if !f.Integer() {
				continue
			}
			const cols, tokens = 2 * SuperBlock, 5
			r := newRand(30)
			panel := make([]byte, f.ProductBytes(cols))
			packProduct(f, k.Offset, panel, randomRows(r, f, PanelRows, cols), PanelRows, cols)
			x, _ := newTile(t, k, r, tokens, cols)
			want, got := make([]float32, tokens*PanelRows), make([]float32, tokens*PanelRows)
			k.Weights[f].MatMul(panel, x, want, PanelRows, Prefetch{})
			for i := range x.D {
				if formats[f].sums != biasSums {
					x.Bias[i] = 77777
				}
				if formats[f].sums != dSums {
					x.DSum[i] = float32(math.NaN())
				}
				if formats[f].sums != halfSums {
					x.Half[2*i], x.Half[2*i+1] = 88888, 99999
				}
			}
			k.Weights[f].MatMul(panel, x, got, PanelRows, Prefetch{})
			wantSame(t, f.String(), got, want)
		}
	})
}

// TestNotFinite: a block is refused exactly if the panel that is made of it has a weight that is not finite.
func TestNotFinite(t *testing.T) {
	r, tries := newRand(31), 500
	if testkit.IsLong(t) {
		tries = 8000
	}
	for _, f := range Formats() {
		if f == NVFP4 {
			continue // is always finite
		}
		refused := 0
		for try := range tries {
			row := randomRow(r, f, 3*max(f.BlockWeights(), 4)) // 12 numbers, or 3 blocks
			for range 1 + try%3 {
				row[r.IntN(len(row))] = byte(r.Uint32()) | 0x7c
			}
			cols := len(row) / f.BlockBytes() * f.BlockWeights()
			if f == MXFP4 {
				row[r.IntN(3)*17] = byte(250 + r.IntN(6))
			} else if f == IQ1_M && try%2 == 0 {
				setScales(f, row[r.IntN(3)*56:][:56], FromF16([]uint16{0x7c00, 0xfc00, 0x7bff, 0xfbff}[r.IntN(4)]))
			} else if scales := f.Scales(); len(scales) > 0 && try%2 == 0 {
				at := r.IntN(len(row)/f.BlockBytes())*f.BlockBytes() + scales[r.IntN(len(scales))]
				le.PutUint16(row[at:], []uint16{0x7c00, 0xfc00, 0x7e01, 0x7bff, 0xfbff}[r.IntN(5)])
			}
			panel, w := make([]byte, f.PanelBytes(cols)), make([]float32, cols)
			Pack(f, try%2 == 1, panel, row, 1, cols)
			Row(f, try%2 == 1, panel, 0, w)
			want := -1
			for k, v := range w {
				if v-v != 0 {
					want = k / f.BlockWeights()
					break
				}
			}
			if got := f.NotFinite(row); got != want {
				t.Fatalf("%v: block %d is not finite, want %d: % x", f, got, want, row)
			}
			if want >= 0 {
				refused++
			}
		}
		if refused < tries/20 || refused > tries-tries/20 {
			t.Errorf("%v: %d of %d rows refused", f, refused, tries)
		}
	}
}

// TestLongNotFinite: with ten times the rows.
func TestLongNotFinite(t *testing.T) {
	testkit.Long(t)
	TestNotFinite(t)
}

// TestPowerMXFP4: all exponents, as powers in float64.
func TestPowerMXFP4(t *testing.T) {
	for e := range 256 {
		if got, want := powerMXFP4(byte(e)), math.Ldexp(1, e-128); float64(got) != want {
			t.Error(fmt.Sprintf("e = %d: %g, want %g", e, got, want))
		}
	}
}
