package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/internal/testkit"
)

// TestMatMul compares products with a sum in float64 over the very numbers the specification multiplies.
func TestMatMul(t *testing.T) {
	rt := runtimeOf(t, 2)
	for _, f := range asm.Formats() {
		for _, shape := range [][3]int{{1, 1, 1}, {16, 2, 3}, {17, 1, 8}, {5, 3, 9}, {50, 4, 17}} {
			rows, tokens := shape[0], shape[2]
			cols := shape[1] * f.BlockWeights()
			if f.BlockWeights() == 1 {
				cols = shape[1]*32 + shape[0] // ragged
			}
			t.Run(fmt.Sprintf("%v/%dx%dx%d", f, rows, cols, tokens), func(t *testing.T) {
				raw := rawRows(t, f, 1, rows, cols)
				w, err := Pack(rt, f, rows, cols, raw)
				ok(t, err)
				x, bias := normal(2, tokens*cols), normal(3, rows)
				out := make([]float32, tokens*rows)
				var in Input
				ok(t, in.Set(rt, x, tokens, cols))
				ok(t, rt.MatMul(&in, Product{W: w, Scale: 0.75, Bias: bias, Out: out}))

				weights := make([]float32, rows*cols)
				ok(t, Decode(f, weights, raw))
				want, magnitude := make([]float64, len(out)), 1.0
				for tok := range tokens {
					v := x[tok*cols:][:cols]
					if f.Integer() {
						q, d := make([]int8, cols), make([]float32, cols/32)
						ok(t, rt.Quantize(q, d, v))
						v = make([]float32, cols)
						for i := range v {
							v[i] = d[i/32] * float32(q[i])
						}
					}
					for r := range rows {
						sum, abs := 0.0, 0.0
						for c := range cols {
							p := float64(v[c]) * float64(weights[r*cols+c])
							sum += p
							abs += math.Abs(p)
						}
						want[tok*rows+r] = 0.75*sum + float64(bias[r])
						magnitude = max(magnitude, abs)
					}
				}
				near(t, "product", out, want, magnitude*1e-6)
			})
		}
	}
}

// TestMatMulOneAnswer: a token's product does not depend on kernels, threads, other tokens, or other products.
func TestMatMulOneAnswer(t *testing.T) {
	const rows, cols, tokens = 150, 256, 19
	one := runtimeWith(t, Options{Threads: 1, SIMD: "scalar"})
	x := normal(1, tokens*cols)
	for _, f := range asm.Formats() {
		raw := rawRows(t, f, 2, rows, cols)
		packed := func(rt *Runtime) *Matrix {
			w, err := Pack(rt, f, rows, cols, raw)
			ok(t, err)
			return w
		}
		product := func(rt *Runtime, w *Matrix, from, to int, others ...Product) []float32 {
			var in Input
			out := make([]float32, (to-from)*rows)
			ok(t, in.Set(rt, x[from*cols:to*cols], to-from, cols))
			ok(t, rt.MatMul(&in, append(others, Product{W: w, Out: out})...))
			return out
		}
		want := product(one, packed(one), 0, tokens)
		for _, name := range asm.Available() {
			rt := runtimeWith(t, Options{Threads: 2, SIMD: name})
			sameBits(t, fmt.Sprint(f, name), product(rt, packed(rt), 0, tokens), want)
		}
		for _, threads := range []int{1, 2, 5} {
			rt := runtimeOf(t, threads)
			w := packed(rt)
			sameBits(t, fmt.Sprint(f, threads, " threads"), product(rt, w, 0, tokens), want)
			for _, size := range []int{1, 3, 7, 8} {
				var got []float32
				for from := 0; from < tokens; from += size {
					got = append(got, product(rt, w, from, min(from+size, tokens))...)
				}
				sameBits(t, fmt.Sprint(f, " in chunks of ", size), got, want)
			}
			other, err := FromFloats(rt, F16, 33, cols, normal(3, 33*cols))
			ok(t, err)
			got := product(rt, w, 0, 4, Product{W: other, Out: make([]float32, 4*33)})
			sameBits(t, fmt.Sprint(f, " beside another product"), got, want[:4*rows])

			var ins [3]Input // several inputs in one phase, one of them of two products
			outs, products, from := [4][]float32{}, []Product(nil), 0
			for i, n := range []int{1, 11, 7, 7} {
				outs[i] = make([]float32, n*rows)
				if i < len(ins) {
					ok(t, ins[i].Set(rt, x[from*cols:][:n*cols], n, cols))
					from += n
				}
				products = append(products, Product{W: w, Out: outs[i], In: &ins[min(i, 2)]})
			}
			ok(t, rt.MatMul(nil, products...))
			sameBits(t, fmt.Sprint(f, " with inputs of their own"), slices.Concat(outs[:3]...), want)
			sameBits(t, fmt.Sprint(f, " with the input of another product"), outs[3], outs[2])
		}
	}
}

