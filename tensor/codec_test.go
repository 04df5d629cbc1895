package tensor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
)

// TestDecodeReference compares with the values that the reference implementation gives to its own and to random bytes.
func TestDecodeReference(t *testing.T) {
	dir := testkit.Shared(t, "families", "quants")
	rt := runtimeOf(t, 2)
	for _, f := range asm.Formats() {
		for _, kind := range []string{"", ".rand", ".grid"} { // .grid: every entry of the type's grid
			name := filepath.Join(dir, f.String()+kind)
			raw, err := os.ReadFile(name + ".bin")
			_, grids := strings.CutPrefix(f.String(), "iq")
			grids = grids && f.BlockWeights() == asm.SuperBlock && f != IQ4_XS
			if f.BlockWeights() == 1 && (kind != "" || f == F32) || kind == ".grid" && !grids {
				continue
			}
			ok(t, err)
			values, err := os.ReadFile(name + ".f32")
			ok(t, err)
			want := make([]float32, len(values)/4)
			ok(t, Decode(F32, want, values))
			got := make([]float32, len(want))
			ok(t, Decode(f, got, raw))
			sameBits(t, name, got, want)

			cols := min(512, len(want))
			if kind == ".grid" {
				cols = len(want) // one row
			}
			m, err := Pack(rt, f, len(want)/cols, cols, raw)
			ok(t, err)
			for i := range m.Rows() {
				ok(t, m.Row(i, got[i*cols:][:cols]))
			}
			sameBits(t, name+" in a panel", got, want)
		}
	}
}

// TestDecodeFormulas compares every type with its formula in float64, for bytes of this test.
func TestDecodeFormulas(t *testing.T) {
	for _, f := range asm.Formats() {
		t.Run(f.String(), func(t *testing.T) {
			formula := formulas[f]
			const blocks = 40
			row := rawRows(t, f, 12, 1, blocks*f.BlockWeights())
			got := make([]float32, blocks*f.BlockWeights())
			ok(t, Decode(f, got, row))
			if asm.DecodeTable(f, make([]float32, len(got)), row) { // the tests of package asm have the formula, for panels
				m, err := Pack(runtimeOf(t, 1), f, 1, len(got), row)
				ok(t, err)
				want := make([]float32, len(got))
				ok(t, m.Row(0, want))
				sameBits(t, f.String(), got, want)
				return
			}
			if formula == nil {
				t.Fatal("the test has no formula for this type")
			}
			for i, v := range got {
				b := i / f.BlockWeights()
				want := float32(formula(row[b*f.BlockBytes():][:f.BlockBytes()], i%f.BlockWeights()))
				if math.Float32bits(v) != math.Float32bits(want) {
					t.Fatalf("weight %d is %v, want %v", i, v, want)
				}
			}
		})
	}
}

