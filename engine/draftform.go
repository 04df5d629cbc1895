package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/tensor"
)

// DraftForm is a Model in another form, for drafts: with its matrices in fewer bits, by which the model drafts for
// itself, or with the output matrix's rows of a draft vocabulary alone, or both. It has the shape of the model, its
// norms, embeddings, routers and adapters, and so the same keys and values: a session that is computed with it begins
// as a fork of the model's ([Session.DraftAt]) and reads no text again. What such a session computes is close to what
// the model computes, and never becomes part of a session of the model: forks share memory that neither writes. It
// does not change and is safe for concurrent use.
type DraftForm struct {
	m       *Model
	instead map[*tensor.Matrix]*tensor.Matrix // of the model's matrices, those that it has otherwise
	outputs map[*tensor.Matrix]*outputRows    // of its output matrices, the rows of tokens
	texts   map[*tensor.Matrix]*textRows      // of its output matrices, the rows of tokens of texts
	tokens  []int32                           // ascending; nil: all
	listed  []uint64                          // a bit for each token that is in tokens
	text    int                               // the most tokens of a text that have logits beside them
	bytes   int64
	closed  bool // guarded by the runtime's lock
	costs   passCosts
}

// DraftFormOptions say what a draft form is.
type DraftFormOptions struct {
	Most int64 // bytes that it may take; 0: no bound

	// Tokens are the draft vocabulary, each once, in any order: the only tokens that have logits, bit for bit those that
	// all of them would have. Those of all others are -Inf. nil: all tokens.
	Tokens []int32

	// Text is how many tokens of a session's own text have logits beside Tokens, bit for bit those that all of them would
	// have: the first ones up to a position that Tokens does not have. 0: none; nor have sessions that look at another's
	// cache, or models whose output matrix is read from disk. It is not used without Tokens.
	Text int

	// SameBits leaves the matrices in their bits: the form has Tokens and no other difference. Its sessions have the
	// keys, values and states of the model's.
	SameBits bool
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
	form = formOf(s)
	return form, at.products && !at.exact && form.t != s.t
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

// DraftVocabBytes is what the rows of a draft vocabulary of n tokens take at most, with the room for those of a text
// ([DraftFormOptions].Text); 0: the model can have none, or has all its tokens then. Draft heads that know some tokens
// alone have one of their own, and encoders no output.
func (m *Model) DraftVocabBytes(n, text int) (bytes int64) {
	seen := map[*tensor.Matrix]bool{}
	for _, o := range m.net.outputs() {
		if !seen[o.w] && n < m.config.Vocab {
			seen[o.w] = true
			bytes += shape{o.w.Type(), n, o.w.Cols()}.bytes()
			if k := m.textSlots(n, text); k > 0 {
				bytes += shape{o.w.Type(), k, o.w.Cols()}.bytes()
			}
		}
	}
	return bytes
}

// textSlots is how many rows of an output matrix there is room for beside those of n tokens.
func (m *Model) textSlots(n, text int) int {
	if h := m.Head(); n == 0 || h != nil && h.SharesCache {
		return 0
	}
	return max(0, min(text, m.config.Vocab-n))
}

// DraftFormBytes is what a draft form of the model in fewer bits takes at most: with the rows of a draft vocabulary of
// n tokens, and the room for those of a text, as DraftVocabBytes counts them, instead of its output matrices. n 0: all
// tokens. It is 0 where [Model.PlanDraftForm] is nothing.
func (m *Model) DraftFormBytes(n, text int) int64 {
	bytes := m.formPlan.Bytes
	if bytes == 0 || m.DraftVocabBytes(n, 0) == 0 {
		return bytes
	}
	outputs := map[*tensor.Matrix]bool{}
	for _, o := range m.net.outputs() {
		outputs[o.w] = true
	}
	for w := range outputs { // the rows are in the type of the form, or stay in that of the model
		rows := formOf(shapeOf(w))
		for _, k := range []int{n, m.textSlots(n, text)} {
			rows.rows = k
			bytes += rows.bytes()
		}
	}
	for _, at := range m.sites {
		for _, w := range at.matrices {
			if form, other := at.drafts(shapeOf(w)); other && outputs[w] {
				bytes -= form.bytes()
			}
		}
	}
	return bytes
}

// formOf is a shape in the type of draft forms, where that is smaller.
func formOf(s shape) shape {
	if to, ok := tensor.Fitting(draftFormType, s.cols); ok && to.RowBytes(s.cols) < s.t.RowBytes(s.cols) {
		s.t = to
	}
	return s
}

// NewDraftForm makes a draft form of the model. Fewer bits are of models in memory. Where nothing of it would be
// another, or all of it would be more than the most bytes, it is an error that wraps ErrUnsupported or
// tensor.ErrMemory.
func (m *Model) NewDraftForm(ctx context.Context, o DraftFormOptions) (*DraftForm, error) {
	m.forms.RLock()
	defer m.forms.RUnlock()
	if m.closed.Load() || m.rt.closed.Load() {
		return nil, fmt.Errorf("%s: %w", m.name, ErrClosed)
	}
	f := &DraftForm{m: m, instead: map[*tensor.Matrix]*tensor.Matrix{}, outputs: map[*tensor.Matrix]*outputRows{},
		texts: map[*tensor.Matrix]*textRows{}}
	if err := f.list(o.Tokens); err != nil {
		return nil, fmt.Errorf("%s: its draft vocabulary: %w", m.name, err)
	}
	need := int64(0)
	if f.tokens != nil {
		need = m.DraftVocabBytes(len(f.tokens), o.Text)
	}
	if !o.SameBits {
		if need = m.DraftFormBytes(len(f.tokens), o.Text); need == 0 {
			return nil, fmt.Errorf("%s: %w: a draft form: nothing of it would have fewer bits", m.name, ErrUnsupported)
		}
	}
	switch {
	case o.SameBits && f.tokens == nil:
		return nil, fmt.Errorf("%s: %w: a draft form with the model's bits and all its tokens", m.name, ErrUsage)
	case o.Most > 0 && need > o.Most:
		return nil, fmt.Errorf("%s: its draft form takes %s, there is room for %s: %w", m.name, units.Bytes(need),
			units.Bytes(o.Most), tensor.ErrMemory)
	}
	err := f.gather(ctx, o)
	if err == nil && !o.SameBits {
		err = f.recode(ctx)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: its draft form: %w", m.name, err)
	}
	return f, nil
}

// NewDraftVocab is a form of a draft model, or draft head, with the tokens of a draft vocabulary of its target, and up
// to text tokens of a text itself ([DraftFormOptions].Text), and no other difference. Tokens that it does not have are
// left out. It is nil where none are left, or all, and for draft heads that have a list of their own.
func (m *Model) NewDraftVocab(ctx context.Context, tokens []int32, text int) (*DraftForm, error) {
	vocab := m.config.Vocab
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(id int32) bool { return int(id) >= vocab })
	if n := len(tokens); n == 0 || m.DraftVocabBytes(n, 0) == 0 {
		return nil, nil
	}
	return m.NewDraftForm(ctx, DraftFormOptions{Tokens: tokens, Text: text, SameBits: true})
}

