package speculative

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// prefillChunk is the most prompt tokens of one pass, but of sequences whose PassRows are more: few enough to notice a
// cancelled context soon.
const prefillChunk = engine.PassRows

// Sequence is a sequence of tokens with a model's state after it (the KV cache). [*engine.Session] is one; see [Listed]
// and [Modeled] for what else it may be able to do.
//
//   - Len is the number of tokens, Context the most that it can hold, Vocab the number of logits in a row.
//   - Eval feeds tokens after the first Len and returns the logits of the last want of them, valid until the next
//     Eval. With parents nil the tokens are a chain and are appended. Otherwise parents[i] is the index in tokens of
//     token i's parent, less than i, or -1 for the end of the sequence; Len stays, and the tokens wait for Commit. A
//     failed Eval leaves the sequence as it was.
//   - MaxTree is the most tokens of an Eval with parents; chains are bounded by the context only.
//   - Truncate keeps the first n tokens and drops a waiting tree. Of a draft head's sequence fewer may remain, as Len
//     says then.
//   - Commit appends the tokens of a path of the waiting tree, from the root down, and drops the rest of the tree.
type Sequence interface {
	Len() int
	Context() int
	Vocab() int
	MaxTree() int
	Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error)
	Truncate(n int) error
	Commit(path []int32) error
}

// absent reports whether there is no sequence: nil, or a nil pointer such as that of a session that could not be made.
func absent(s Sequence) bool {
	if s == nil {
		return true
	}
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// cachedSequence is a sequence and the tokens in its cache, so that the beginning of a new text need not be fed again
// if it is that of the last one.
type cachedSequence struct {
	Sequence
	tokens    []int32     // tokens[:Len()] are cached
	prefilled func(n int) // Options.Prefilled
	clock     *Clock      // nil: nobody measures

	listeners []Attentive // who is given the hidden states of passes
	layers    []int       // of these layers
	known     int         // tokens at the beginning of the text whose states they need not have again
}

// Clock is a decoder's clock: it counts the cost of passes of [Metered] sequences instead of the time that they take.
type Clock struct {
	wall   func() time.Duration
	excess time.Duration // of passes beyond their cost

	announced []Shared // sequences of drafters
}

// Now is the time since some fixed moment.
func (c *Clock) Now() time.Duration { return c.wall() - c.excess }

// Announce tells the drafter's sequences whether a draft begins or has ended. The target's scheduler calls it at the
// end of a pass, the decoder around drafts.
func (c *Clock) Announce(drafting bool) {
	for _, s := range c.announced {
		s.Announce(drafting)
	}
}

// Enlist adds a drafter's sequence to those that are told, if its passes are shared. Drafters call it in Start.
func (c *Clock) Enlist(s Sequence) {
	if s, ok := s.(Shared); ok && !absent(s) && !slices.Contains(c.announced, s) {
		c.announced = append(c.announced, s)
	}
}

// await enlists the sequence of a draft head and has it wait for others that read a text that begins alike. Of a text
// that is too long for it the head reads nothing: it does not wait, and nobody is to wait for it.
func (c *Clock) await(ctx context.Context, s Sequence, text []int32) {
	if r, ok := s.(Shared); ok && !absent(r) {
		if c.Enlist(r); len(text)-1 <= r.Context() {
			r.Await(ctx, text)
		}
	}
}

// Pass begins a pass of a drafter's sequence; the function that it returns ends it.
func (c *Clock) Pass(s Sequence) (done func()) {
	m, ok := s.(Metered)
	if !ok {
		return func() {}
	}
	began, spent := c.wall(), m.Spent()
	return func() { c.excess += c.wall() - began - (m.Spent() - spent) }
}

// enlist adds a drafter's sequence to those that are told.
func (t *cachedSequence) enlist(c *Clock) {
	if t.clock = c; c != nil {
		c.Enlist(t.Sequence)
	}
}

// eval is Eval, with the clock set to the cost of the pass.
func (t *cachedSequence) eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if known := max(0, t.known-len(t.tokens)); len(t.listeners) > 0 && (known < len(tokens) || parents != nil) {
		g := engine.Segment{Tokens: tokens, Parents: parents, Logits: want, Hidden: engine.All, Layers: t.layers}
		if known > 0 {
			g.Hidden = engine.Rows(len(tokens) - known)
		}
		r, err := t.segment(ctx, g)
		for _, a := range t.listeners {
			if err == nil {
				err = a.Hidden(ctx, len(t.tokens)+known, tokens[known:], parents, r.Hidden)
			}
			if len(r.Hidden.Layers) > 0 && refused(err) { // the drafter's, not the target's
				err = nil
			}
		}
		return r.Logits, err
	}
	done := t.meter()
	logits, err := t.Eval(ctx, tokens, parents, want)
	done()
	return logits, err
}

