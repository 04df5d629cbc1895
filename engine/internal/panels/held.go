package panels

import (
	"context"

	"github.com/specgo/spec/tensor"
)

// onDisk is the owner of a matrix that is not in memory at present; nil for the others.
func onDisk(w *tensor.Matrix) *weight {
	x, _ := w.Owner().(*weight)
	if x == nil || x.bound {
		return nil
	}
	return x
}

// OnDisk reports whether a matrix is in memory only while it is held.
func OnDisk(w *tensor.Matrix) bool { return onDisk(w) != nil }

// Row writes row i of a matrix, dequantized, into dst. Several goroutines may call it.
func Row(w *tensor.Matrix, i int, dst []float32) error {
	if x := onDisk(w); x != nil {
		return x.store.row(x, i, dst)
	}
	return w.Row(i, dst)
}

// Gather makes a matrix of rows of another one, the same bytes. Of one that is on disk, no pass may be running.
func Gather(ctx context.Context, rt *tensor.Runtime, w *tensor.Matrix, rows []int32) (*tensor.Matrix, error) {
	var h Held
	h.Want(w)
	if _, err := h.Fetch(ctx); err != nil {
		return nil, err
	}
	defer h.Release()
	return tensor.Gather(ctx, rt, w, rows)
}

// Held is the matrices that a pass holds in memory for a product. The zero value holds none, and is used again and
// again. Matrices that are in memory for good need not be held, and do no harm.
type Held struct {
	group    []*weight
	expected []*expert
}

// Want adds a matrix to those that [Held.Fetch] brings.
func (h *Held) Want(w *tensor.Matrix) {
	if x := onDisk(w); x != nil {
		h.group = append(h.group, x)
	}
}

// Fetch brings the wanted matrices into memory, where they stay until Release. It reports whether they must come
// apart, because they do not fit there at once, or are not read together: then none is held. A single one always
// fits.
func (h *Held) Fetch(ctx context.Context) (apart bool, err error) {
	group := h.group
	if len(group) == 0 {
		return false, nil
	}
	s, expert := group[0].store, group[0].expert
	for _, x := range group {
		apart = apart || x.store != s || x.expert != expert
	}
	if apart = apart || expert == nil && !s.fits(group); apart && len(group) > 1 {
		h.group = group[:0]
		return true, nil
	}
	if expert != nil {
		err = s.acquireExpert(ctx, expert, group)
	} else {
		err = s.acquire(ctx, group)
	}
	if err != nil {
		h.group = group[:0]
	}
	return false, err
}

// Release gives back what is held.
func (h *Held) Release() {
	if len(h.group) == 0 {
		return
	}
	s := h.group[0].store
	if h.group[0].expert != nil {
		s.releaseExpert(h.group)
	} else {
		s.release(h.group)
	}
	clear(h.group)
	h.group = h.group[:0]
}

// Expect notes that the expert of a matrix is used next, after those that were noted before.
func (h *Held) Expect(w *tensor.Matrix) {
	if x := onDisk(w); x != nil && x.expert != nil {
		h.expected = append(h.expected, x.expert)
	}
}

// ReadAhead begins to read the experts that were noted, which are of one Store, as far as there is room.
func (h *Held) ReadAhead() {
	if len(h.expected) > 0 {
		h.expected[0].parts[0].store.expect(h.expected)
		h.expected = h.expected[:0]
	}
}