func TestMatMulErrors(t *testing.T) {
	rt := runtimeOf(t, 2)
	w, err := FromFloats(rt, Q8_0, 20, 64, normal(1, 20*64))
	ok(t, err)
	closed, err := FromFloats(rt, F32, 20, 64, normal(1, 20*64))
	ok(t, err)
	closed.Close()
	closed.Close()
	x := normal(2, 3*64)
	out := make([]float32, 3*20)
	var in, none Input
	ok(t, in.Set(rt, x, 3, 64))
	for _, c := range []struct {
		name string
		in   *Input
		p    Product
		want error
	}{
		{"no matrix", &in, Product{Out: out}, ErrShape},
		{"no input", nil, Product{W: w, Out: out}, ErrShape},
		{"empty input", &none, Product{W: w, Out: out}, ErrShape},
		{"short output", &in, Product{W: w, Out: out[1:]}, ErrShape},
		{"short bias", &in, Product{W: w, Bias: x[:19], Out: out}, ErrShape},
		{"closed", &in, Product{W: closed, Out: out}, ErrClosed},
	} {
		if err := rt.MatMul(c.in, c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := closed.Row(0, x[:64]); !errors.Is(err, ErrClosed) {
		t.Errorf("row of a closed matrix: %v", err)
	}
	float, err := FromFloats(rt, F32, 20, 64, normal(1, 20*64))
	ok(t, err)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, m := range []*Matrix{w, float} {
			x := normal(2, 30*64)
			x[64*17+5], x[64*29] = float32(bad), float32(bad)
			ok(t, in.Set(rt, x, 30, 64))
			err := rt.MatMul(&in, Product{W: m, Out: make([]float32, 30*20)})
			if !errors.Is(err, ErrNotFinite) || err.Error()[:23] != "token 17: activation 5 " {
				t.Errorf("%v: %v", bad, err)
			}
		}
	}
	if err := in.Set(rt, x, 3, 63); !errors.Is(err, ErrShape) {
		t.Errorf("Set: %v", err)
	}
	if err := rt.MatMul(&in, Product{W: w, Out: out}); !errors.Is(err, ErrShape) {
		t.Errorf("after a failed Set: %v", err)
	}
}

func TestMatMulAllocatesNothing(t *testing.T) {
	rt := runtimeOf(t, 2)
	w, err := FromFloats(rt, Q8_0, 100, 64, normal(1, 100*64))
	ok(t, err)
	f, err := FromFloats(rt, F16, 60, 64, normal(1, 60*64))
	ok(t, err)
	x, out, out2 := normal(2, 20*64), make([]float32, 20*100), make([]float32, 20*60)
	var in Input
	tokens := 0
	step := func() {
		tokens = tokens%20 + 1
		if err := in.Set(rt, x[:tokens*64], tokens, 64); err != nil {
			t.Error(err)
		}
		if err := rt.MatMul(&in, Product{W: w, Out: out[:tokens*100]}, Product{W: f, Out: out2[:tokens*60]}); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		step() // tiles grow
	}
	if n := testkit.Allocs(40, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatMul(b *testing.B) {
	rt := runtimeOf(b, 0)
	const rows, cols = 2048, 2048
	for _, f := range []Type{Q8_0, Q4_0, F16} {
		w, err := FromFloats(rt, f, rows, cols, normal(1, rows*cols))
		ok(b, err)
		for _, tokens := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%v/%dx%d/%d", f, rows, cols, tokens), func(b *testing.B) {
				x, out := normal(2, tokens*cols), make([]float32, tokens*rows)
				var in Input
				b.SetBytes(w.Bytes())
				for b.Loop() {
					ok(b, in.Set(rt, x, tokens, cols))
					ok(b, rt.MatMul(&in, Product{W: w, Out: out}))
				}
			})
		}
	}
}
