package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/specgo/spec/tensor"
)

// Importance is what went into a tensor's matrices: what decides which of its columns' errors matter.
type Importance struct {
	Cols   int
	Sums   []float64 // [matrices][Cols] of the squares of the inputs, one matrix after the other, as in the tensor
	Counts []int64   // [matrices] how many inputs those are: the tokens that an expert was chosen for, else all
}

// MeasureImportance evaluates tokens in chunks of window tokens, which do not see each other, as [Perplexity] does (the
// first token of each becomes BOS, if the vocabulary asks for one; the rest is dropped), and returns the importance of
// every tensor blk.….weight that
// the model multiplied with, by its name. Every token of a chunk counts once. It calls
// progress, which may be nil, with the chunks that are done. Adapters and draft heads take no part.
func MeasureImportance(ctx context.Context, m *Model, ids []int32, window int, progress func(chunks int)) (
	map[string]Importance, error) {
	switch {
	case m.kind.is != KindModel:
		return nil, fmt.Errorf("%s: %w: the importance of a %s's weights", m.name, ErrUnsupported, m.kind.is)
	case window < 1 || window > m.config.Context:
		return nil, fmt.Errorf("%w: chunks of %d tokens, the model's context is %d", ErrUsage, window, m.config.Context)
	case len(ids) < window:
		return nil, fmt.Errorf("%w: %d tokens are less than one chunk of %d", ErrUsage, len(ids), window)
	}
	s, err := m.NewSession(SessionOptions{Context: window, KV: "f32"})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	m.rt.t.Lock()
	s.watch = newWatch(m.sites)
	m.rt.t.Unlock()
	chunk := make([]int32, window)
	for n := 1; len(ids) >= window; n, ids = n+1, ids[window:] {
		copy(chunk, ids)
		if t := m.tokenizer; t != nil && t.AddsBOS() {
			chunk[0] = t.BOS()
		}
		if err := s.Truncate(0); err != nil {
			return nil, err
		}
		if _, err := s.Eval(ctx, chunk, nil, None); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(n)
		}
	}
	maps.DeleteFunc(s.watch.tensors, func(_ string, t Importance) bool { return slices.Max(t.Counts) == 0 })
	return s.watch.tensors, nil
}

// watch adds up the squares of what goes into matrices.
type watch struct {
	tensors map[string]Importance
	places  map[*tensor.Matrix]place
	squares []float64 // [cols] of one product's input
}

// place is a matrix's place in its tensor.
type place struct {
	name   string
	number int // of the tensor's matrices
}

// newWatch lists the matrices. Of one whose rows were split, its first part stands for all.
func newWatch(all sites) *watch {
	w := &watch{tensors: map[string]Importance{}, places: map[*tensor.Matrix]place{}}
	for name, s := range all {
		if !strings.HasPrefix(name, "blk.") || !strings.HasSuffix(name, ".weight") || len(s.dims) < 2 {
			continue
		}
		row, rows, n := 0, s.dims[1], s.count()
		for _, m := range s.matrices {
			if row%rows == 0 && m.Cols() == s.dims[0] {
				w.places[m] = place{name, row / rows % n}
			}
			row += m.Rows()
		}
		w.tensors[name] = Importance{s.dims[0], make([]float64, s.dims[0]*n), make([]int64, n)}
	}
	return w
}

// add adds the input x [n][cols] of products.
func (w *watch) add(x []float32, cols int, products []product) {
	var squares []float64
	for _, m := range products {
		at, ok := w.places[m.w]
		if !ok {
			continue
		}
		if squares == nil {
			squares = sized(&w.squares, cols)
			clear(squares)
			for i := 0; i < len(x); i += cols {
				for j, v := range x[i : i+cols] {
					squares[j] += float64(float64(v) * float64(v)) // not fused
				}
			}
		}
		t := w.tensors[at.name]
		sums := t.Sums[at.number*cols:][:cols]
		for j, v := range squares {
			sums[j] += v
		}
		t.Counts[at.number] += int64(len(x) / cols)
	}
}
