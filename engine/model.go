package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/engine/internal/recurrent"
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

	// RopeContext decides between the two tables of rotary angles of longrope models: the one for long contexts is used
	// for all positions if it exceeds the context that the model was first trained with. 0 is the model's context
	// length.
	RopeContext int

	// Rope changes how positions are rotated.
	Rope Rope
	// Override are values of the file's keys that count instead of its own: int64, float64, bool or string, of the
	// architecture (ARCH.…) or the tokenizer (tokenizer.ggml.…). One that the model does not read is an error.
	Override []gguf.KV

	// Target is the model that a draft head drafts for: the head may share its embeddings and its output matrix. It must
	// not be closed before the head. Other models do without.
	Target *Model

	// MTP loads, instead of the model, the blocks of the file that predict tokens further ahead (multi-token prediction,
	// NextN): a draft head for Target, which is the model. Of a file that has nothing else they are loaded in any case.
	MTP bool

	// Memory is the most bytes that the weights and the activations of a pass may take; 0: no limit. Of a model that
	// needs more, only a part is kept in memory: the rest is read from disk in every pass, from a panel file in the
	// directory Cache. The logits are the same. Sessions come on top. A limit that is too low for that is an error that
	// names the least one and wraps tensor.ErrMemory.
	Memory int64

	// Cache is the directory of panel files: copies of models' matrices as the kernels read them. One is written where
	// Memory does not suffice, or where KeepPanels asks for it. A model that has one is loaded from it, which takes
	// about as long as reading it. A panel file belongs to one state of the model's file: its size, its time, its header
	// and samples of its weights. "": none.
	Cache      string
	KeepPanels bool

	// Announce is called before a panel file is written, with its name and size in bytes. An error refuses it.
	Announce func(file string, bytes int64) error

	// Fingerprint, if set, is asked for the fingerprint of the file while it is open, for [Model.Identity].
	Fingerprint func(context.Context, *gguf.File) (Fingerprint, error)

	Name string // of the file, for error messages; Open uses the path

	tanhGELU bool // the tanh form of GELU in all models, for tests against engines that have no other

	// Progress is called with the number of bytes of weights read so far and in all, by one goroutine at a time.
	Progress func(done, total int64)
}

