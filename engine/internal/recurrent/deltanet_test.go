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
	kimi := NewKimiDelta(1, size, 1, 1e-6, [3][]float32{ones(size), ones(size), ones(size)}, ones(size), []float32{-1})
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
