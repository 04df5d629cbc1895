package tensor

import (
	"fmt"
	"math"
	"testing"

	"github.com/specgo/spec/asm"
)

// TestScans: the recurrences and the convolution are their formulas, one rounding for each operation, with every
// kernel set.
func TestScans(t *testing.T) {
	const tokens = 3
	for _, simd := range asm.Available() {
		rt := runtimeWith(t, Options{Threads: 1, SIMD: simd})
		for _, n := range []int{1, 3, 15, 16, 17, 64, 100} { // numbers of a head
			for _, keys := range []int{1, 5, 32} {
				what := fmt.Sprintf("%s, %d keys, %d values", simd, keys, n)
				stride := 2*keys + n
				x, state := normal(2, tokens*stride), normal(1, keys*n)
				decay, beta := []float32{0.93, 0.5, 0.99}, []float32{0.7, 0.2, 1}
				q, k, v := x, x[keys:], x[2*keys:]

				want, wantOut := append([]float32(nil), state...), make([]float32, tokens*n)
				for i := range tokens {
					for j := range n {
						u := float32(0)
						for d := range keys {
							u = asm.FMA(k[i*stride+d], want[d*n+j], u)
						}
						u = (v[i*stride+j] - float32(u*decay[i])) * beta[i]
						sum := float32(0)
						for d := range keys {
							want[d*n+j] = asm.FMA(want[d*n+j], decay[i], float32(u*k[i*stride+d]))
							sum = asm.FMA(q[i*stride+d], want[d*n+j], sum)
						}
						wantOut[i*n+j] = sum * 0.25
					}
				}
				got, out := panels(state, keys, n), normal(9, tokens*n)
				rt.DeltaScan(got, keys, n, &DeltaTokens{
					Out: out, OutStride: n, Q: q, K: k, V: v, Stride: stride, Decay: decay, Beta: beta, Scale: 0.25, Tokens: tokens})
				sameBits(t, what+", delta, state", got, panels(want, keys, n))
				sameBits(t, what+", delta, out", out, wantOut)

				const skip = -1.3
				copy(want, state)
				for i := range tokens {
					for j := range n {
						u, sum := float32(v[i*stride+j]*beta[i]), float32(0)
						for d := range keys {
							want[d*n+j] = asm.FMA(want[d*n+j], decay[i], float32(u*k[i*stride+d]))
							sum = asm.FMA(q[i*stride+d], want[d*n+j], sum)
						}
						wantOut[i*n+j] = asm.FMA(skip, v[i*stride+j], sum)
					}
				}
				got = panels(state, keys, n)
				rt.Mamba2Scan(got, keys, n, &Mamba2Tokens{
					Out: out, OutStride: n, X: v, B: k, C: q, Stride: stride, Step: beta, Decay: decay, Skip: skip, Tokens: tokens})
				sameBits(t, what+", mamba2, state", got, panels(want, keys, n))
				sameBits(t, what+", mamba2, out", out, wantOut)

				taps := keys // of a convolution of n channels
				w, in := normal(5, taps*n), normal(6, (taps-1+tokens)*n)
				clear(wantOut)
				for i := range wantOut {
					for tap := range taps {
						wantOut[i] = asm.FMA(w[tap*n+i%n], in[tap*n+i], wantOut[i])
					}
				}
				rt.Conv(out, in, w, n)
				sameBits(t, what+", convolution", out, wantOut)
			}
		}
	}
}

// panels is a matrix [keys][n] as scans take it.
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
	for _, simd := range asm.Available() {
		rt := runtimeWith(t, Options{Threads: 1, SIMD: simd})
		x := normal(1, 300) // more than SiLU takes at once
		y, sum := append([]float32(nil), x...), 0.0
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		rt.L2Norm(y, 1e-6)
		z := append([]float32(nil), x...)
		rt.SiLU(z)
		for i, v := range x {
			if want := float64(v) / math.Sqrt(sum); math.Abs(float64(y[i])-want) > 1e-6*math.Abs(want) {
				t.Errorf("%s: %v, expected %v", simd, y[i], want)
			}
			if want := v / (1 + asm.Exp32(-v)); z[i] != want {
				t.Errorf("%s: %v, expected %v", simd, z[i], want)
			}
		}
		small := []float32{3e-4, -4e-4}
		rt.L2Norm(small, 1e-3) // shorter than eps
		if small[0] != float32(3e-4)/1e-3 || small[1] != float32(-4e-4)/1e-3 {
			t.Errorf("%s: %v", simd, small)
		}
	}
}

// TestDecayKey: of a state [keys][values] with a narrow last panel, one key's numbers change, whichever it is.
func TestDecayKey(t *testing.T) {
	const keys, values, panel = 5, 21, 16
	at := func(key, value int) int { // panels [values/16][keys][16]
		first := value / panel * panel
		return first*keys + key*min(panel, values-first) + value - first
	}
	for key := range keys {
		state := make([]float32, keys*values)
		for i := range state {
			state[i] = float32(i + 1)
		}
		DecayKey(state, keys, values, key, 0.5)
		for k := range keys {
			for v := range values {
				want := float32(at(k, v) + 1)
				if k == key {
					want /= 2
				}
				if got := state[at(k, v)]; got != want {
					t.Fatalf("key %d while key %d decays, value %d: %v, expected %v", k, key, v, got, want)
				}
			}
		}
	}
}
