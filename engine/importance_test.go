package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
)

// TestImportance: the sums of the squares of what goes into every matrix, and how many inputs those are, against the
// float64 reference, which computes the same chunks by itself: of matrices, of those that one tensor holds together,
// and of experts.
func TestImportance(t *testing.T) {
	const window, chunks = 12, 2
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"llama", "gpt2", "qwen3moe", "granitemoe"} {
		file := randommodel.Recipes()[name].File(t)
		m, err := openBytes(t, rt, file, name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids := randomTokens(window*chunks+3, m.config.Vocab, 5)
		done := 0
		got, err := MeasureImportance(context.Background(), m, ids, window, func(n int) { done = n })
		if err != nil || done != chunks {
			t.Fatalf("%s: %v after %d chunks", name, err, done)
		}
		want := map[string]*Importance{}
		r := newReference(t, file)
		r.given = func(tensor string, matrix int, x []float64) {
			if !strings.HasPrefix(tensor, "blk.") {
				return
			}
			w := want[tensor]
			if w == nil {
				n := 1
				if at, _ := r.f.Tensor(tensor); len(at.Dims) == 3 {
					n = int(at.Dims[2])
				}
				w = &Importance{len(x), make([]float64, n*len(x)), make([]int64, n)}
				want[tensor] = w
			}
			w.Counts[matrix]++
			for j, v := range x {
				w.Sums[matrix*len(x)+j] += v * v
			}
		}
		for i := range chunks {
			r.logits(ids[i*window : (i+1)*window])
		}
		for tensor, w := range want {
			g := got[tensor]
			if !slices.Equal(g.Counts, w.Counts) || g.Cols != w.Cols {
				t.Errorf("%s: %s: %d inputs of %d numbers, expected %d of %d", name, tensor, g.Counts, g.Cols, w.Counts, w.Cols)
				continue
			}
			for j, v := range w.Sums {
				if math.Abs(g.Sums[j]-v) > 1e-3*v+1e-6 {
					t.Errorf("%s: %s: sum %d is %v, expected %v", name, tensor, j, g.Sums[j], v)
					break
				}
			}
		}
		if len(got) != len(want) || len(want) == 0 {
			t.Errorf("%s: %d tensors, expected %d", name, len(got), len(want))
		}
	}
}

func TestImportanceIsRefused(t *testing.T) {
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), randommodel.GPT2(), Options{})
	ids := randomTokens(20, m.config.Vocab, 3)
	for _, window := range []int{-1, 0, 21, m.config.Context + 1} {
		if _, err := MeasureImportance(context.Background(), m, ids, window, nil); !errors.Is(err, ErrUsage) {
			t.Errorf("chunks of %d: %v", window, err)
		}
	}
}

// TestImportanceEnds: what is computed after a measurement does not count in what it has returned.
func TestImportanceEnds(t *testing.T) {
	ctx := context.Background()
	m := openRecipe(t, newRuntime(t, RuntimeOptions{Threads: 1}), "llama")
	ids := randomTokens(12, m.config.Vocab, 5)
	got, err := MeasureImportance(ctx, m, ids, len(ids), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(ctx, [][]int32{ids}, EmbedOptions{Pooling: PoolMean}); err != nil {
		t.Fatal(err)
	}
	for name, x := range got {
		if !slices.Equal(x.Counts, []int64{int64(len(ids))}) {
			t.Errorf("%s: %d inputs of %d tokens", name, x.Counts, len(ids))
		}
	}
}
