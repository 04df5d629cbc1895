package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/internal/vocabulary"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Open loads a GGUF file. Its weights are in memory when Open returns; the file is closed. The error names the file
// and the key or tensor; it wraps ErrArchitecture, ErrUnsupported, ErrValue, ErrMissing, ErrShape, ErrWeightType,
// ErrDamaged, an error of package gguf, or ctx's.
func Open(ctx context.Context, rt *Runtime, path string, o Options) (*Model, error) {
	f, err := gguf.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return load(ctx, rt, f, o)
}

// New loads the GGUF file in the first size bytes of r, which is not used after New returns.
func New(ctx context.Context, rt *Runtime, r io.ReaderAt, size int64, o Options) (*Model, error) {
	f, err := gguf.Open(r, size, o.Name)
	if err != nil {
		return nil, err
	}
	return load(ctx, rt, f, o)
}

func load(ctx context.Context, rt *Runtime, f *gguf.File, o Options) (*Model, error) {
	if rt == nil {
		return nil, fmt.Errorf("%s: %w: no runtime", f.Name, ErrUsage)
	}
	l, m, err := newModel(ctx, rt, f, o)
	if err != nil {
		return nil, err
	}
	if o.Fingerprint != nil {
		if m.fingerprint, err = o.Fingerprint(ctx, f); err == nil {
			m.fingerprint.Model = o.identified(m.fingerprint.Model)
		}
		if err != nil {
			return nil, err
		}
	}
	packed, err := openPacked(l, m, o)
	if err != nil {
		return nil, err
	}
	if packed != nil {
		m = packed
	} else {
		m.read(l)
		m.memory = MemoryPlan{Limit: o.Memory, Weights: m.bytes, Resident: m.bytes, Rows: passRows}
	}
	if !l.ok() {
		m.Close()
		return nil, l.err
	}
	m.formPlan, m.dense = m.planDraftForm(m.sites.shapes), m.readsDense()
	l.progress.finish()
	return m, nil
}

// newModel is a model of which nothing but the tokenizer has been read, and what reads the rest. Without a Runtime it
// reads no weights.
func newModel(ctx context.Context, rt *Runtime, f *gguf.File, o Options) (*loader, *Model, error) {
	f, err := o.Overridden(f)
	if err != nil {
		return nil, nil, err
	}
	kind, err := kindOf(f, o)
	if err != nil {
		return nil, nil, err
	}
	tokenizer, err := ReadTokenizer(f)
	if err != nil {
		return nil, nil, err
	}
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, nil, err
	}
	l, err := newLoader(ctx, rt, f, o, arch)
	if err != nil {
		return nil, nil, err
	}
	m := &Model{
		rt: rt, name: f.Name, kind: kind, target: o.Target, tokenizer: tokenizer, origin: origin{weights: o.Weights},
		metadata: map[string]gguf.Value{}, start: -1,
	}
	for _, kv := range f.KVs {
		if t, _, _, ok := gguf.TypeOf(kv.Value); ok && t != gguf.ValueArray {
			m.metadata[kv.Key] = kv.Value
		}
	}
	return l, m, nil
}

// read reads the model's hyperparameters and tensors. The loader has the error.
func (m *Model) read(l *loader) {
	f, arch := l.f, l.arch
	c := &m.config
	c.Architecture, c.Name = arch, f.Name
	if f.Has("general.name") {
		var err error
		c.Name, err = f.String("general.name")
		l.keep(err)
	}
	c.Context = l.integer("context_length")
	c.Layers = m.kind.layers(l, c)
	m.more = l.blocksHeld("") > l.layers
	c.HiddenSize = l.integer("embedding_length")
	c.StateSize = c.HiddenSize
	l.heads(c, &m.kind)
	if !l.boolOr("attention.causal", true) && m.kind.is != KindEncoder {
		l.fail("attention.causal", ErrUnsupported, "attention to later tokens")
	}
	switch {
	case m.tokenizer != nil:
		c.Vocab = m.tokenizer.Size()
	case f.Has(arch + ".vocab_size"):
		c.Vocab = l.integer("vocab_size")
	}
	if l.ok() {
		m.net = m.kind.build(l, m)
		m.head, _ = m.net.(head)
		m.encoder, _ = m.net.(encoder)
		m.vectors = l.vectorParts(m)
		l.unread()
		l.overridden()
	}
	m.caches, m.recurrent = l.caches, l.recurrent
	m.sites, m.bytes, m.parameters, m.weightTypes = l.sites, l.vectors, l.parameters, l.typeNames()
	if l.ok() && m.vectors.whole(m.kind.is) {
		m.vectors.row = m.rowBytes()
	}
	for w := range m.sites.each {
		m.bytes += w.Bytes()
	}
}

