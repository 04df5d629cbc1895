package asm

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/vectors.txt from the scalar kernels")

const vectorsHeader = `# Results of each numeric rule, as the bits of binary32 (8 hex digits) or binary64 (16), made by vectors_test.go.
# Inputs: number(s, i) = float32(int32(mix32(1000*s+i))>>8) * 2^-21, i = 0, 1, …; see the test for shapes and scales.
# A change here is a change of what every model answers.
`

// number is a reproducible input between -4 and 4, a multiple of 2^-21.
func number(stream, i int) float32 {
	return float32(int32(mix32(uint32(1000*stream+i)))>>8) * 0x1p-21
}

func numbers(stream, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = number(stream, i)
	}
	return x
}

// vectorRow is a reproducible GGUF row.
func vectorRow(f Format, stream, cols int) []byte {
	row := make([]byte, f.RowBytes(cols))
	for i := range row {
		row[i] = byte(mix32(uint32(1000*stream + i)))
	}
	for b := range cols / f.BlockWeights() {
		block, w := row[b*f.BlockBytes():][:f.BlockBytes()], number(stream, 900+b)
		switch f {
		case F32:
			le.PutUint32(block, math.Float32bits(number(stream, b)))
		case BF16:
			le.PutUint16(block, ToBF16(number(stream, b)))
		case F16:
			le.PutUint16(block, ToF16(number(stream, b)))
		default:
			setScales(f, block, w/64)
		}
	}
	return row
}