// formulas give weight k of a block, exact in float64.
var formulas = map[Type]func(p []byte, k int) float64{
	F32:  func(p []byte, k int) float64 { return float64(math.Float32frombits(le.Uint32(p))) },
	F16:  func(p []byte, k int) float64 { return half(p) },
	BF16: func(p []byte, k int) float64 { return float64(math.Float32frombits(uint32(le.Uint16(p)) << 16)) },
	Q8_0: func(p []byte, k int) float64 { return half(p) * float64(int8(p[2+k])) },
	Q4_0: func(p []byte, k int) float64 { return half(p) * float64(fourBits(p[2:], k)-8) },
	Q4_1: func(p []byte, k int) float64 { return half(p)*float64(fourBits(p[4:], k)) + half(p[2:]) },
	Q5_0: func(p []byte, k int) float64 { return half(p) * float64(fourBits(p[6:], k)+16*oneBit(p[2:], k)-16) },
	Q5_1: func(p []byte, k int) float64 {
		return half(p)*float64(fourBits(p[8:], k)+16*oneBit(p[4:], k)) + half(p[2:])
	},
	IQ4_NL: func(p []byte, k int) float64 { return half(p) * iq4(fourBits(p[2:], k)) },
	IQ4_XS: func(p []byte, k int) float64 {
		b := k / 32
		ls := int(p[4+b/2]>>(4*(b%2))&15) + 16*int(le.Uint16(p[2:])>>(2*b)&3)
		return half(p) * float64(ls-32) * iq4(fourBits(p[8+16*b:], k%32))
	},
	NVFP4: func(p []byte, k int) float64 {
		e2m1 := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
		s := p[k/16]
		scale := math.Pow(2, float64(s>>3&15)-7) * (1 + float64(s&7)/8)
		if s>>3&15 == 0 {
			scale = float64(s&7) / 512
		} else if s == 127 {
			scale = 0
		}
		return scale * e2m1[p[4+k/16*8+k%8]>>(k%16/8*4)&15]
	},
	MXFP4: func(p []byte, k int) float64 {
		q := fourBits(p[1:], k)
		e2m1 := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}[q&7]
		if q > 8 { // 8 is 0 without a sign
			e2m1 = -e2m1
		}
		return math.Ldexp(e2m1, int(p[0])-127)
	},
	Q4_K: func(p []byte, k int) float64 {
		s := k / 32
		return half(p)*float64(sixBits(p[4:], s,
			0))*float64(p[16+s/2*32+k%32]>>(4*(s%2))&15) - half(p[2:])*float64(sixBits(p[4:], s, 4))
	},
	Q5_K: func(p []byte, k int) float64 {
		s := k / 32
		q := p[48+s/2*32+k%32]>>(4*(s%2))&15 + 16*(p[16+k%32]>>s&1)
		return half(p)*float64(sixBits(p[4:], s, 0))*float64(q) - half(p[2:])*float64(sixBits(p[4:], s, 4))
	},
	Q2_0: func(p []byte, k int) float64 { return half(p) * float64(int(p[2+k/4]>>(k%4*2)&3)-1) },
	Q1_0: func(p []byte, k int) float64 { return half(p) * float64(2*int(p[2+k/8]>>(k%8)&1)-1) },
	TQ2_0: func(p []byte, k int) float64 {
		return half(p[64:]) * float64(int(p[k/128*32+k%32]>>(k/32%4*2)&3)-1)
	},
	TQ1_0: func(p []byte, k int) float64 {
		at, digit := k%32, k/32
		if k >= 240 {
			at, digit = 48+k%4, (k-240)/4
		} else if k >= 160 {
			at, digit = 32+k%16, (k-160)/16
		}
		fraction := float64(p[at]) / 256
		for range digit {
			fraction = 3*fraction - math.Floor(3*fraction)
		}
		return half(p[52:]) * (math.Floor(3*fraction) - 1)
	},
	Q6_K: func(p []byte, k int) float64 {
		n, group, l := k/128, k%128/32, k%32
		low := p[64*n+group%2*32+l] >> (4 * (group / 2)) & 15
		high := p[128+32*n+l] >> (2 * group) & 3
		return half(p[208:]) * float64(int8(p[192+8*n+2*group+l/16])) * float64(int(low)+16*int(high)-32)
	},
	Q3_K: func(p []byte, k int) float64 {
		n, j, l := k/128, k%128/32, k%32
		s := 8*n + 2*j + l/16
		q := int(p[32+32*n+l] >> (2 * j) & 3)
		if p[l]>>(4*n+j)&1 == 0 {
			q -= 4
		}
		low := p[96+s%8] & 15
		if s >= 8 {
			low = p[96+s-8] >> 4
		}
		sc := int(low) + 16*int(p[96+8+s%4]>>(2*(s/4))&3)
		return half(p[108:]) * float64(sc-32) * float64(q)
	},
	Q2_K: func(p []byte, k int) float64 {
		n, j, l := k/128, k%128/32, k%32
		s := p[8*n+2*j+l/16]
		return half(p[80:])*float64(s&15)*float64(p[16+32*n+l]>>(2*j)&3) - half(p[82:])*float64(s>>4)
	},
}

// half is a finite binary16 number, exact.
func half(p []byte) float64 {
	h := int(le.Uint16(p))
	sign := float64(1 - 2*(h>>15))
	if h>>10&31 == 0 {
		return sign * math.Ldexp(float64(h&1023), -24)
	}
	return sign * math.Ldexp(float64(1024+h&1023), h>>10&31-25)
}

func fourBits(p []byte, k int) int { return int(p[k%16] >> (4 * (k / 16)) & 15) }

func oneBit(p []byte, k int) int { return int(p[k/8] >> (k % 8) & 1) }

func iq4(i int) float64 {
	return []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}[i]
}

