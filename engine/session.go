package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// DefaultKV is the storage of the KV cache where SessionOptions does not say otherwise.
const DefaultKV = "f16"

// SessionOptions configure a [Session].
type SessionOptions struct {
	Context int    // most tokens of the sequence; 0 is the model's context length
	KV      string // storage of the KV cache: "f16", "f32", "q8_0", "q4_0"; "" is DefaultKV

	// Layers ends the forward pass after so many layers: the final norm and the output matrix follow
	// directly, and the cache holds these layers only. 0 is all of them. With it a model drafts for
	// itself (early exit, arXiv:2309.08168).
	Layers int

	// StateBytes is the most memory for copies of the states of recurrent layers at earlier points of the text, by which
	// a session goes back without computing the text again. Six copies, by which drafts are taken back, are kept in any
	// case ([RecurrentSize.Most]). 0 is those and 64 MB.
	StateBytes int64

	// Target is the session whose cache a draft head without keys and values of its own looks at ([Head].SharesCache), a
	// session of the head's target: it belongs to the same goroutine. Sessions of other models have none.
	Target *Session

	// Adapters change the model's matrices for the session and its forks. The logits depend on the set as they depend on
	// the weights.
	Adapters AdapterSet

	// Form computes the session with a draft form of the model instead of the model; nil: the model.
	Form *DraftForm

	// NoCache recomputes the whole sequence in every pass. The logits are the same bit for bit; only
	// the time differs. Tests use it to check that.
	NoCache bool
}

// Session is a sequence of tokens with the KV cache that a model has computed for it. It belongs to one goroutine.
type Session struct {
	m       *Model
	kv      []*tensor.KV // one for each of the model's caches; nil where none of its layers is computed
	layers  int
	context int
	noCache bool
	closed  bool

	rec *recurrent.State // of its recurrent layers; nil: none

	adapters AdapterSet
	form     *DraftForm // whose matrices take the place of the model's; nil: none do
	watch    *watch     // of what goes into the matrices; nil: nobody asked
	text     textTokens // for draft forms

	lender  *Session      // whose keys and values the passes look at; nil: they have their own
	input   *input        // of the encoder; nil: none yet, or no encoder
	storage tensor.KVType // of keys and values

	tokens []int32 // the sequence
	taken  int     // tokens of a fork that are as it took them
	valid  int     // tokens of it whose keys and values are in the caches, as far back as their windows reach
	// tokens of a draft head's sequence that went in with the target's states; those after them are drafted
	fed   int
	again int // tokens that passes have recomputed

	waitingTree
	answer
	meter
	costs  *costs.Costs // of its passes
	serial uint64       // of the last pass that held this session
}

// waitingTree is a tree that waits for Commit. Its tokens follow the sequence in the cache.
type waitingTree struct {
	nodes   []int32 // tokens
	parents []int32
	treeFed bool // it went in with the target's states
}

// answer is what the last pass returned.
type answer struct {
	logits  []float32
	hidden  []float32
	redone  int        // tokens that it recomputed
	one     [1]Segment // Eval's batch
	results []Result   // Forward's, where this session is the first of the batch
}

// maxTree is the most nodes of a tree: a tree is computed in one round.
const maxTree = passRows

// NewSession begins an empty sequence. The cache grows with it, in pages of 256 tokens.
func (m *Model) NewSession(o SessionOptions) (*Session, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: no model", ErrUsage)
	}
	if m.closed.Load() || m.rt.closed.Load() {
		return nil, fmt.Errorf("%s: %w", m.name, ErrClosed)
	}
	c := m.config
	if c.Layers == 0 {
		return nil, fmt.Errorf("%s: %w: a %s model is an encoder alone, which writes no text", m.name, ErrUsage,
			c.Architecture)
	}
	if o.Context < 0 || o.Context > c.Context {
		return nil, fmt.Errorf("%s: %w: a context of %d tokens, the model has %d", m.name, ErrUsage, o.Context, c.Context)
	}
	if o.Context == 0 {
		o.Context = c.Context
	}
	if o.Layers < 0 || o.Layers > c.Layers {
		return nil, fmt.Errorf("%s: %w: an exit after %d layers, the model has %d", m.name, ErrUsage, o.Layers, c.Layers)
	}
	if o.Layers == 0 {
		o.Layers = c.Layers
	}
	if o.StateBytes < 0 {
		return nil, fmt.Errorf("%s: %w: %d bytes for states", m.name, ErrUsage, o.StateBytes)
	}
	if err := m.opens(o); err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if o.KV == "" {
		o.KV = DefaultKV
	}
	t, err := tensor.ParseKVType(o.KV)
	if err != nil {
		return nil, err
	}
	kv, err := m.newCaches(o.Layers, o.Context, t)
	if err != nil {
		return nil, err
	}
	return &Session{m: m, kv: kv, rec: recurrent.New(m.recurrent, o.Layers, o.StateBytes), layers: o.Layers,
		context: o.Context, noCache: o.NoCache, lender: o.Target, storage: t, adapters: o.Adapters, form: o.Form,
		costs: m.costsOf(o.Form, o.Layers)}, nil
}

