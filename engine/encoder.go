package engine

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/specgo/spec/tensor"
)

// MaxInput is the most tokens of an encoder's input: more would take hours, and memory by the gigabyte. Positions are
// relative, so that the model's context length is none.
const MaxInput = 1 << 17

// Encodes reports whether the model has an encoder, whose input [Session.Encode] sets.
func (m *Model) Encodes() bool { return m.encoder != nil }

// DecoderStart is the token that the decoder's sequences begin with: the file's decoder_start_token_id, or else its
// tokenizer's beginning-of-text token. It is -1 for a model without an encoder, and where the file says neither.
func (m *Model) DecoderStart() int32 { return m.start }

// Encode sets the encoder's input, of an encoder-decoder model, and begins an empty sequence. What is computed of the
// input, the keys and values of cross-attention, is kept for all later passes, and shared with forks. The logits at a
// position depend on it as on the tokens before.
//
// The input is not part of the sequence, and its end-of-text token, if the model expects one, is the caller's to
// append. Its length is not bounded by the context. An empty input and a model without an encoder give ErrInput; ids
// outside the vocabulary ErrVocabulary. If it fails, the session keeps its input and its sequence.
func (s *Session) Encode(ctx context.Context, ids []int32) error {
	if s == nil || s.m == nil {
		return fmt.Errorf("%w: no session", ErrUsage)
	}
	s.m.rt.t.Lock()
	defer s.m.rt.t.Unlock()
	return s.setInput(ctx, ids)
}

// Encode is [Session.Encode] of a session of a model of the Runtime, whose time it adds to Took.
func (t *Turn) Encode(ctx context.Context, s *Session, ids []int32) error {
	t.rt.t.Lock()
	defer t.rt.t.Unlock()
	begin := time.Now()
	defer func() { t.Took += time.Since(begin) }()
	return s.setInput(ctx, ids)
}

// EncodeNeed is the number of bytes that Encode allocates for an input of n tokens: those that the session keeps, and
// those that it has meanwhile, at most.
func (s *Session) EncodeNeed(n int) (kept, during int64) {
	c, slots := s.m.config, int64(pageSlots(n))
	shape := tensor.KVShape{Layers: s.layers, Heads: c.Heads, HeadDim: c.HeadDim, Type: s.storage}
	one := tensor.KVShape{Layers: 1, Heads: c.Heads, HeadDim: c.HeadDim, Type: tensor.KVF32}
	states := 4 * int64(n) * int64(c.HiddenSize+c.Heads*c.HeadDim) // residual stream, queries
	return slots * shape.SlotBytes(), slots*one.SlotBytes() + states
}

// setInput is Encode for those who hold the runtime's lock.
func (s *Session) setInput(ctx context.Context, ids []int32) error {
	in, err := s.encode(ctx, ids)
	if err != nil {
		return fmt.Errorf("%s: encoder: %w", s.m.name, err)
	}
	s.input.drop()
	s.input = in
	s.tokens, s.valid = s.tokens[:0], 0
	s.text.cut(0)
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	return nil
}

// encode is Encode for those who hold the runtime's lock. It does not change the session.
func (s *Session) encode(ctx context.Context, ids []int32) (*input, error) {
	m := s.m
	if s.closed {
		return nil, fmt.Errorf("session: %w", ErrClosed)
	}
	if err := m.checkInput(ids); err != nil {
		return nil, err
	}
	p := m.rt.pass
	p.begin(ctx, make([]Result, 1))
	defer p.end()
	states, err := m.encoder.encode(p, ids)
	if err != nil {
		return nil, err
	}
	kv, err := tensor.NewKV(tensor.KVShape{Layers: s.layers, Heads: m.config.Heads, HeadDim: m.config.HeadDim,
		Type: s.storage, Context: pageSlots(len(ids))})
	if err != nil {
		return nil, err
	}
	kv.Meter(s.used)
	if err := kv.Grow(pageSlots(len(ids))); err != nil {
		kv.Close()
		return nil, err
	}
	m.encoder.cross(p, ids, states, s.layers, kv)
	if err := cmp.Or(p.err, p.results[0].Err); err != nil {
		kv.Close()
		return nil, err
	}
	return &input{slices.Clone(ids), kv}, nil
}

