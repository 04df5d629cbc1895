package engine

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Options say how a model is loaded. The zero value takes the file as it is.
type Options struct {
	// Weights converts the matrices while loading, to one of WeightNames; "" leaves them as they are
	// in the file. Norms, biases and positions stay float32. Matrices whose rows are not whole blocks
	// become Q5_0 instead of Q4_K, Q5_1 instead of Q5_K and Q8_0 instead of Q6_K; if those do not fit
	// either, they stay as they are. Model.WeightTypes lists the types that result.
	Weights string

	// RopeContext decides between the two tables of rotary angles of longrope models: the one for long contexts is used for all
	// positions if it exceeds the context that the model was first trained with. 0 is the model's context length.
	RopeContext int

	// Target is the model that a draft head drafts for: the head may share its embeddings and its output matrix. It must not be
	// closed before the head. Other models do without.
	Target *Model

	// MTP loads, instead of the model, the blocks of the file that predict tokens further ahead (multi-token prediction, NextN): a draft
	// head for Target, which is the model. Of a file that has nothing else they are loaded in any case.
	MTP bool

	// Memory is the most bytes that the weights and the activations of a pass may take; 0: no limit. Of a model that needs more, only a part is
	// kept in memory: the rest is read from disk in every pass, from a panel file in the directory Cache. The logits are the same.
	// Sessions come on top. A limit that is too low for that is an error that names the least one and wraps tensor.ErrMemory.
	Memory int64

	// Cache is the directory of panel files: copies of models' matrices as the kernels read them. One is written where Memory does not
	// suffice, or where KeepPanels asks for it. A model that has one is loaded from it, which takes about as long as reading it. A panel file belongs
	// to one state of the model's file: its size, its time and its header. "": none.
	Cache      string
	KeepPanels bool

	// Announce is called before a panel file is written, with its name and size in bytes.
	Announce func(file string, bytes int64)

	Name string // of the file, for error messages; Open uses the path

	// Progress is called with the number of bytes of weights read so far and in all, by one goroutine at a time.
	Progress func(done, total int64)
}

// WeightNames lists the types that Options.Weights can convert to, the one with the most bits per weight first.
func WeightNames() []string {
	var names []string
	for _, t := range tensor.Encodable() {
		names = append(names, t.String())
	}
	return names
}

// Config is the shape of a model.
type Config struct {
	Architecture string // general.architecture of the file
	Name         string // general.name of the file
	Context      int    // tokens
	Vocab        int    // tokens
	Layers       int    // L: decoder blocks; 0 of an encoder alone
	HiddenSize   int    // D: numbers in the residual stream of a token
	Heads        int    // H: of queries
	KVHeads      int    // K: of keys and values; Heads/KVHeads query heads share one
	HeadDim      int    // d: numbers in a head
	FeedForward  int    // F: numbers inside the feed-forward

	Experts     int // E: feed-forwards that a token chooses from in each layer; 0 without a mixture of experts
	ExpertsUsed int // those that it is sent to

	EncoderLayers int // blocks of an encoder-decoder model's encoder; 0 without one

	Epsilon     float32 // of the norms
	RopeDims    int     // numbers of a head that are rotated; 0 without rotary position embeddings
	RopeBase    float32 // of the angles
	RopeFactors string  // the tensor of frequency factors in use, as Options.RopeContext decides; "" without
}

// Model is the weights of one file. It does not change and is safe for concurrent use.
type Model struct {
	rt        *Runtime
	name      string // for messages
	kind      kind
	config    Config
	tokenizer *bpe.Tokenizer

	net       network
	head      head             // nil: the model is no draft head
	encoder   encoder          // nil: the model is decoder-only
	start     int32            // DecoderStart
	caches    []cache          // of its layers' keys and values
	recurrent []recurrentLayer // ascending by layer

	matrices    []*tensor.Matrix
	stream      *stream // of a model with a panel file
	memory      MemoryPlan
	target      *Model // of a draft head, whose weights it may share
	closed      atomic.Bool
	bytes       int64
	parameters  int64
	weightTypes string
	weights     string                // Options.Weights
	metadata    map[string]gguf.Value // but for arrays
}