// segment is EvalSegment, with the clock set to the cost of the pass. The sequence is Segmented.
func (t *cachedSequence) segment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	done := t.meter()
	r, err := t.Sequence.(Segmented).EvalSegment(ctx, g)
	done()
	return r, err
}

// meter begins a pass; the function that it returns ends it.
func (t *cachedSequence) meter() (done func()) {
	if t.clock == nil {
		return func() {}
	}
	return t.clock.Pass(t.Sequence)
}

// attend makes the passes give hidden states to the drafters that need them, and drops what the cache holds of the
// prompt for which they do not have the states.
func (t *cachedSequence) attend(ctx context.Context, all []Attentive, prompt []int32) error {
	t.listeners, t.layers, t.known = all, t.layers[:0], len(prompt)
	if len(all) == 0 {
		return nil
	}
	if _, ok := t.Sequence.(Segmented); !ok {
		return fmt.Errorf("%w: the drafter needs hidden states, which the target's sequence does not give", ErrOptions)
	}
	for i, a := range all {
		if x, ok := a.(Sequenced); ok && i == 0 { // the others' may wait for this one's
			t.clock.await(ctx, x.Sequence(), prompt)
		}
		for _, k := range a.HiddenLayers(t.Sequence) {
			if !slices.Contains(t.layers, k) {
				t.layers = append(t.layers, k)
			}
		}
		n, err := a.Known(ctx, prompt)
		if t.known = min(t.known, n); err == nil {
			err = t.cut(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// evaluated is a metered sequence in the hands of an [Evaluator].
type evaluated struct {
	Sequence
	t *cachedSequence
}

func (e evaluated) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	return e.t.eval(ctx, tokens, parents, want)
}

// meteredTarget is t's sequence, wrapped if its passes are metered.
func meteredTarget(t *cachedSequence) Sequence {
	if _, ok := t.Sequence.(Metered); ok {
		return evaluated{t.Sequence, t}
	}
	return t.Sequence
}

// open begins a text. Others may have fed the sequence since the last one: what it holds is asked for, or dropped if
// that is not known.
func (t *cachedSequence) open() error {
	if s, ok := t.Sequence.(Listed); ok {
		t.tokens = append(t.tokens[:0], s.Tokens()...)
	}
	if t.Len() != len(t.tokens) {
		t.tokens = t.tokens[:0]
		return t.Truncate(0)
	}
	return t.shorten(t.Len()) // drops a waiting tree
}

// rewind drops what the cache holds beyond its common prefix with sequence without its last token, which is always left
// to be fed. The first known tokens need no comparison.
func (t *cachedSequence) rewind(sequence []int32, known int) error {
	n := min(len(t.tokens), len(sequence)-1)
	i := min(known, n)
	for i < n && t.tokens[i] == sequence[i] {
		i++
	}
	return t.cut(i)
}

// cut keeps the first n tokens; of a draft head's sequence they may be fewer.
func (t *cachedSequence) cut(n int) error {
	if n >= len(t.tokens) {
		return nil
	}
	return t.shorten(n)
}

// shorten truncates the sequence to n tokens.
func (t *cachedSequence) shorten(n int) error {
	if err := t.Truncate(n); err != nil {
		return err
	}
	t.tokens = t.tokens[:min(n, t.Len())]
	return nil
}

// chain feeds tokens as a chain.
func (t *cachedSequence) chain(ctx context.Context, tokens []int32, want engine.Rows) (engine.Logits, error) {
	logits, err := t.eval(ctx, tokens, nil, want)
	if err == nil {
		t.tokens = append(t.tokens, tokens...)
	}
	return logits, err
}

// prefill feeds what the cache lacks of sequence, without logits, and returns the number of passes, about: in bounded
// chunks, or where passes are shared, which cuts chunks by itself, as much as nobody wants the states of at once. So
// the scheduler sees how much another sequence gives of it.
func (t *cachedSequence) prefill(ctx context.Context, sequence []int32) (passes int, err error) {
	_, shared := t.Sequence.(Shared)
	most := prefillChunk
	if s, ok := t.Sequence.(interface{ PassRows() int }); ok { // weights are read from disk in every pass
		most = max(most, s.PassRows())
	}
	if r, ok := t.Sequence.(Recalling); ok && len(t.tokens) == 0 {
		r.Recall(ctx, sequence)
	}
	for len(t.tokens) < len(sequence) {
		chunk, at := sequence[len(t.tokens):], t.known
		if len(t.listeners) == 0 {
			at = len(sequence)
		}
		if n := min(at, len(sequence)) - len(t.tokens); shared && n > 0 && t.prefilled == nil {
			chunk = chunk[:n]
		} else {
			chunk = chunk[:min(len(chunk), most)]
		}
		if _, err := t.chain(ctx, chunk, engine.None); err != nil {
			return passes, err
		}
		passes += (len(chunk) + most - 1) / most
		if t.prefilled != nil {
			t.prefilled(len(t.tokens))
		}
	}
	return passes, nil
}

// warm is prefill of a drafter's sequence before it drafts, without an error where memory is short: the first draft
// asks for it again.
func (t *cachedSequence) warm(ctx context.Context, sequence []int32) error {
	if _, err := t.prefill(ctx, sequence); !refused(err) {
		return err
	}
	return nil
}

// reserve makes room for n tokens, so that later appends do not allocate.
func (t *cachedSequence) reserve(n int) {
	if n > len(t.tokens) {
		t.tokens = slices.Grow(t.tokens, n-len(t.tokens))
	}
}

// encoderOf is t's sequence if its model has an encoder, else nil.
func (t *cachedSequence) encoderOf() Encoding {
	e, ok := t.Sequence.(Encoding)
	if m, known := t.Sequence.(Modeled); !ok || known && !m.Model().Encodes() {
		return nil
	}
	return e
}

// encode gives the encoder its input, unless it has it already: then what the cache holds of a text with this input
// stays.
func (t *cachedSequence) encode(ctx context.Context, ids []int32) error {
	e := t.encoderOf()
	if e == nil || slices.Equal(e.Input(), ids) {
		return nil
	}
	t.tokens = t.tokens[:0]
	done := t.meter()
	defer done()
	return e.Encode(ctx, ids)
}

// compatible checks that draft has the vocabulary of target, if both are known. They may differ by padding at their
// end.
func compatible(target, draft Sequence) error {
	t, ok1 := target.(Modeled)
	d, ok2 := draft.(Modeled)
	if !ok1 || !ok2 {
		return nil
	}
	tt, dt := t.Model().Tokenizer(), d.Model().Tokenizer()
	if tt == nil || dt == nil {
		return nil
	}
	if err := tt.Compatible(dt); err != nil {
		return fmt.Errorf("draft model: %w: %w (Reencode and Intersect draft across vocabularies)", engine.ErrVocabulary, err)
	}
	return nil
}