// typeNames lists the matrices' types by size.
func (l *loader) typeNames() string {
	size := map[string]int64{}
	for w := range l.sites.each {
		size[w.Type().String()] += w.Bytes()
	}
	names := make([]string, 0, len(size))
	for name := range size {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if size[a] != size[b] {
			return int(min(max(size[b]-size[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names, ", ")
}

// PlanMemory says where a model's weights would be under o.Memory, where it is the limit of all that the model and its
// sessions take; of a draft model (o.Target), its target's sessions too, which are as many. It reads the header and
// vectors of the file.
func PlanMemory(f *gguf.File, o Options, sessions Sessions) (*MemoryPlan, error) {
	l, list, m, err := weightless(f, o)
	if err != nil {
		return nil, err
	}
	if f, err = o.Overridden(f); err != nil {
		return nil, err
	}
	d := m.Describe()
	if o.Target == nil { // with what drafts in the same file
		if d, err = Describe(f); err != nil {
			return nil, err
		}
	}
	own, beside := d, sessions.Bytes(d)+sessions.Beside
	switch {
	case o.Target != nil:
		beside += m.DraftVocabBytes(sessions.DraftVocab, sessions.DraftText) + sessions.DraftPass(d)
	case sessions.Heads && len(d.MTP) > 0:
		beside += sessions.DraftLogits(d) + int64(sessions.Count)*d.MTPStates
		if sessions.DraftVocab > 0 {
			if _, _, heads, err := weightless(f, Options{MTP: true, Target: m}); err == nil {
				beside += heads.DraftVocabBytes(sessions.DraftVocab, sessions.DraftText)
			}
		}
	}
	if o.Target != nil {
		d = o.Target.Describe()
		beside += sessions.Bytes(d)
	}
	beside += sessions.Pass(d)
	if o.Memory > 0 {
		o.Memory = max(o.Memory-beside, 1)
	}
	plan, _, err := list.arrange(m, l.vectors, o.Memory)
	least := plan.Least + beside // with passes of few rows
	more := sessions.longer(own, plan.Rows)
	if sessions.Heads {
		more += int64(sessions.Count) * own.MTPStates / passRows * int64(plan.Rows-passRows)
	}
	if more = min(more, o.Memory-plan.Least); err == nil && more > 0 {
		beside, o.Memory = beside+more, o.Memory-more
		plan, _, err = list.arrange(m, l.vectors, o.Memory)
	}
	if plan.Limit > 0 {
		plan.Limit += beside
	}
	plan.Sessions, plan.Least = beside, least
	return plan, err
}

// DraftVocabBytes is [Model.DraftVocabBytes] of a file's model. It fails as
// [PlanMemory] does; draft heads cannot be loaded without their target.
func DraftVocabBytes(f *gguf.File, n, text int) (int64, error) {
	_, _, m, err := weightless(f, Options{})
	if err != nil {
		return 0, err
	}
	return m.DraftVocabBytes(n, text), nil
}

// weightless is a file's model without weights: its matrices are views that nothing brings into memory, which have
// types and shapes and cannot be multiplied with.
func weightless(f *gguf.File, o Options) (*loader, *packedSource, *Model, error) {
	l, m, err := newModel(context.Background(), nil, f, o)
	if err != nil {
		return nil, nil, nil, err
	}
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1, SIMD: "scalar"})
	if err != nil {
		return nil, nil, nil, err
	}
	rt.Close() // views do not compute
	list := &packedSource{fileSource: fileSource{l.ctx, rt, l.progress}}
	l.from = list
	m.read(l)
	return l, list, m, l.err
}

// ReadTokenizer makes the tokenizer that a file describes (keys tokenizer.ggml.*), nil if it describes
// none. The file need not hold a model.
func ReadTokenizer(f *gguf.File) (*bpe.Tokenizer, error) { return vocabulary.Read(f) }
