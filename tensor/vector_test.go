package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestVectors(t *testing.T) {
	const width, rows = 100, 130 // several units
	a, b, w, bias := normal(1, width*rows), normal(2, width*rows), normal(3, width), normal(4, width)
	n := len(a)
	float64s := func(f func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	mean, square := make([]float64, rows), make([]float64, rows)
	for i, v := range a {
		mean[i/width] += float64(v) / width
		square[i/width] += float64(v) * float64(v) / width
	}
	const eps = 1e-5
	var first map[string][]float32
	for _, threads := range []int{1, 2, 5} {
		rt := runtimeOf(t, threads)
		got := map[string][]float32{}
		run := func(name string, want func(i int) float64, f func(dst []float32) error) {
			dst := slices.Clone(a) // in place
			ok(t, f(dst))
			near(t, name, dst, float64s(want), 3e-6)
			got[name] = dst
		}
		run("Add", func(i int) float64 { return float64(a[i]) + float64(b[i]) },
			func(dst []float32) error { return rt.Add(dst, b) })
		run("SiLUMul", func(i int) float64 { return float64(a[i]) / (1 + math.Exp(-float64(a[i]))) * float64(b[i]) },
			func(dst []float32) error { return rt.SiLUMul(dst, dst, b) })
		run("GELU", func(i int) float64 {
			x := float64(a[i])
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}, func(dst []float32) error { return rt.GELU(dst, dst) })
		run("GELUErf", func(i int) float64 { return float64(a[i]) / 2 * (1 + math.Erf(float64(a[i])/math.Sqrt2)) },
			func(dst []float32) error { return rt.GELUErf(dst, dst) })
		run("RMSNorm", func(i int) float64 { return float64(a[i]) / math.Sqrt(square[i/width]+eps) * float64(w[i%width]) },
			func(dst []float32) error { return rt.RMSNorm(dst, dst, w, eps) })
		run("LayerNorm", func(i int) float64 {
			m := mean[i/width]
			return (float64(a[i])-m)/math.Sqrt(square[i/width]-m*m+eps)*float64(w[i%width]) + float64(bias[i%width])
		}, func(dst []float32) error { return rt.LayerNorm(dst, dst, w, bias, eps) })
		if first == nil {
			first = got
		}
		for name, v := range got {
			sameBits(t, fmt.Sprint(name, " with ", threads, " threads"), v, first[name])
		}
		if threads == 2 {
			dst := slices.Clone(a)
			if n := testing.AllocsPerRun(10, func() {
				_ = errors.Join(
					rt.RMSNorm(dst, a, w, eps), rt.SiLUMul(dst, a, b))
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		}
		for name, err := range map[string]error{
			"Add": rt.Add(a, b[1:]), "SiLUMul": rt.SiLUMul(a, a, b[1:]), "GELU": rt.GELU(a[1:], a),
			"GELUErf": rt.GELUErf(a[1:], a),
			"RMSNorm": rt.RMSNorm(a[:150], a[:150], w, eps), "RMSNorm of nothing": rt.RMSNorm(nil, nil, nil, eps),
			"LayerNorm": rt.LayerNorm(a, a, w, bias[1:], eps),
			"Quantize":  rt.Quantize(make([]int8, 33), make([]float32, 1), a[:33]),
		} {
			if !errors.Is(err, ErrShape) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestSoftmax(t *testing.T) {
	rt := runtimeOf(t, 1)
	x := []float32{1000, 1001, 999, float32(math.Inf(-1)), 1001}
	sum := math.Exp(-1) + 1 + math.Exp(-2) + 1
	near(t, "LogSumExp", []float32{LogSumExp(x)}, []float64{1001 + math.Log(sum)}, 1e-4)
	if i := ArgMax(x); i != 1 {
		t.Errorf("ArgMax is %d", i)
	}
	Softmax(x)
	near(t, "Softmax", x, []float64{math.Exp(-1) / sum, 1 / sum, math.Exp(-2) / sum, 0, 1 / sum}, 1e-7)
	q, d, v := make([]int8, 64), make([]float32, 2), normal(1, 64)
	if n := testing.AllocsPerRun(10, func() { Softmax(x); LogSumExp(v); _ = rt.Quantize(q, d, v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	Softmax(nil)
	if ArgMax(nil) != -1 || !math.IsInf(float64(LogSumExp(nil)), -1) {
		t.Error("of nothing:", ArgMax(nil), LogSumExp(nil))
	}
	all, part := make([]float32, 100), make([]float32, 40)
	Gumbel(all, 0, 7)
	Gumbel(part, 60, 7)
	sameBits(t, "Gumbel from 60", part, all[60:])
	Gumbel(nil, 0, 7)
}

func TestRope(t *testing.T) {
	const dim, headDim, heads, base = 12, 20, 3, 10000
	factors := []float32{1, 1, 2, 4, 4, 8}
	table, err := NewRopeTable(RopeOptions{Dims: dim, Base: base, Factors: factors, Scale: 0.5})
	ok(t, err)
	positions := []int32{0, 1, 255, 256, 1000, 100000}
	for style := range RopeHalves + 1 {
		x := normal(9, len(positions)*heads*headDim)
		want := make([]float64, len(x))
		for i := range want {
			want[i] = float64(x[i])
		}
		for p, pos := range positions {
			for h := range heads {
				for i := range dim / 2 {
					first, second := 2*i, 2*i+1
					if style == RopeHalves {
						first, second = i, i+dim/2
					}
					at := (p*heads + h) * headDim
					sin, cos := math.Sincos(float64(pos) * 0.5 * math.Pow(base, -2*float64(i)/dim) / float64(factors[i]))
					a, b := want[at+first], want[at+second]
					want[at+first], want[at+second] = a*cos-b*sin, a*sin+b*cos
				}
			}
		}
		ok(t, runtimeOf(t, 2).Rope(style, x, heads, headDim, table, positions))
		near(t, fmt.Sprint("style ", style), x, want, 1e-6)
	}
	rt := runtimeOf(t, 1)
	x := make([]float32, 2*headDim)
	if n := testing.AllocsPerRun(10, func() { _ = rt.Rope(RopeHalves, x, 1, headDim, table, positions[:2]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_, e1 := NewRopeTable(RopeOptions{Dims: 3, Base: base})
	_, e2 := NewRopeTable(RopeOptions{Dims: 4, Base: math.NaN()})
	_, e3 := NewRopeTable(RopeOptions{Dims: 4, Base: base, Factors: factors})
	_, e4 := NewRopeTable(RopeOptions{Dims: 4, Base: base, Factors: []float32{0, 1}})
	for name, err := range map[string]error{
		"odd": e1, "NaN": e2, "factors": e3, "factor 0": e4, "style": rt.Rope(2, x, 1, headDim, table, positions[:2]),
		"no table": rt.Rope(0, x, 1, headDim, nil, positions[:2]), "short head": rt.Rope(0, x, 4, 10, table, positions[:1]),
		"short x":  rt.Rope(0, x[1:], 1, headDim, table, positions[:2]),
		"position": rt.Rope(0, x, 2, headDim, table, []int32{-1}),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if cos, sin := table.At(-1); cos != nil || sin != nil || table.Dim() != dim {
		t.Error("position -1")
	}
}

// What is too long for one call of a kernel gets the same bits from several.
func TestExpSumOfManyValues(t *testing.T) {
	for _, n := range []int{1<<17 + 1, 1<<17 + 16, 1 << 18, 1<<18 + 37} {
		for _, odd := range [][]float32{nil, {float32(math.NaN()), float32(math.Inf(-1))}, {float32(math.Inf(1))}} {
			x := normal(1, n)
			copy(x[n/2:], odd)
			y := slices.Clone(x)
			m, sum := ExpSum(x)
			wantM, want := anyKernels().ExpSum(y)
			for i := range x {
				if math.Float32bits(x[i]) != math.Float32bits(y[i]) && (x[i] == x[i] || y[i] == y[i]) {
					t.Fatalf("%d numbers with %v: exp %d is %v instead of %v", n, odd, i, x[i], y[i])
				}
			}
			if m != wantM || sum != want && (sum == sum || want == want) {
				t.Fatalf("%d numbers with %v: %v, %v instead of %v, %v", n, odd, m, sum, wantM, want)
			}
		}
	}
}

// A softmax has no subnormal terms, however many numbers it is over.
func TestExpSumHasNoSubnormalTerms(t *testing.T) {
	for _, n := range []int{3, 200, 1<<17 + 40} {
		x := make([]float32, n)
		for i := range x {
			x[i] = -87.5
		}
		x[n/2], x[n-1] = 2, -85
		m, sum := ExpSum(x)
		want := x[n/2] + x[n-1] // exp(0) and exp(-87)
		if m != 2 || sum != want || x[0] != 0 || x[n-1] < 0x1p-126 {
			t.Errorf("%d numbers: maximum %v, sum %v, terms %g and %g", n, m, sum, x[0], x[n-1])
		}
	}
}
