package recurrent

import (
	"math"
	"testing"

	"github.com/specgo/spec/tensor"
)

// A query and a key count by their directions alone, however short they are: of an empty state, a token whose query
// and key are the same gets its value times beta and 1/sqrt(S).
func TestShortKeysCountAsLongOnes(t *testing.T) {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	const size = 16
	ones := func(n int) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = 1
		}
		return all
	}
	delta := NewDeltaNet(HeadSizes{Heads: 1, Groups: 1, State: size, Taps: 1, Inner: size}, false, 1e-6, ones(3*size),
		[]float32{0}, []float32{-1})
	kimi := NewKimiDelta(KimiSizes{1, size, 1}, 1e-6, 0, [3][]float32{ones(size), ones(size), ones(size)}, ones(size),
		[]float32{-1})
	for name, m := range map[string]Recurrence{"delta": delta, "kimi": kimi} {
		for _, length := range []float32{1, 1e-2, 1e-3} {
			x := make([]float32, 3*size)
			for i := range size {
				x[i] = length * float32(1+i%3)
				x[size+i] = x[i]
				x[2*size+i] = float32(i)
			}
			shape := m.shape()
			out := make([]float32, size)
			in := []tokenInput{{x, make([]float32, shape.inputs[1]), make([]float32, shape.inputs[2])}}
			m.scan(rt, 0, make([]float32, shape.state), in, out, &scanScratch{numbers: make([]float32, shape.scratch)})
			for i, y := range out {
				v := float64(i)
				if want := v / (1 + math.Exp(-v)) / 2 / math.Sqrt(size); math.Abs(float64(y)-want) > 1e-4 {
					t.Fatalf("%s, a key of %v: %v at %d, want %v", name, length, y, i, want)
				}
			}
		}
	}
}

// A number of a key decays by exp(A softplus(x + bias)), or with a floor by exp(floor sigmoid(A (x + bias))): what a
// token without a key leaves of a state.
func TestKimiDecays(t *testing.T) {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	const size = 16
	at := func(key int) float64 { return []float64{-40, -3, -0.5, 0, 0.25, 2, 9, 60}[key%8] }
	x, bias, a := make([]float32, size), make([]float32, 2*size), []float32{-0.75, -1.5}
	for i := range x {
		bias[i], bias[size+i] = float32(i%3)-1, float32(i%5)/4
		x[i] = float32(at(i))
	}
	for _, floor := range []float32{0, -5} {
		if floor < 0 {
			a = []float32{0.75, 1.5} // as files have it
		}
		for head := range 2 {
			m := NewKimiDelta(KimiSizes{2, size, 1}, 1e-6, floor, [3][]float32{make([]float32, 2*size),
				make([]float32, 2*size), make([]float32, 2*size)}, bias, a)
			shape := m.shape()
			state := make([]float32, shape.state)
			for i := range state {
				state[i] = float32(1 + i%7)
			}
			in := []tokenInput{{make([]float32, shape.inputs[0]), append(x[:size:size], x...), make([]float32, 2)}}
			m.scan(rt, head, state, in, nil, &scanScratch{numbers: make([]float32, shape.scratch)})
			for key := range size {
				y, aa := at(key)+float64(bias[head*size+key]), float64(a[head])
				want := math.Exp(aa * math.Log1p(math.Exp(y)))
				if floor < 0 {
					want = math.Exp(float64(floor) / (1 + math.Exp(-aa*y)))
				}
				for j := range size {
					i := key*size + j
					if got := float64(state[i]) / float64(1+i%7); !(math.Abs(got-want) <= 1e-6*want+1e-30) {
						t.Fatalf("floor %v, head %d: a state decays by %v, want %v at %v", floor, head, got, want, y)
					}
				}
			}
		}
	}
}