// vectors computes the results of every rule with a kernel set: lines of a name and numbers.
func vectors(k *Kernels) string {
	var out strings.Builder
	line := func(rule string, x ...float32) {
		fmt.Fprintf(&out, "%s:", rule)
		for _, e := range x {
			fmt.Fprintf(&out, " %08x", math.Float32bits(e))
		}
		fmt.Fprintln(&out)
	}
	line64 := func(rule string, x ...float64) {
		fmt.Fprintf(&out, "%s:", rule)
		for _, e := range x {
			fmt.Fprintf(&out, " %016x", math.Float64bits(e))
		}
		fmt.Fprintln(&out)
	}

	line("3 fma", FMA(0x1.000002p0, 0x1.000002p0, 0x1p-60), FMA(0x1.000002p0, 0x1.fffffep-1, -1),
		FMA(0x1p-75, 0x1.8p-75, 0x1p-149),
		FMA(0x1.8p-75, 0x1p-75, 0x1p-148), FMA(4097, 4099, 0x1p-40), FMA(4097, 4099, -0x1p-40), FMA(0x1p-149, 0.5, 0x1p-149))

	// Rule 2: one block of ordinary numbers, one of ties, one of zeros.
	v := numbers(1, 96)
	for i := range 32 {
		v[32+i] = float32(i*8-127) / 2
		v[64+i] *= 0x1p-104
	}
	v[32] = 127
	var tile Tile
	tile.ResizeQuantized(1, 96)
	k.Quantize(v, &tile, 0)
	fmt.Fprintf(&out, "2 quantize: % x", tile.Q[:32])
	fmt.Fprintf(&out, " | % x | %d %d\n", tile.Q[32:64], tile.Bias, tile.Half)
	line("2 scales", append(append([]float32{}, tile.D...), tile.DSum...)...)

	// Rules 3 and 4: three rows, two tokens.
	for _, f := range Formats() {
		cols := (95/f.BlockWeights() + 1) * f.BlockWeights()
		var raw []byte
		for r := range 3 {
			raw = append(raw, vectorRow(f, 10+r, cols)...)
		}
		panel := make([]byte, f.ProductBytes(cols))
		packProduct(f, k.Offset, panel, raw, 3, cols)
		var x Tile
		x.ResizeQuantized(2, cols)
		x.ResizeFloat(2, cols)
		for t := range 2 {
			v := numbers(20+t, cols)
			k.Quantize(v, &x, t)
			x.SetFloat(t, v)
		}
		y := make([]float32, 2*PanelRows)
		k.Weights[f].MatMul(panel, &x, y, PanelRows, Prefetch{})
		line(fmt.Sprintf("3 %v", f), y[0], y[1], y[2], y[16], y[17], y[18])
		row := make([]float32, cols)
		stored := make([]byte, f.PanelBytes(cols))
		Pack(f, k.Offset, stored, raw, 3, cols)
		Row(f, k.Offset, stored, 1, row)
		line(fmt.Sprintf("3 %v row", f), row[0], row[17], row[cols/2], row[cols-1])
	}

	// Rule 5.
	y, x, w, b := make([]float32, 37), numbers(30, 37), numbers(31, 37), numbers(32, 37)
	line("5 sum of squares", k.SumSquares(x), k.SumSquares(x[:16]), k.SumSquares(x[:3]))
	k.RMSNorm(y, x, w, 1e-5)
	line("5 rms norm", y[0], y[15], y[16], y[36])
	k.LayerNorm(y, x, w, b, 1e-5)
	line("5 layer norm", y[0], y[15], y[16], y[36])

	// Rule 6.
	m, l := k.ExpSum(append(y[:0], x...))
	line("6 softmax", m, l, y[0], y[15], y[16], y[36])
	e := []float32{3, 3 - 87.25, 3 - 87.5, 3 - 100, -1e30, 3}
	m, l = k.ExpSum(e)
	line("6 softmax of subnormal terms", append(e, m, l)...)
	const dim, keys = 40, 19
	q, p := numbers(40, dim*2), numbers(41, 2*Page)
	for kv := range kvCount {
		kp, vp := make([]byte, KPageBytes(kv, dim)), make([]byte, VPageBytes(kv, dim))
		for j := range keys {
			StoreK(kv, kp, j, numbers(50+j, dim))
			StoreV(kv, vp, j, numbers(80+j, dim))
		}
		s, o := make([]float32, 2*Page), make([]float32, 2*dim)
		k.Scores[kv](s, q, kp, dim, 2, keys, 0.15811388, nil)
		k.Values[kv](o, p, vp, dim, 2, 2, keys, nil)
		line(fmt.Sprintf("6 %v scores", kv), s[0], s[18], s[Page], s[Page+18])
		line(fmt.Sprintf("6 %v values", kv), o[0], o[31], o[32], o[dim], o[2*dim-1])
	}

	// Rule 7.
	e = []float32{0, 1, -1, 0.5, 10.125, -87.5, -100, -103.5, 88.7, 89, -104, -0.0001}
	k.Exp(e, e)
	line("7 exp", e...)
	line("7 log", Log32(1e-45), Log32(0x1p-126), Log32(0.1), Log32(0.70710677), Log32(0.70710678), Log32(1.0000001),
		Log32(1.4142135), Log32(10), Log32(3e38))
	line("7 tanh", Tanh32(1e-6), Tanh32(-0.3), Tanh32(0.624), Tanh32(0.625), Tanh32(-2), Tanh32(9.5))
	line("7 sigmoid", Sigmoid32(-20), Sigmoid32(-1.5), Sigmoid32(0.1), Sigmoid32(3), Sigmoid32(30))
	k.SiLUMul(y, x, w)
	line("7 silu", y[0], y[15], y[16], y[36])
	k.GELU(y, x)
	line("7 gelu", y[0], y[15], y[16], y[36])
	k.GELUErf(y, x)
	line("7 gelu by erf", y[0], y[15], y[16], y[36])
	line("7 upper tail", UpperTail32(0), UpperTail32(0.001), UpperTail32(0.7071068), UpperTail32(1), UpperTail32(2.5),
		UpperTail32(6), UpperTail32(13), UpperTail32(15))
	line("6 weight", Weight32(0), Weight32(-87), Weight32(-87.33654), Weight32(-87.33655), Weight32(-104))
	s0, c0 := SinCos(1)
	s1, c1 := SinCos(-4095.75)
	s2, c2 := SinCos(131071)
	line64("7 sin cos", s0, c0, s1, c1, s2, c2)
	line64("7 pow", Pow(10000, -0.125), Pow(500000, -0.984375), Exp64(-1.5), Log64(1e6), Log64(0.1))
	y = numbers(33, 32)
	k.RopeInterleaved(y, x[:16], w[:16])
	line("7 rope interleaved", y[0], y[1], y[30], y[31])
	y = numbers(33, 32)
	k.RopeHalves(y, x[:16], w[:16])
	line("7 rope halves", y[0], y[15], y[16], y[31])

	// The noise of Gumbel-max.
	y = make([]float32, 37)
	k.Gumbel(y, 5, Key(42, 7, 1))
	line("P2 noise", y[0], y[1], y[15], y[16], y[36])
	line("P2 noise at the ends", noiseOf(0), noiseOf(1<<31-1), noiseOf(1<<31), noiseOf(1<<32-1))
	line64("P2 key and uniform", math.Float64frombits(Key(42)), math.Float64frombits(Key(42, 7, 1)), Uniform(Key(42)))
	return out.String()
}

func TestVectors(t *testing.T) {
	const file = "testdata/vectors.txt"
	if *update {
		k := Scalar()
		if err := os.WriteFile(file, []byte(vectorsHeader+vectors(&k)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimPrefix(strings.ReplaceAll(string(text), "\r", ""), vectorsHeader), "\n")
	eachSet(t, func(t *testing.T, k, _ *Kernels) {
		got := strings.Split(vectors(k), "\n")
		if len(got) != len(want) {
			t.Fatalf("%d rules, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("got  %s\nwant %s", got[i], want[i])
			}
		}
	})
}
