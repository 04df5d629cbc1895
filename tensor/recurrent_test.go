package tensor

import (
	"fmt"
	"math"
	"testing"

	"github.com/specgo/spec/asm"
)

// TestRecurrentSteps: the steps of recurrent layers are their formulas, one rounding for each operation, with every kernel set; without an
// output the state is the same.
func TestRecurrentSteps(t *testing.T) {
	for _, simd := range asm.Available() {
		rt := runtimeWith(t, Options{Threads: 1, SIMD: simd})
		for _, n := range []int{1, 3, 15, 16, 17, 64, 100} { // numbers of a head
			for _, keys := range []int{1, 5, 32} {
				what := fmt.Sprintf("%s, %d keys, %d values", simd, keys, n)
				state := normal(1, keys*n)
				q, k, v, u := normal(2, keys), normal(3, keys), normal(4, n), new(StepScratch)
				decay, beta := float32(0.93), float32(0.7)

				want, out := make([]float32, keys*n), make([]float32, n)
				for j := range n {
					sum := float32(0)
					for i := range keys {
						sum = asm.FMA(k[i], state[i*n+j], sum)
					}
					d := (v[j] - float32(sum*decay)) * beta
					for i := range keys {
						want[i*n+j] = asm.FMA(state[i*n+j], decay, float32(d*k[i]))
						out[j] = asm.FMA(q[i], want[i*n+j], out[j])
					}
				}
				got, gotOut := panels(state, keys, n), normal(9, n)
				rt.DeltaStep(gotOut, got, q, k, v, decay, beta, u)
				sameBits(t, what+", delta, state", got, panels(want, keys, n))
				sameBits(t, what+", delta, out", gotOut, out)
				copy(got, panels(state, keys, n))
				rt.DeltaStep(nil, got, q, k, v, decay, beta, u)
				sameBits(t, what+", delta without an output", got, panels(want, keys, n))

				dt, skip := float32(0.4), float32(-1.3)
				for j := range n {
					sum := float32(0)
					for i := range keys {
						want[i*n+j] = asm.FMA(state[i*n+j], decay, float32(float32(v[j]*dt)*k[i]))
						sum = asm.FMA(q[i], want[i*n+j], sum)
					}
					out[j] = asm.FMA(skip, v[j], sum)
				}
				copy(got, panels(state, keys, n))
				rt.Mamba2Step(gotOut, got, v, k, q, dt, decay, skip, u)
				sameBits(t, what+", mamba2, state", got, panels(want, keys, n))
				sameBits(t, what+", mamba2, out", gotOut, out)
				copy(got, panels(state, keys, n))
				rt.Mamba2Step(nil, got, v, k, q, dt, decay, skip, u)
				sameBits(t, what+", mamba2 without an output", got, panels(want, keys, n))

				// A convolution of keys+1 taps.
				w, x := normal(5, (keys+1)*n), normal(6, n)
				for c := range n {
					out[c] = 0
					for tap := range keys {
						out[c] = asm.FMA(w[tap*n+c], state[tap*n+c], out[c])
					}
					out[c] = asm.FMA(w[keys*n+c], x[c], out[c])
				}
				copy(got, state)
				rt.ConvStep(gotOut, got, x, w)
				sameBits(t, what+", convolution", gotOut, out)
				sameBits(t, what+", convolution, history", got, append(append([]float32(nil), state[n:]...), x...))
				copy(got, state)
				rt.ConvStep(nil, got, x, w)
				sameBits(t, what+", convolution without an output", got, append(append([]float32(nil), state[n:]...), x...))
			}
		}
	}
}

// panels is a matrix [keys][n] as steps take it.
func panels(x []float32, keys, n int) (out []float32) {
	for j := 0; j < n; j += asm.PanelRows {
		for i := range keys {
			out = append(out, x[i*n+j:i*n+min(n, j+asm.PanelRows)]...)
		}
	}
	return out
}

// TestSoftplus: within 4 units in the last place of ln(1+exp(x)), also where exp(x) is small beside 1.
func TestSoftplus(t *testing.T) {
	worst := 0.0
	for x := -80.0; x < 40; x += 0.0137 {
		v := float32(x)
		want := math.Log1p(math.Exp(float64(v)))
		if v > 20 {
			want = float64(v)
		}
		ulp := math.Abs(float64(math.Nextafter32(float32(want), 200)) - float64(float32(want)))
		worst = max(worst, math.Abs(float64(Softplus(v))-want)/ulp)
	}
	t.Logf("off by %.2f units in the last place at most", worst)
	if !(worst < 4) {
		t.Errorf("off by %.2f units in the last place", worst)
	}
	for _, c := range [][2]float32{{-200, 0}, {20.5, 20.5}, {0, math.Ln2}} {
		if got := Softplus(c[0]); got != c[1] {
			t.Errorf("softplus(%v) is %v, expected %v", c[0], got, c[1])
		}
	}
}

func TestL2NormAndSiLU(t *testing.T) {
	x := normal(1, 37)
	y, sum := append([]float32(nil), x...), 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	L2Norm(y, 1e-6)
	z := append([]float32(nil), x...)
	SiLU(z)
	for i, v := range x {
		if want := float64(v) / math.Sqrt(sum); math.Abs(float64(y[i])-want) > 1e-6*math.Abs(want) {
			t.Errorf("%v, expected %v", y[i], want)
		}
		if want := float64(v) / (1 + math.Exp(-float64(v))); math.Abs(float64(z[i])-want) > 1e-6*math.Abs(want) {
			t.Errorf("%v, expected %v", z[i], want)
		}
	}
	small := []float32{3e-4, -4e-4}
	L2Norm(small, 1e-3) // shorter than eps
	if small[0] != float32(3e-4)/1e-3 || small[1] != float32(-4e-4)/1e-3 {
		t.Errorf("%v", small)
	}
}

// BenchmarkRecurrentSteps: a head of Qwen 3.5 0.8B (128 keys and values), and one of Granite 4 H 1B (state 128, 64 numbers).
func BenchmarkRecurrentSteps(b *testing.B) {
	for _, simd := range asm.Available() {
		rt, err := NewRuntime(Options{Threads: 1, SIMD: simd})
		if err != nil {
			b.Fatal(err)
		}
		defer rt.Close()
		state, q, k, v, u, out := normal(1, 128*128), normal(2, 128), normal(3, 128), normal(4, 128), new(StepScratch), make([]float32, 128)
		L2Norm(k, 1e-6)
		b.Run("delta/"+simd, func(b *testing.B) {
			for range b.N {
				rt.DeltaStep(out, state, q, k, v, 0.9, 0.5, u)
			}
		})
		b.Run("mamba2/"+simd, func(b *testing.B) {
			for range b.N {
				rt.Mamba2Step(out[:64], state[:128*64], v[:64], k, q, 0.1, 0.9, 1, u)
			}
		})
	}
}