// list makes tokens the form's; nil and a list of all are none.
func (f *DraftForm) list(tokens []int32) error {
	if tokens == nil {
		return nil
	}
	if f.m.net.outputs() == nil {
		return fmt.Errorf("%w: the model has no output matrix of all tokens", ErrUnsupported)
	}
	list := slices.Sorted(slices.Values(tokens))
	for i, id := range list {
		if id < 0 || int(id) >= f.m.config.Vocab || i > 0 && list[i-1] == id {
			return fmt.Errorf("%w: token %d, of %d, or it is there twice", ErrVocabulary, id, f.m.config.Vocab)
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("%w: no tokens", ErrVocabulary)
	}
	if len(list) < f.m.config.Vocab {
		f.tokens, f.listed = list, make([]uint64, (f.m.config.Vocab+63)/64)
		for _, id := range list {
			f.listed[id/64] |= 1 << (id % 64)
		}
	}
	return nil
}

// gather takes the rows of the form's tokens out of the output matrices.
func (f *DraftForm) gather(ctx context.Context, how DraftFormOptions) error {
	if f.tokens == nil {
		return nil
	}
	for _, o := range f.m.net.outputs() {
		if f.outputs[o.w] != nil {
			continue
		}
		w, err := f.rowsFrom(ctx, o.w)
		if err != nil {
			return err
		}
		rows := &outputRows{w: w, ids: f.tokens}
		f.outputs[o.w] = rows
		if to := formOf(shapeOf(w)).t; !how.SameBits && to != w.Type() {
			form, err := tensor.Recode(ctx, f.m.rt.t, w, to)
			if err == nil {
				rows.w = form
				w.Close()
			} else if !errors.Is(err, tensor.ErrNotFinite) {
				return err
			}
		}
		for _, id := range f.tokens {
			if o.b != nil {
				rows.b = append(rows.b, o.b[id])
			}
		}
		f.bytes += rows.w.Bytes()
		if k := f.m.textSlots(len(f.tokens), how.Text); k > 0 && !panels.OnDisk(o.w) {
			t, err := f.newTextRows(ctx, o, k, rows.w.Type())
			if err != nil {
				return err
			}
			f.texts[o.w], f.text = t, k
			f.bytes += t.w.Bytes()
		}
	}
	return nil
}

// rowsFrom takes the rows of the form's tokens out of a matrix. One that is on disk is read between passes.
func (f *DraftForm) rowsFrom(ctx context.Context, w *tensor.Matrix) (*tensor.Matrix, error) {
	if panels.OnDisk(w) {
		f.m.rt.t.Lock()
		defer f.m.rt.t.Unlock()
	}
	return panels.Gather(ctx, f.m.rt.t, w, f.tokens)
}

// recode makes the matrices in fewer bits, but for those that it has rows of. One of which a scale would not be finite
// stays as it is.
func (f *DraftForm) recode(ctx context.Context) error {
	m := f.m
	m.rt.t.Lock()
	parts := map[*tensor.Matrix]tensor.Type{}
	for name, at := range m.sites {
		for _, w := range at.matrices {
			if form, other := at.drafts(shapeOf(w)); other && !inEncoder(name) && f.outputs[w] == nil {
				parts[w] = form.t
			}
		}
	}
	m.rt.t.Unlock()
	for w, to := range parts {
		if m.closed.Load() {
			return ErrClosed
		}
		form, err := tensor.Recode(ctx, m.rt.t, w, to)
		if errors.Is(err, tensor.ErrNotFinite) {
			continue
		}
		if err != nil {
			return err
		}
		f.instead[w] = form
		f.bytes += form.Bytes()
	}
	return nil
}

// Tokens is the draft vocabulary, ascending; nil: all tokens.
func (f *DraftForm) Tokens() []int32 {
	if f == nil {
		return nil
	}
	return f.tokens
}

// SameBits reports whether sessions of the form have the keys, values and states of the model's.
func (f *DraftForm) SameBits() bool { return f == nil || len(f.instead) == 0 }

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
	for _, rows := range f.outputs {
		rows.w.Close()
	}
	for _, t := range f.texts {
		t.close()
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

// rowsOf is the rows that take part of an output matrix; nil: all.
func (f *DraftForm) rowsOf(w *tensor.Matrix) *outputRows {
	if f == nil {
		return nil
	}
	return f.outputs[w]
}

// DraftAt is [Session.ForkAt] for a session that is computed with a draft form of the model from there on. Its forks
// are too. nil is the model itself. old is nil, or an earlier DraftAt of s, which is closed: the new one takes over
// its memory and copies only what s has computed since.
func (s *Session) DraftAt(n int, f *DraftForm, old *Session) (*Session, error) {
	if err := f.fits(s.m); err != nil {
		old.Close()
		return nil, fmt.Errorf("%s: %w", s.m.name, err)
	}
	if f != nil && f.text > 0 { // of which the fork gets its part; the next draft has no more to read than what is new
		s.text.follow(f, s.tokens)
	}
	return s.fork(n, s.layers, f, old, false)
}

// fits refuses a form of another model than m.
func (f *DraftForm) fits(m *Model) error {
	switch {
	case f == nil || f.m == m:
		return nil
	case f.m == nil:
		return fmt.Errorf("%w: a draft form that NewDraftForm has not made", ErrUsage)
	}
	return fmt.Errorf("%w: a draft form of %s", ErrUsage, f.m.name)
}
