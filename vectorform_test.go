package spec

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// A norm brings a vector to its length, and leaves zeros.
func TestNorms(t *testing.T) {
	for n, want := range map[int][]float32{-1: {3, -4}, 0: {24570, -32760}, 1: {3. / 7, -4. / 7}, 2: {0.6, -0.8}} {
		norm, err := ParseNorm(n)
		if err != nil {
			t.Fatal(err)
		}
		x, zeros := []float32{3, -4}, []float32{0, 0}
		if norm.apply(x); !slices.Equal(x, want) {
			t.Errorf("%d: %v, expected %v", n, x, want)
		}
		if norm.apply(zeros); !slices.Equal(zeros, []float32{0, 0}) {
			t.Errorf("%d: zeros become %v", n, zeros)
		}
	}
	for _, n := range []int{-2, 3} {
		if _, err := ParseNorm(n); !errors.Is(err, ErrOptions) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// Vectors that are not normalized are the mean of the states, or the last one; more numbers than there are, and unknown
// norms, are refused.
func TestVectorsAsPooled(t *testing.T) {
	m := newModel(t, Options{})
	vector := func(o EmbedOptions, ids ...int32) []float32 {
		v, err := m.EmbedIDs(t.Context(), [][]int32{ids}, o)
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	last := EmbedOptions{Norm: NormNone, Pooling: PoolLast}
	x, y := vector(last, 50), vector(last, 50, 60)
	for i, v := range vector(EmbedOptions{Norm: NormNone, Dimensions: 9}, 50, 60) {
		if want := (float64(x[i]) + float64(y[i])) / 2; math.Abs(float64(v)-want) > 1e-6 || i > 8 {
			t.Errorf("number %d is %v, expected %v", i, v, want)
		}
	}
	for _, o := range []EmbedOptions{{Dimensions: m.VectorSize() + 1}, {Dimensions: -1}, {Norm: NormMax + 1},
		{Pooling: PoolCLS}, {Pooling: "most"}, {Pooling: PoolNone, Dimensions: 5}} {
		if _, err := m.EmbedIDs(t.Context(), [][]int32{{50}}, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