// Len is the number of tokens of the sequence. Nodes of a tree that waits for Commit do not count.
func (s *Session) Len() int { return len(s.tokens) }

// Context is the most tokens that the sequence can have.
func (s *Session) Context() int { return s.context }

// MaxTree is the most tokens that one Eval, or one segment of [Model.Forward], takes with parents. A chain has no
// such limit but the context.
func (s *Session) MaxTree() int { return maxTree }

// PassRows is the most tokens of a prompt that go through the layers together: the constant, or more where weights are
// read from disk in every pass.
func (s *Session) PassRows() int { return s.m.rows() }

// Vocab is the number of logits in a row, which is that of tokens in the vocabulary.
func (s *Session) Vocab() int { return s.m.config.Vocab }

// Layers is the number of the model's layers that compute the session.
func (s *Session) Layers() int { return s.layers }

// Adapters are those of the session.
func (s *Session) Adapters() AdapterSet { return s.adapters }

// Model is the session's model.
func (s *Session) Model() *Model { return s.m }

// Target is the session whose cache the session of a draft head looks at ([SessionOptions].Target), nil for others.
func (s *Session) Target() *Session { return s.lender }

// TargetTokens is the sequence of the session that the passes look at, nil if there is none.
func (s *Session) TargetTokens() []int32 {
	if s.lender == nil {
		return nil
	}
	return s.lender.tokens
}

// SetTarget has a draft head's session look at the cache of another session of its target from the next pass on.
// Passes fail while it is nil.
func (s *Session) SetTarget(t *Session) error {
	if t != nil {
		if err := s.m.borrows(t); err != nil {
			return fmt.Errorf("%s: %w", s.m.name, err)
		}
	}
	s.lender = t
	return nil
}

// Nodes is the number of nodes of the tree that waits for Commit.
func (s *Session) Nodes() int { return len(s.nodes) }

// Fed is how many tokens of a draft head's sequence went in with the target's states; those after them are drafted.
func (s *Session) Fed() int { return s.fed }

// Tokens is the sequence, valid until the session's next call. It must not be changed.
func (s *Session) Tokens() []int32 { return s.tokens }

// Restorable is the greatest length n' <= n that the sequence can be cut to so that the next pass has nothing, or
// little, to recompute before its own tokens. Models whose layers all see the whole text restore every length. Layers
// with a window keep their window's keys and values and 512 positions more. Recurrent layers can go back by 64 tokens
// at least, or by those of the last pass whose logits were asked for (at most 192), and to some points further back.
func (s *Session) Restorable(n int) int {
	n = max(0, min(n, len(s.tokens)))
	if s.noCache {
		return n
	}
	if n = min(n, s.valid); s.rec != nil {
		n = s.rec.Restorable(n)
	}
	if !s.reaches(n) {
		return 0
	}
	return n
}

// Recomputed is the number of tokens that passes have computed again because the sequence had been cut to a length
// that was not restorable.
func (s *Session) Recomputed() int { return s.again }

// Truncate shortens the sequence to its first n tokens and drops a waiting tree. If n is not [Session.Restorable],
// the next pass recomputes the tokens between the nearest restorable length and n, as a prefill does. The session of a
// draft head does not have the states that went in with them: it is cut to the restorable length itself.
func (s *Session) Truncate(n int) error {
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("%w: Truncate(%d) of %d tokens", ErrUsage, n, len(s.tokens))
	}
	if s.m.head != nil {
		n = s.Restorable(n)
	}
	s.valid, s.taken = min(s.valid, n), min(s.taken, n)
	s.tokens = s.tokens[:n]
	s.text.cut(n)
	s.fed = min(s.fed, n)
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	return nil
}

