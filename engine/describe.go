package engine

import (
	"context"
	"slices"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/gguf"
)

// Description is what a model's file says of its memory, as far as that is not its weights.
type Description struct {
	Config    Config
	Caches    []CacheShape
	Recurrent RecurrentSize
	Input     CacheShape // what is kept of every token of the encoder's input; the zero value without an encoder

	// Block is the most tokens that a draft head drafts in one pass, as [Head].Block; 0: one.
	Block int

	// States is the most bytes of its target's hidden states that a draft head keeps of a text: of the positions that it
	// has not read yet, and of a draft that is verified. 0: of other models.
	States int64

	// TextRow is the most bytes that the activations of a token take of a text that goes through the layers whole, as
	// texts do through embedding models and rerankers; 0: of other models.
	TextRow int64

	// MTP is what a session of the file's MTP blocks ([Options].MTP) keeps, of all blocks; nil where there are none that
	// can be loaded. MTPStates is States of these blocks. Only the function [Describe] says it.
	MTP       []CacheShape
	MTPStates int64
}

// Everywhere reports whether a session of the model can be cut back to any length without computing anything again: no
// layer is recurrent or has a window.
func (d *Description) Everywhere() bool {
	return d.Recurrent.Layers == 0 && !slices.ContainsFunc(d.Caches, func(c CacheShape) bool { return c.Window > 0 })
}

// TextBytes is what the activations of a text of n tokens take that goes through the layers whole, beyond those of
// other passes. Such passes run one after the other.
func (d *Description) TextBytes(n int) int64 { return int64(max(0, n-passRows)) * d.TextRow }

// RecurrentSize is the memory of the recurrent layers of a session, in bytes. The zero value is that of a model
// without any.
type RecurrentSize struct {
	Layers int
	State  int64 // all layers' states; a session has a few copies
	Token  int64 // what the journal keeps of a token
}

// Most is the most that a session with a budget of [SessionOptions].StateBytes takes for its recurrent layers unless
// drafts are longer than 64 tokens: the state, copies to go back to, and the journal.
func (r RecurrentSize) Most(budget int64) int64 {
	if r.Layers == 0 {
		return 0
	}
	return recurrent.Most(r.State, r.Token, budget)
}

// Describe reads a file's header as [Open] does, and no weights. Its error is that of Open: a key or a tensor that is
// not supported. Draft heads cannot be described without their target.
func Describe(f *gguf.File) (*Description, error) {
	m, err := header(f, Options{})
	if err != nil {
		return nil, err
	}
	d := m.Describe()
	if m.HasMTP() {
		if head, err := header(f, Options{MTP: true, Target: m}); err == nil {
			d.MTP, d.MTPStates = head.Caches(0), head.Describe().States
		}
	}
	return d, nil
}

// header is a model of which nothing but the header has been read.
func header(f *gguf.File, o Options) (*Model, error) {
	l, m, err := newModel(context.Background(), nil, f, o)
	if err == nil {
		m.read(l)
		err = l.err
	}
	return m, err
}

// headPositions is how many positions a draft head keeps states of, at most, for each row of a pass of its target: of
// those that the pass gave, in memory that grows of those that wait for the head's pass, and of a draft's.
const headPositions = 4

// Describe describes the model.
func (m *Model) Describe() *Description {
	d := &Description{Config: m.config, Caches: m.Caches(0), TextRow: m.vectors.row}
	if h := m.Head(); h != nil {
		d.Block, d.States = h.Block, headPositions*int64(m.target.rows())*int64(h.TargetStates())*4
	}
	if m.encoder != nil {
		d.Input = CacheShape{Layers: m.config.Layers, Heads: m.config.Heads, HeadDim: m.config.HeadDim}
	}
	for _, r := range m.recurrent {
		d.Recurrent.Layers++
		d.Recurrent.State += r.StateBytes()
		d.Recurrent.Token += r.TokenBytes()
	}
	return d
}