// sixBits is scale s (from 0) or minimum s (from 4) of a Q4_K block.
func sixBits(p []byte, s, from int) int {
	if s < 4 {
		return int(p[s+from] & 63)
	}
	return int(p[s+4]>>from&15) + 16*int(p[s-4+from]>>6)
}

// TestTypes: names are lower case and found again; types that nothing is known of are refused by name.
func TestTypes(t *testing.T) {
	for _, f := range asm.Formats() {
		if got, err := ParseType(f.String()); err != nil || got != f || f.String() != strings.ToLower(f.String()) {
			t.Errorf("%v is parsed as %v, %v", f, got, err)
		}
	}
	for _, name := range []string{"q8_1", "q8_k", ""} {
		if _, err := ParseType(name); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("type %q: %v", name, err)
		}
	}
}

// FuzzDecode: rows of any bytes are decoded; they make a matrix with the same weights if all are finite and are
// refused, with the row, if one is not.
func FuzzDecode(f *testing.F) {
	for i := range asm.Formats() {
		f.Add(byte(i), uint64(i), []byte{0xff, 0x7f, 0x80, 0xfc, 0x00, 0x7c, 0x01})
		f.Add(byte(i), uint64(i), []byte{})
	}
	rt := runtimeOf(f, 1)
	f.Fuzz(func(t *testing.T, typ byte, seed uint64, data []byte) {
		f := asm.Formats()[int(typ)%len(asm.Formats())]
		cols := 2 * max(f.BlockWeights(), 8)
		size := f.RowBytes(cols)
		raw := rawRows(t, f, seed, 3, cols)
		from := int(seed % uint64(len(raw)))
		copy(raw[from:], data)
		want := make([]float32, 3*cols)
		bad := -1
		for i := range 3 {
			ok(t, Decode(f, want[i*cols:][:cols], raw[i*size:][:size]))
			if bad < 0 && firstNotFinite(want[i*cols:][:cols]) >= 0 {
				bad = i
			}
		}
		m, err := Pack(rt, f, 3, cols, raw)
		if bad >= 0 {
			if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), fmt.Sprintf("row %d:", bad)) {
				t.Fatalf("%v: row %d is not finite, error %v", f, bad, err)
			}
			return
		}
		ok(t, err)
		defer m.Close()
		got := make([]float32, cols)
		for i := range 3 {
			ok(t, m.Row(i, got))
			for k, v := range got {
				if w := want[i*cols+k]; v != w { // the sign of zero may differ in a row of zeros
					t.Fatalf("%v row %d: weight %d is %v, want %v", f, i, k, v, w)
				}
			}
		}
	})
}

// TestRefusesNotFinite: a scale that is infinite or NaN, or decodes to more than float32 holds, in any row of a matrix
// that takes several reads.
func TestRefusesNotFinite(t *testing.T) {
	rt := runtimeOf(t, 2)
	for _, f := range asm.Formats() {
		if f == NVFP4 {
			continue // is always finite
		}
		const rows, cols, bad = 400, 512, 350
		raw := rawRows(t, f, 13, rows, cols)
		at := bad*f.RowBytes(cols) + f.RowBytes(cols) - f.BlockBytes()
		block := raw[at:][:f.BlockBytes()]
		weight := cols - f.BlockWeights()
		switch {
		case f == F32:
			le.PutUint32(block, 0xff800000)
		case f == F16:
			le.PutUint16(block, 0x7c01)
		case f == BF16:
			le.PutUint16(block, 0x7f80)
		case f == MXFP4:
			clear(block)
			block[0], block[1] = 254, 0x70 // weight 16 is 12 * 2^126
			weight += 16
		case f == IQ1_M: // the highest 4 bits of 4 numbers
			for i, bits := range []byte{0, 0, 0xc0, 0xf0} {
				block[49+2*i] = bits
			}
		default:
			scales := f.Scales()
			le.PutUint16(block[scales[len(scales)-1]:], 0xfc00)
		}
		_, err := Pack(rt, f, rows, cols, raw)
		if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "row 350: weight ") {
			t.Errorf("%v: %v", f, err)
		}
		if f == MXFP4 && !strings.Contains(err.Error(), fmt.Sprintf("weight %d is +Inf", weight)) {
			t.Errorf("%v: %v", f, err)
		}
		if _, err := Read(context.Background(), rt, bytes.NewReader(raw), 0, f, rows, cols, F32); !errors.Is(err,
			ErrNotFinite) {
			t.Errorf("%v converted: %v", f, err)
		}
	}
}
