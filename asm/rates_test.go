package asm

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// rateTwins are the loops of [Rate], by the results that they have in the sets, in plain Go. a and b are a vector's
// bytes; a turn changes each result r as the instruction does.
var rateTwins = map[string]func(r, a, b []byte){
	"VFMADD231PS": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 4 {
			put32(r[i:], math.Float32bits(FMA(f32(a[i:]), f32(b[i:]), f32(r[i:]))))
		}
	},
	"FMLA": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 4 {
			put32(r[i:], math.Float32bits(FMA(f32(a[i:]), f32(b), f32(r[i:]))))
		}
	},
	"VPDPBUSD": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 4 {
			sum := int32(le.Uint32(r[i:]))
			for j := i; j < i+4; j++ {
				sum += int32(a[j]) * int32(int8(b[j]))
			}
			put32(r[i:], uint32(sum))
		}
	},
	"VPMADDUBSW": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 2 {
			sum := int(a[i])*int(int8(b[i])) + int(a[i+1])*int(int8(b[i+1]))
			le.PutUint16(r[i:], uint16(min(max(sum, math.MinInt16), math.MaxInt16)))
		}
	},
	"VPMADDWD": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 4 {
			put32(r[i:], uint32(i16(a[i:])*i16(b[i:])+i16(a[i+2:])*i16(b[i+2:])))
		}
	},
	"TDPBSSD": func(r, a, b []byte) { // the 8 rows of weights are the same, so are the tokens; 4 activations each
		for i := 0; i < len(r); i += 4 {
			sum := int32(le.Uint32(r[i:]))
			for k := range BlockSize {
				sum += int32(int8(a[k])) * int32(int8(b[i+k%4]))
			}
			put32(r[i:], uint32(sum))
		}
	},
	"SMULL": func(r, a, b []byte) {
		for i := range len(r) / 2 {
			le.PutUint16(r[2*i:], uint16(int16(int8(a[i]))*int16(int8(b[i]))))
		}
	},
	"SDOT": func(r, a, b []byte) {
		for i := 0; i < len(r); i += 4 {
			sum := int32(le.Uint32(r[i:]))
			for j := range 4 {
				sum += int32(int8(a[i+j])) * int32(int8(b[j]))
			}
			put32(r[i:], uint32(sum))
		}
	},
	"SMMLA": func(r, a, b []byte) {
		for i := range 2 {
			for j := range 2 {
				at := r[4*(2*i+j):]
				sum := int32(le.Uint32(at))
				for k := range 8 {
					sum += int32(int8(a[8*i+k])) * int32(int8(b[8*j+k]))
				}
				put32(at, uint32(sum))
			}
		}
	},
}

func put32(p []byte, v uint32) { le.PutUint32(p, v) }
func f32(p []byte) float32     { return math.Float32frombits(le.Uint32(p)) }
func i16(p []byte) int32       { return int32(int16(le.Uint16(p))) }

// TestRates: every loop makes the products that it says, as many as it says, and no other set lacks one.
func TestRates(t *testing.T) {
	// Products of one result in a turn, by the registers' bytes.
	perByte := map[string]float64{"VFMADD231PS": 1. / 4, "FMLA": 1. / 4, "VPDPBUSD": 1, "VPMADDUBSW": 1, "VPMADDWD": 1,
		"TDPBSSD": amxRowProducts, "SMULL": 1. / 2, "SDOT": 1, "SMMLA": 2}
	for _, name := range Available()[1:] {
		set, err := Select(name)
		if err != nil {
			t.Fatal(err)
		}
		rates := set.Rates()
		for _, float := range []bool{false, true} {
			if !slices.ContainsFunc(rates, func(r Rate) bool { return r.Float == float }) {
				t.Errorf("%s: no rate, float %v", name, float)
			}
		}
		r := newRand(30)
		for _, rate := range rates {
			size := 16
			switch {
			case rate.Instruction == "TDPBSSD" || rate.Instruction[0] == 'V' && (set.Name == "avx512" || set.Name == "amx"):
				size = 64
			case rate.Instruction[0] == 'V':
				size = 32
			}
			results := int(float64(rate.Products) / perByte[rate.Instruction] / float64(size))
			for _, n := range []int{0, 1, 2, 5} {
				a, b, out := (*[64]byte)(tail[byte](t, 64)), (*[64]byte)(tail[byte](t, 64)), (*[64]byte)(tail[byte](t, 64))
				for i := range a {
					a[i], b[i] = byte(r.Uint32()), byte(r.Uint32())
				}
				if rate.Float {
					for i := 0; i < 64; i += 4 {
						put32(a[i:], math.Float32bits(float32(r.NormFloat64())))
						put32(b[i:], math.Float32bits(float32(r.NormFloat64())))
					}
				}
				one, want := make([]byte, size), make([]byte, size)
				for range n {
					rateTwins[rate.Instruction](one, a[:size], b[:size])
				}
				for range results {
					addVectors(want, one, rate)
				}
				rate.Run(n, a, b, out)
				if !bytes.Equal(out[:size], want) {
					t.Errorf("%s: %s, %d turns: %x, want %x", name, rate.Instruction, n, out[:size], want)
				}
			}
		}
	}
	k := Scalar()
	if len(k.Rates()) != 0 {
		t.Error("scalar has rates")
	}
}

// amxRowProducts is the products of a tile of 16 tokens, 32 columns and 16 rows per byte of a row of its sums.
const amxRowProducts = 16 * 16 * 32 / 64

// addVectors adds a result to the sum of those before it.
func addVectors(sum, r []byte, rate Rate) {
	switch {
	case rate.Float:
		for i := 0; i < len(r); i += 4 {
			put32(sum[i:], math.Float32bits(f32(sum[i:])+f32(r[i:])))
		}
	case rate.Instruction == "VPMADDUBSW" || rate.Instruction == "SMULL":
		for i := 0; i < len(r); i += 2 {
			le.PutUint16(sum[i:], le.Uint16(sum[i:])+le.Uint16(r[i:]))
		}
	default:
		for i := 0; i < len(r); i += 4 {
			put32(sum[i:], le.Uint32(sum[i:])+le.Uint32(r[i:]))
		}
	}
}