// WeightNames lists the types that Options.Weights can convert to, the one with the most bits per weight first. Those
// of less than 4 bits are not among them: they take minutes, and an importance matrix to be of use.
func WeightNames() []string {
	var names []string
	for _, t := range tensor.Encodable() {
		if 8*t.BlockBytes() >= 4*t.BlockWeights() {
			names = append(names, t.String())
		}
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
	StateSize    int    // numbers of a token between layers: D, or those of several residual streams
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
	head      head              // nil: the model is no draft head
	encoder   encoder           // nil: the model is decoder-only
	vectors   vectorParts       // what makes vectors of texts
	queue     vectorQueue       // texts that wait for it
	start     int32             // DecoderStart
	caches    []cache           // of its layers' keys and values
	recurrent []recurrent.Layer // ascending by layer

	sites sites
	store *panels.Store // of a model with a panel file
	plans
	closing
	target      *Model // of a draft head, whose weights it may share
	costs       passCosts
	bytes       int64
	parameters  parameters
	weightTypes string
	origin
	metadata map[string]gguf.Value // but for arrays
}

// origin is what the weights were made of.
type origin struct {
	weights     string      // Options.Weights
	fingerprint Fingerprint // of the file, as Options.Fingerprint said; the zero value: nobody asked
	more        bool        // the file has blocks behind the model's layers
}

// plans are where a model's weights are, and what its draft form would take.
type plans struct {
	memory   MemoryPlan
	formPlan DraftFormPlan
	dense    int64 // bytes that a pass reads beside experts
}

// closing is whether a model is closed, and what Close waits for.
type closing struct {
	closed atomic.Bool
	forms  sync.RWMutex // read while draft forms are made, of weights that are read beside passes
}

// Close frees the weights now instead of when the Model is collected. It waits for the
// runtime's pass in progress; later passes of the model fail with ErrClosed. A draft form that is being made of it
// fails likewise, before Close returns.
func (m *Model) Close() {
	if m == nil {
		return
	}
	m.closed.Store(true)
	m.forms.Lock()
	defer m.forms.Unlock()
	m.rt.t.Lock()
	defer m.rt.t.Unlock()
	for w := range m.sites.each {
		w.Close()
	}
	m.sites = nil
	m.store.Close()
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

// PanelFile is the file with the copy of the weights that the model was loaded from; "" where it was its own file.
func (m *Model) PanelFile() string {
	if m.store == nil {
		return ""
	}
	return m.store.Name()
}

// Disk is what was read from disk for products, in all, and how long passes waited for it.
func (m *Model) Disk() (bytes int64, waited time.Duration) {
	if m.store == nil {
		return 0, 0
	}
	return m.store.Disk()
}

// rows is the most rows that go through the layers together.
func (m *Model) rows() int { return max(passRows, m.memory.Rows) }

// Parameters is the number of weights.
func (m *Model) Parameters() int64 { return m.parameters.all }

// parameters are numbers of weights: all, and among them those of experts, and of a table of n-grams those that a token
// does not choose.
type parameters struct{ all, ofExperts, unchosen int64 }

// ActiveParameters is the number of weights that a token is computed with: of experts, those that it is sent to, and of
// a table of n-grams the rows that it chooses.
func (m *Model) ActiveParameters() int64 {
	c, n := m.config, m.parameters
	active := n.all - n.unchosen
	if c.Experts == 0 {
		return active
	}
	return active - n.ofExperts + n.ofExperts/int64(c.Experts)*int64(c.ExpertsUsed)
}

// WeightTypes names the storage types of the matrices, the one with the most bytes first: "q4_k, q6_k".
func (m *Model) WeightTypes() string { return m.weightTypes }

// Weights is the Options.Weights that the model was loaded with.
func (m *Model) Weights() string { return m.weights }

// Caches are the keys and values that the first layers of the model keep for every position that they look at. 0
// layers are all.
func (m *Model) Caches(layers int) (shapes []CacheShape) {
	if layers == 0 {
		layers = m.config.Layers
	}
	for i := range m.caches {
		c := &m.caches[i]
		if n := c.upTo(layers); n > 0 {
			shapes = append(shapes, c.shape(n))
		}
	}
	return shapes
}

// MemoryPlan says where the weights of a model are under a limit ([Options].Memory).
type MemoryPlan struct {
	Limit    int64 // 0: none
	Weights  int64 // bytes of all weights, packed
	Resident int64 // bytes that are in memory for good
	Buffers  int64 // bytes of memory for weights that are read, the activations of a pass included
	// bytes that a pass of one token reads from disk, at most; with experts that are kept, as if every one were as
	// likely
	PerPass int64
	Rows    int // most tokens that go through the layers together
	Experts int // that are kept in memory of those that are read on demand; 0 without

	Sessions int64 // bytes of sessions, their logits and what is beside, as PlanMemory was told; 0 for a model in memory
	Least    int64 // the least limit that suffices, with Sessions
}

// Streams reports whether weights are read from disk in every pass.
func (p MemoryPlan) Streams() bool { return p.PerPass > 0 }

// Kind is the kind of the model. Of a file with MTP blocks it says which part of the file has been read.
func (m *Model) Kind() Kind {
	if m == nil {
		return ""
	}
	return m.kind.is
}

// StatesFor is the layers whose hidden states go into a draft head of the model ([Segment].Layers): the head's
// [Model.TargetLayers]. An architecture with draft heads of its own has them trained on the final norm's output, and
// other heads for it likewise: it is then what they read for the state after the last layer.
func (m *Model) StatesFor(head *Model) []int {
	layers := slices.Clone(head.TargetLayers())
	for i, k := range layers {
		if k == m.config.Layers && len(m.kind.heads) > 0 && !m.kind.rawStates {
			layers[i] = FinalNorm
		}
	}
	return layers
}

// Head is how the model is fed if it is a draft head; nil if it is not.
func (m *Model) Head() *Head {
	if m == nil || m.head == nil {
		return nil
	}
	return m.head.info()
}

// TargetLayers are those of the model's [Head], nil for models that are no draft heads.
func (m *Model) TargetLayers() []int {
	if h := m.Head(); h != nil {
		return h.TargetLayers
	}
	return nil
}

// StateSize is the number of numbers of a hidden state that the model gives of such layers ([Segment].Layers).
func (m *Model) StateSize(layers []int) int {
	switch {
	case m.head != nil:
		return m.head.info().stateSize
	case len(layers) > 0 && layers[0] == FinalNorm:
		return m.config.HiddenSize
	}
	return m.config.StateSize
}

// opens checks what a new session is asked to be.
func (m *Model) opens(o SessionOptions) error {
	if m.head != nil {
		if err := m.head.opens(&m.config, o); err != nil {
			return err
		}
	}
	if err := o.Adapters.fits(m); err != nil {
		return err
	}
	if err := o.Form.fits(m); err != nil {
		return err
	}
	return m.borrows(o.Target)
}

// borrows checks the session whose keys and values a session of the model shall look at.
func (m *Model) borrows(t *Session) error {
	if m.head != nil {
		return m.head.borrows(m.target, t)
	}
	return (*Head)(nil).borrows(nil, t)
}
