package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/tensor"
)

// DraftForm is a Model with its matrices in fewer bits, by which the model drafts for itself. It has the shape of the
// model, its norms, embeddings, routers and adapters, and so the same keys and values: a session that is computed with
// it begins as a fork of the model's ([Session.DraftAt]) and reads no text again. What such a session computes is
// close to what the model computes, and never becomes part of a session of the model: forks share memory that neither
// writes. It does not change and is safe for concurrent use.
type DraftForm struct {
	m       *Model
	instead map[*tensor.Matrix]*tensor.Matrix // of the model's matrices, those that it has otherwise
	bytes   int64
	closed  bool // guarded by the runtime's lock
	costs   passCosts
}

// draftFormType is what the matrices of a draft form become: the fewest bits that encode fast, 4.5 a weight.
const draftFormType = tensor.Q4_0

// leastDraftGain is the most that a draft form's pass may read, as a part of what the model's pass reads, for drafting
// with it to be worth its memory: of models in about 6 bits and fewer it reads more.
const leastDraftGain = 0.72

// DraftFormPlan is what the draft form of a model would take.
type DraftFormPlan struct {
	Bytes int64   // of memory, beside the model's
	Reads float64 // what a pass reads of it, as a part of what the model's reads
}

// Gains reports whether the form reads so much less that drafting with it can gain.
func (p DraftFormPlan) Gains() bool { return p.Bytes > 0 && p.Reads <= leastDraftGain }

// shape is the type and shape of a matrix.
type shape struct {
	t          tensor.Type
	rows, cols int
}

func shapeOf(w *tensor.Matrix) shape { return shape{w.Type(), w.Rows(), w.Cols()} }

// bytes is what the matrix takes packed.
func (s shape) bytes() int64 {
	return int64((s.rows+panelRows-1)/panelRows) * int64(s.t.PanelBytes(s.cols))
}

// drafts is the shape of a matrix of the site in a draft form, and whether it is another one there: of those that are
// multiplied with, where it becomes smaller. A router in fewer bits would choose other experts.
func (at *site) drafts(s shape) (form shape, other bool) {
	to, ok := tensor.Fitting(draftFormType, s.cols)
	form = shape{to, s.rows, s.cols}
	return form, ok && at.products && !at.exact && to.RowBytes(s.cols) < s.t.RowBytes(s.cols)
}

// PlanDraftForm says what the model's draft form would take. It is nothing for models that are read from disk, and for
// draft heads.
func (m *Model) PlanDraftForm() DraftFormPlan { return m.formPlan }

// planDraftForm is PlanDraftForm of a model that has been read, with matrices of these tensors and shapes.
func (m *Model) planDraftForm(matrices iter.Seq2[string, shape]) (p DraftFormPlan) {
	if m.kind.is != KindModel && m.kind.is != KindEncoderDecoder || m.config.Layers == 0 || m.memory.Streams() {
		return p
	}
	var all, reads int64
	for name, s := range matrices {
		at := m.sites[name]
		if at == nil || !at.products || inEncoder(name) {
			continue
		}
		all += s.bytes()
		if form, other := at.drafts(s); other {
			s = form
			p.Bytes += s.bytes()
		}
		reads += s.bytes()
	}
	if all > 0 {
		p.Reads = float64(reads) / float64(all)
	}
	return p
}

// shapes are the tensors and shapes of the matrices.
func (s sites) shapes(yield func(string, shape) bool) {
	for name, at := range s {
		for _, w := range at.matrices {
			if !yield(name, shapeOf(w)) {
				return
			}
		}
	}
}

// inEncoder reports whether a tensor is a part of an encoder-decoder model's encoder, which reads no drafts.
func inEncoder(tensor string) bool { return strings.HasPrefix(tensor, "enc.") }

// shapeSource is that of a model of which nothing is read but the shapes and types of its matrices.
type shapeSource struct {
	packedSource
	noSource
}

func (s *shapeSource) matrix(p panels.Part) (*tensor.Matrix, error) { return s.packedSource.matrix(p) }

