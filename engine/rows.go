package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/tensor"
)

// rowWork is what a pass does row by row, on all threads: it looks up the embeddings of tokens, and it copies logits
// to their sessions.
type rowWork struct {
	p          *pass
	embedding  *tensor.Matrix
	ids        []int32     // [rows] which rows of it
	x          []float32   // [rows][columns] they
	logits     []float32   // [rows][vocabulary]
	wanted     []wantedRow // whose logits they are
	shared     bool        // they are in the pass's memory, not in their session's
	failed     atomic.Pointer[error]
	bad        []bool      // [rows] of logits that are not finite
	embedOne   func(i int) // embedRow and deliverRow, made once: a pass allocates nothing
	deliverOne func(i int)
}

func (w *rowWork) init(p *pass) {
	w.p = p
	w.embedOne = func(i int) { w.keep(w.embedRow(i)) }
	w.deliverOne = func(i int) { w.keep(w.deliverRow(i)) }
}

func (w *rowWork) keep(err error) {
	if err != nil {
		failure := err // allocated here, not when there is none
		w.failed.Store(&failure)
	}
}

// do calls work for n rows. All errors of the rows say the same.
func (w *rowWork) do(n int, work func(i int)) error {
	w.failed.Store(nil)
	w.p.t.Parallel(n, work)
	w.embedding, w.ids, w.x, w.logits, w.wanted = nil, nil, nil, nil, nil
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// embed copies the embeddings of the round's tokens into x [rows][hidden size].
func (p *pass) embed(x []float32, m *tensor.Matrix) { p.lookup(x, m, p.tokens[:p.rows()]) }

// lookup copies rows of a matrix into x [len(ids)][columns].
func (p *pass) lookup(x []float32, m *tensor.Matrix, ids []int32) {
	if p.err == nil {
		p.work.embedding, p.work.x, p.work.ids = m, x, ids
		p.fail(p.work.do(len(ids), p.work.embedOne))
	}
}

func (w *rowWork) embedRow(i int) error {
	width := w.embedding.Cols()
	return panels.Row(w.embedding, int(w.ids[i]), w.x[i*width:(i+1)*width])
}

// deliver checks the logits [rows][vocabulary] of the rows wanted, and copies them to their sessions if they are
// shared.
func (p *pass) deliver(logits []float32, wanted []wantedRow, shared bool) {
	if p.err == nil {
		p.work.logits, p.work.wanted, p.work.shared = logits, wanted, shared
		bad := sized(&p.work.bad, len(wanted))
		clear(bad)
		p.fail(p.work.do(len(wanted), p.work.deliverOne))
		for i, r := range wanted {
			if bad[i] && p.results[r.segment].Err == nil {
				p.results[r.segment].Err = fmt.Errorf("logits: %w", ErrNotFinite)
			}
		}
	}
}

func (w *rowWork) deliverRow(i int) error {
	r := w.wanted[i]
	vocab := len(w.logits) / len(w.wanted)
	row := w.logits[i*vocab : (i+1)*vocab]
	w.bad[i] = !w.p.masks() && !tensor.Finite(row) // output has looked at those that may be -Inf
	if w.shared {
		copy(r.s.logits[r.index*vocab:], row)
	}
	return nil
}
