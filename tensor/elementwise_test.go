package tensor

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// TestElementwise: every operation against its formula in float64, at lengths that cut into rows in all ways.
func TestElementwise(t *testing.T) {
	rt := runtimeOf(t, 2)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	clamp := func(x, limit float64) float64 { return math.Min(math.Max(x, -limit), limit) }
	for _, n := range []int{1, 7, 48, 1024, 3 * 4096, 12300} {
		w := normal(3, 3)
		for name, c := range map[string]struct {
			do   func(x, y []float32) error
			want func(x, y float64, i int) float64
		}{
			"scale": {func(x, _ []float32) error { return rt.Scale(x, 1.7) },
				func(x, _ float64, _ int) float64 { return 1.7 * x }},
			"clamp": {func(x, _ []float32) error { return rt.Clamp(x, 0.5) },
				func(x, _ float64, _ int) float64 { return clamp(x, 0.5) }},
			"cap": {func(x, _ []float32) error { return rt.SoftCap(x, 0.7) },
				func(x, _ float64, _ int) float64 { return 0.7 * math.Tanh(x/0.7) }},
			"mul": {rt.Mul, func(x, y float64, _ int) float64 { return x * y }},
			"relu²": {func(x, _ []float32) error { return rt.ReLUSquared(x) },
				func(x, _ float64, _ int) float64 { return math.Max(x, 0) * math.Max(x, 0) }},
			"relu": {func(x, _ []float32) error { return rt.ReLU(x) },
				func(x, _ float64, _ int) float64 { return math.Max(x, 0) }},
			"swiglu": {func(x, y []float32) error { return rt.ClampedSwiGLU(x, y, 1.702, 0.8) },
				func(x, y float64, _ int) float64 {
					x = math.Min(x, 0.8)
					return x * sigmoid(1.702*x) * (clamp(y, 0.8) + 1)
				}},
			"rows": {func(x, _ []float32) error { return rt.MulRows(x, w) },
				func(x, _ float64, i int) float64 { return x * float64(w[i/n]) }},
			"weights": {func(x, _ []float32) error { return rt.MulWeights(x, w) },
				func(x, _ float64, i int) float64 { return x * float64(w[i%3]) }},
		} {
			x, y := normal(1, 3*n), normal(2, 3*n)
			var want []float64
			for i := range x {
				want = append(want, c.want(float64(x[i]), float64(y[i]), i))
			}
			ok(t, c.do(x, y))
			near(t, fmt.Sprint(name, " of ", 3*n), x, want, 1e-6)
		}
	}
	x := make([]float32, 6)
	for name, err := range map[string]error{
		"mul": rt.Mul(x, x[1:]), "rows": rt.MulRows(x, x[:4]), "no rows": rt.MulRows(x, nil),
		"weights": rt.MulWeights(x, x[:4]), "swiglu": rt.ClampedSwiGLU(x, x[1:], 1, 1),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _ = rt.Scale(x, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestALiBiSlopes: the paper's, for a power of two, and those between for another number of heads.
func TestALiBiSlopes(t *testing.T) {
	near(t, "8 heads", ALiBiSlopes(8, 8), []float64{
		1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256}, 1e-7)
	near(t, "6 heads", ALiBiSlopes(6, 8), []float64{1. / 4, 1. / 16, 1. / 64, 1. / 256, 1. / 2, 1. / 8}, 1e-7)
}