func (s *shapeSource) vector(t gguf.Tensor, from tensor.Type) ([]float32, error) {
	return s.noSource.vector(t, from)
}

// DescribeDraftForm is [Model.PlanDraftForm] of the model of a file, by its header. Weights is [Options].Weights.
func DescribeDraftForm(f *gguf.File, weights string) (p DraftFormPlan, err error) {
	l, m, err := newModel(context.Background(), nil, f, Options{Weights: weights})
	if err != nil {
		return p, err
	}
	from := &shapeSource{}
	l.from = from
	if m.read(l); !l.ok() {
		return p, l.err
	}
	return m.planDraftForm(func(yield func(string, shape) bool) {
		for _, p := range from.layout.Parts() {
			if !yield(p.Name, shape{p.To, p.Rows, p.Cols}) {
				return
			}
		}
	}), nil
}

// NewDraftForm makes the draft form of the model, of its matrices in memory. Where that is nothing, or all of it would
// be more than most bytes, it is an error that wraps ErrUnsupported or tensor.ErrMemory; most 0: no bound.
func (m *Model) NewDraftForm(ctx context.Context, most int64) (*DraftForm, error) {
	plan := m.PlanDraftForm()
	switch {
	case m.closed.Load() || m.rt.closed.Load():
		return nil, fmt.Errorf("%s: %w", m.name, ErrClosed)
	case plan.Bytes == 0:
		return nil, fmt.Errorf("%s: %w: a draft form: nothing of it would have fewer bits", m.name, ErrUnsupported)
	case most > 0 && plan.Bytes > most:
		return nil, fmt.Errorf("%s: its draft form takes %s, there is room for %s: %w", m.name, units.Bytes(plan.Bytes),
			units.Bytes(most), tensor.ErrMemory)
	}
	f := &DraftForm{m: m, instead: map[*tensor.Matrix]*tensor.Matrix{}}
	m.rt.t.Lock()
	parts := map[*tensor.Matrix]tensor.Type{}
	for name, at := range m.sites {
		for _, w := range at.matrices {
			if form, other := at.drafts(shapeOf(w)); other && !inEncoder(name) {
				parts[w] = form.t
			}
		}
	}
	m.rt.t.Unlock()
	for w, to := range parts {
		form, err := tensor.Recode(ctx, m.rt.t, w, to)
		if errors.Is(err, tensor.ErrNotFinite) {
			continue // a scale of it would not be finite: the matrix stays as it is
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: its draft form: %w", m.name, err)
		}
		f.instead[w] = form
		f.bytes += form.Bytes()
	}
	return f, nil
}

// Model is the model that it is a form of.
func (f *DraftForm) Model() *Model { return f.m }

// Bytes is the memory that it takes beside the model's.
func (f *DraftForm) Bytes() int64 { return f.bytes }

// Close frees the memory now instead of when the DraftForm is collected. It waits for the runtime's pass in progress;
// later passes with the form fail with ErrClosed.
func (f *DraftForm) Close() {
	if f == nil {
		return
	}
	f.m.rt.t.Lock()
	defer f.m.rt.t.Unlock()
	f.closed = true
	for _, w := range f.instead {
		w.Close()
	}
}

// of is the matrix that takes the place of w.
func (f *DraftForm) of(w *tensor.Matrix) *tensor.Matrix {
	if f != nil {
		if form, ok := f.instead[w]; ok {
			return form
		}
	}
	return w
}

// DraftAt is [Session.ForkAt] for a session that is computed with a draft form of the model from there on. Its forks
// are too. nil is the model itself.
func (s *Session) DraftAt(n int, f *DraftForm) (*Session, error) {
	if err := f.fits(s.m); err != nil {
		return nil, fmt.Errorf("%s: %w", s.m.name, err)
	}
	d, err := s.ForkAt(n)
	if err == nil {
		d.form, d.costs = f, s.m.costsOf(f, d.layers)
	}
	return d, err
}

// fits refuses a form of another model than m.
func (f *DraftForm) fits(m *Model) error {
	if f != nil && f.m != m {
		return fmt.Errorf("%w: a draft form of %s", ErrUsage, f.m.name)
	}
	return nil
}