// Open loads a GGUF file. Its weights are in memory when Open returns; the file is closed. The error names the file and the key
// or tensor; it wraps ErrArchitecture, ErrUnsupported, ErrValue, ErrMissing, ErrShape, ErrWeightType, ErrDamaged, an error of
// package gguf, or ctx's.
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
	var a *arrangement
	if l.stream, a, err = l.openStream(rt, m, o); err != nil {
		return nil, err
	}
	if m.stream = l.stream; m.stream != nil {
		runtime.AddCleanup(m, func(s *stream) { s.close() }, m.stream)
	}
	m.read(l)
	if l.ok() && l.stream != nil && l.nextView != len(l.stream.parts) {
		l.keep(fmt.Errorf("%s: %d of %d matrices were read: %w", f.Name, l.nextView, len(l.stream.parts), ErrUnsupported))
	}
	if !l.ok() {
		m.Close()
		return nil, l.err
	}
	m.memory = MemoryPlan{Limit: o.Memory, Weights: m.bytes, Resident: m.bytes, Rows: passRows}
	if a != nil {
		m.memory = a.MemoryPlan
		m.bytes = a.Resident + a.Buffers
	}
	l.progress.finish()
	return m, nil
}

// newModel is a model of which nothing but the tokenizer has been read, and what reads the rest. Without a Runtime it reads no weights.
func newModel(ctx context.Context, rt *Runtime, f *gguf.File, o Options) (*loader, *Model, error) {
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
	m := &Model{rt: rt, name: f.Name, kind: kind, target: o.Target, tokenizer: tokenizer, weights: o.Weights, metadata: map[string]gguf.Value{}, start: -1}
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
	c.HiddenSize = l.integer("embedding_length")
	l.heads(c)
	if !l.boolOr("attention.causal", true) {
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
		l.unread()
	}
	m.caches, m.recurrent = l.caches, l.recurrent
	m.matrices, m.bytes, m.parameters, m.weightTypes = l.matrices, l.bytes, l.parameters, l.typeNames()
}

// Close frees the weights now instead of when the Model is collected. It waits for the
// runtime's pass in progress; later passes of the model fail with ErrClosed.
func (m *Model) Close() {
	if m == nil {
		return
	}
	m.rt.t.Lock()
	defer m.rt.t.Unlock()
	m.closed.Store(true)
	for _, w := range m.matrices {
		w.Close()
	}
	m.matrices = nil
	m.stream.close()
}

// Name is what messages call the model: Options.Name, or the file.
func (m *Model) Name() string { return m.name }

// Config is the model's shape.
func (m *Model) Config() Config { return m.config }

// Tokenizer is the file's tokenizer, nil if it has none.
func (m *Model) Tokenizer() *bpe.Tokenizer { return m.tokenizer }

// Metadata is the value of a key of the file's metadata. Arrays are not kept.
func (m *Model) Metadata(key string) (value gguf.Value, ok bool) {
	value, ok = m.metadata[key]
	return value, ok
}

// ChatTemplate is the source of the file's chat template, "" if it has none. Package chat executes it.
func (m *Model) ChatTemplate() string {
	s, _ := m.metadata["tokenizer.chat_template"].(string)
	return s
}

// Runtime is where the model runs.
func (m *Model) Runtime() *Runtime { return m.rt }

// Bytes is the memory that the weights take, in bytes; where some are read from disk, with the buffers for that.
func (m *Model) Bytes() int64 { return m.bytes }

// Memory says where the weights are.
func (m *Model) Memory() MemoryPlan { return m.memory }

// Disk is what was read from disk for products, in all, and how long passes waited for it.
func (m *Model) Disk() (bytes int64, waited time.Duration) {
	if m.stream == nil {
		return 0, 0
	}
	return m.stream.read.Load(), time.Duration(m.stream.waited.Load())
}

// rows is the most rows that go through the layers together.
func (m *Model) rows() int { return max(passRows, m.memory.Rows) }

// Parameters is the number of weights.
func (m *Model) Parameters() int64 { return m.parameters }

// WeightTypes names the storage types of the matrices, the one with the most bytes first: "q4_k, q6_k".
func (m *Model) WeightTypes() string { return m.weightTypes }

// Weights is the Options.Weights that the model was loaded with.
func (m *Model) Weights() string { return m.weights }

// typeNames lists the matrices' types by size.
func (l *loader) typeNames() string {
	size := map[string]int64{}
	for _, w := range l.matrices {
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