// CheckInput is the error that [Session.Encode] would have for an input, before anything is computed; nil: none.
func (m *Model) CheckInput(ids []int32) error {
	if m == nil {
		return fmt.Errorf("%w: no model", ErrUsage)
	}
	if err := m.checkInput(ids); err != nil {
		return fmt.Errorf("%s: encoder: %w", m.name, err)
	}
	return nil
}

// checkInput checks an encoder's input.
func (m *Model) checkInput(ids []int32) error {
	switch {
	case m.closed.Load() || m.rt.closed.Load():
		return ErrClosed
	case m.encoder == nil:
		return fmt.Errorf("%w: a %s model has none", ErrInput, m.config.Architecture)
	case len(ids) == 0:
		return fmt.Errorf("%w: an empty input", ErrInput)
	case len(ids) > MaxInput:
		return fmt.Errorf("%w: %d tokens, at most %d", ErrInput, len(ids), MaxInput)
	}
	for j, id := range ids {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("token %d: %w: id %d of %d", j, ErrVocabulary, id, m.config.Vocab)
		}
	}
	return nil
}

// EncoderStates computes the encoder's states of an input [len(ids)][HiddenSize], after its final norm. It is all
// that an encoder alone (architecture t5encoder) computes; the errors are those of [Session.Encode].
func (m *Model) EncoderStates(ctx context.Context, ids []int32) ([]float32, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: no model", ErrUsage)
	}
	m.rt.t.Lock()
	defer m.rt.t.Unlock()
	states, err := m.states(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("%s: encoder: %w", m.name, err)
	}
	return states, nil
}

func (m *Model) states(ctx context.Context, ids []int32) ([]float32, error) {
	if err := m.checkInput(ids); err != nil {
		return nil, err
	}
	p := m.rt.pass
	p.begin(ctx, make([]Result, 1))
	defer p.end()
	states, err := m.encoder.encode(p, ids)
	if err := cmp.Or(err, p.err, p.results[0].Err); err != nil {
		return nil, err
	}
	if !tensor.Finite(states) {
		return nil, ErrNotFinite
	}
	return states, nil
}

// Input is the encoder's input that [Session.Encode] set last, nil if there is none. It must not be changed.
func (s *Session) Input() []int32 {
	if s.input == nil {
		return nil
	}
	return s.input.ids
}

// round is the rows of an encoder's input that go through a layer together.
type round struct{ from, to, all int }

// rounds cuts an input into rounds and makes each the pass's. It ends early where something has failed.
func (p *pass) rounds(ids []int32) iter.Seq[round] {
	return func(yield func(round) bool) {
		for from := 0; from < len(ids); from += passRows {
			if p.err == nil {
				p.err = p.ctx.Err()
			}
			if p.err != nil {
				return
			}
			r := round{from, min(from+passRows, len(ids)), len(ids)}
			p.tokens = append(p.tokens[:0], ids[r.from:r.to]...)
			p.owner = sized(&p.owner, len(p.tokens))
			clear(p.owner) // there is one segment
			if !yield(r) {
				return
			}
		}
	}
}

// of is the round's rows of x [n][width].
func (r round) of(x []float32, width int) []float32 { return x[r.from*width : r.to*width] }

// segment is the round's tokens, which see all of the input.
func (r round) segment(kv *tensor.KV) tensor.AttentionSegment {
	return tensor.AttentionSegment{KV: kv, Start: r.from, Tokens: r.to - r.from, Keys: r.all}
}

// store puts k and v [rows][H][d] into layer of s's cache.
func (p *pass) store(layer int, k, v []float32, s tensor.AttentionSegment) {
	if p.err == nil {
		p.fail(p.t.StoreKV(layer, k, v, []tensor.AttentionSegment{s}))
	}
}

// attendTo computes out [rows][H][d] = softmax(q Kᵀ + bias) V over all keys of s.
func (p *pass) attendTo(out []float32, o tensor.AttentionOptions, q []float32, s tensor.AttentionSegment) {
	if p.err == nil {
		p.fail(p.t.Attention(out, q, o, []tensor.AttentionSegment{s}))
	}
}

// attendInput is cross-attention: out [rows][H][d] = softmax(q Kᵀ) V over the keys of each row's encoder input.
func (p *pass) attendInput(out []float32, o tensor.AttentionOptions, q []float32) {
	if p.err == nil {
		p.fail(p.t.Attention(out, q, o, p.crossed))
	}
}