// Commit appends a path of the waiting tree to the sequence and drops the rest of the tree. path holds
// the indices of the nodes, from one that follows the sequence down: each is the parent of the next. Nothing of a
// draft head's block can be appended ([Head].Block): its keys and values are not made of the target's states.
func (s *Session) Commit(path []int32) error {
	if h := s.m.Head(); h != nil && h.Block > 0 && len(path) > 0 {
		return fmt.Errorf("%w: Commit of a draft head's block", ErrUsage)
	}
	parent := int32(-1)
	for i, j := range path {
		if j < 0 || int(j) >= len(s.nodes) || s.parents[j] != parent {
			return fmt.Errorf("%w: Commit: element %d of the path is node %d, no child of node %d (tree of %d nodes)",
				ErrUsage, i, j, parent, len(s.nodes))
		}
		parent = j
	}
	start := len(s.tokens)
	for i, j := range path { // a parent precedes its children, so i <= j and nothing is overwritten before it is moved
		for _, kv := range s.kv {
			if int(j) == i || s.noCache || kv == nil {
				continue
			}
			if err := kv.Move(start+int(j), start+i); err != nil {
				s.nodes, s.parents = s.nodes[:0], s.parents[:0]
				return err
			}
		}
	}
	if s.valid == start && !s.noCache {
		s.valid += len(path)
		if s.rec != nil {
			s.rec.Commit(start, path)
		}
	}
	for _, j := range path {
		s.tokens = append(s.tokens, s.nodes[j])
	}
	if s.treeFed && s.fed == start {
		s.fed = len(s.tokens)
	}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	return nil
}

// Fork makes a second session with the same sequence. Whole pages of the cache are shared until one of
// the two writes to them. A waiting tree stays with s.
func (s *Session) Fork() (*Session, error) { return s.ForkAt(len(s.tokens)) }

// ForkAt is Fork of the first n tokens; of a draft head's session as many as [Session.Truncate] leaves.
func (s *Session) ForkAt(n int) (*Session, error) { return s.fork(n, s.layers, s.form, nil, false) }

// SaveAt is ForkAt for a session that is saved (SaveKV, SaveState) and closed: it has no more of the recurrent layers
// than that needs.
func (s *Session) SaveAt(n int) (*Session, error) { return s.fork(n, s.layers, s.form, nil, true) }

// ExitAt is ForkAt for a session that ends after so many layers ([SessionOptions].Layers), at most those of s. old is
// nil, or an earlier ExitAt of s, which is closed: the new one takes over its memory and copies only what s has
// computed since.
func (s *Session) ExitAt(n, layers int, old *Session) (*Session, error) {
	return s.fork(n, layers, s.form, old, false)
}

// Taken is how many tokens of a fork have the keys, values and states that it took from the session it was made of.
func (s *Session) Taken() int {
	if s == nil {
		return 0
	}
	return s.taken
}

// Common is how many tokens two sequences begin with in common.
func Common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// fork is ExitAt, for a session that is computed with a draft form, or that is saved.
func (s *Session) fork(n, layers int, form *DraftForm, old *Session, saved bool) (*Session, error) {
	defer old.Close()
	if n < 0 || n > len(s.tokens) || layers < 1 || layers > s.layers {
		return nil, fmt.Errorf("%w: a fork at %d of %d tokens, with %d of %d layers", ErrUsage, n, len(s.tokens), layers,
			s.layers)
	}
	if s.closed {
		return nil, fmt.Errorf("%s: session: %w", s.m.name, ErrClosed)
	}
	if s.m.head != nil {
		n = s.Restorable(n)
	}
	in, err := s.input.share()
	if err != nil {
		return nil, err
	}
	f := &Session{m: s.m, kv: make([]*tensor.KV, len(s.kv)), layers: layers, context: s.context, noCache: s.noCache,
		tokens: slices.Clone(s.tokens[:n]), fed: min(s.fed, n), storage: s.storage, adapters: s.adapters, lender: s.lender,
		input: in, form: form, text: s.text.upTo(n), costs: s.m.costsOf(form, layers)}
	if !s.noCache {
		f.valid = s.Restorable(n)
	}
	f.taken = f.valid
	if old != nil && (old.closed || old.m != s.m || old.layers != layers || old.form != form) {
		old = nil // of another kind: nothing of it can be used
	}
	same := 0 // tokens of old that are still those of s
	if old != nil && old.input.is(in) {
		same = Common(old.tokens[:old.taken], s.tokens[:f.valid])
	}
	for i, kv := range s.kv {
		if kv == nil || s.m.caches[i].upTo(layers) == 0 {
			continue
		}
		if old != nil {
			f.kv[i], err = kv.ForkAgain(f.valid, old.kv[i], same)
		} else {
			f.kv[i], err = kv.ForkLayers(f.valid, s.m.caches[i].upTo(layers))
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	switch {
	case s.rec != nil && saved:
		f.rec = s.rec.ForkSaved(f.valid)
	case s.rec != nil:
		var from *recurrent.State
		if old != nil {
			from, old.rec = old.rec, nil
		}
		f.rec = s.rec.Fork(f.valid, layers, from, same)
	}
	f.used = s.used
	f.count()
	return f, nil
}

// Close frees the cache now instead of when the Session is collected. Passes with the session fail afterwards, with
// ErrClosed; its forks are not affected.
func (s *Session) Close() {
	if s == nil {
		return
	}
	s.closed, s.answer = true, answer{}
	for _, kv := range s.kv {
		if kv != nil {
			kv.Close()
		}
	}
	s.rec = nil
	s.count()
	s.input.drop()
	s.input = nil
}

// reaches reports whether the caches hold what a token at position n looks at.
func (s *Session) reaches(n int) bool {
	for i, kv := range s.kv {
		if kv != nil && n < s.m.caches[i].needs(kv) {
			return false
		}
	}
	return true
}

// rewind makes n the end of what the caches hold. Those that do not reach back to it start again at 0, which n is then.
func (s *Session) rewind(n int) {
	s.valid, s.taken = n, min(s.taken, n)
	for i, kv := range s.kv {
		if kv != nil && n < s.m.caches[i].needs(kv) {
			kv.Reset()
		}
	}
	if s.rec != nil {
		s.rec.Rewind(n)
	}
}

// room makes room in the caches for n more tokens after the first start ones. Windowed caches give up positions that
// are far from the end, which is that of the tokens if they are a chain.
func (s *Session) room(start, n int, tree bool) error {
	end := start + n
	if tree {
		end = start
	}
	for i, kv := range s.kv {
		if kv == nil {
			continue
		}
		if w := s.m.caches[i].window; w > 0 {
			kv.Discard(min(start+1-w, end-w-windowSlack))
		}
		if err := kv.Grow(start + n); err != nil {
			return err
		}
	}
	return nil
}

// roomForAll makes room for n tokens in the caches that keep them all, so that a pass which the memory does not
// suffice for fails before it begins. The others get theirs as the pass goes on.
func (s *Session) roomForAll(n int) error {
	for i, kv := range s.kv {
		if kv == nil || s.m.caches[i].window > 0 {
			continue
		}
		if err := kv.Grow(n); err != nil {
			return err
		}
	}
	return nil
}

// Bytes is the memory of the session's keys and values, of the encoder's input as well, and of its recurrent layers,
// in bytes. What forks share counts for each of them.
func (s *Session) Bytes() (n int64) {
	for _, kv := range s.kv {
		if kv != nil {
			n += kv.Bytes()
		}
	}
	if s.input != nil {
		n += s.input.kv.Bytes()
	}
	if s.rec != nil {
		n += s.rec.Bytes()
	}
	return n
}

// newCaches makes the empty caches of a session; one without layers is nil.
func (m *Model) newCaches(layers, context int, kv tensor.KVType) ([]*tensor.KV, error) {
	caches := make([]*tensor.KV, len(m.caches))
	for i := range m.caches {
		c := &m.caches[i]
		n := c.upTo(layers)
		if n == 0 {
			continue
		}
		var err error
		shape := c.shape(n).kv(kv)
		shape.Context = context + maxTree // branches of a tree take slots beyond the sequence that they continue
		if caches[i], err = tensor.NewKV(shape); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return caches, nil
}
