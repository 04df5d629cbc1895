package speculative

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// Model drafts with a smaller model of the same vocabulary. It samples with the target's settings and seed, hence
// with the same noise, so that it predicts what will be sampled and not only what is likely. Its cache is rolled back
// to what was accepted and never recomputed. When the sequence is longer than its context it drafts nothing.
//
// seq may be that of a draft head, also of [Tree] and [Splice]; the target's passes give the hidden states that it
// reads, which its cache holds for the accepted text:
//
//   - an EAGLE-3 head (Li et al. 2025, arXiv:2503.01840), a session of a model with [engine.Model.TargetLayers];
//   - the multi-token-prediction blocks of the target's file, a session of it opened with [engine.Options].MTP. One
//     block drafts any number of tokens, each on what it computed before. Of several blocks each drafts one token, and
//     paths of drafts end with the last block; candidates of a tree's sources may follow;
//   - Gemma 4's heads, in files of their own: sessions made for the target's ([engine.SessionOptions].Target,
//     [shared.NewLentSession]);
//   - a DFlash head (arXiv:2602.06036), which drafts a block of tokens in one pass: what it gives after a token depends
//     on how far that is from the text's end, and not on the tokens before it. A tree takes its candidates from there.
func Model(seq Sequence) Drafter {
	m := newModelDrafter(seq)
	return &m
}

func newModelDrafter(seq Sequence) modelDrafter {
	m := modelDrafter{seq: cachedSequence{Sequence: seq}}
	return m
}

type modelDrafter struct {
	picker
	seq   cachedSequence
	vocab int       // ids that both models know
	known int       // the cache agrees with the sequence up to here
	head  draftHead // nil: a model by itself
	// ready reports whether the sequence can compute by now; until then it drafts nothing. nil: it always can.
	ready  func() bool
	likely float64 // how likely its tokens are, as [Draft] has it
	unread []int32 // input of its encoder that memory was refused for; nil: it has it, or none
}

// Sequence is the draft model's.
func (m *modelDrafter) Sequence() Sequence { return m.seq.Sequence }

// heading is the drafter's head, nil if the sequence is that of a model by itself.
func (m *modelDrafter) heading() draftHead {
	if m.head == nil {
		m.head = headOf(&m.seq)
	}
	return m.head
}

// HiddenLayers are those of a draft head.
func (m *modelDrafter) HiddenLayers(target Sequence) []int {
	h := m.heading()
	if h == nil {
		return nil
	}
	return h.attendTo(target)
}

// Known is part of [Attentive].
func (m *modelDrafter) Known(ctx context.Context, prompt []int32) (int, error) {
	return m.head.known(ctx, prompt)
}

// Hidden is part of [Attentive].
func (m *modelDrafter) Hidden(ctx context.Context, position int, tokens, _ []int32, s engine.HiddenStates) error {
	return m.head.hidden(ctx, position, tokens, s)
}

// begin begins a draft.
func (m *modelDrafter) begin() {
	if m.head != nil {
		m.head.begin()
	}
}

func (m *modelDrafter) Start(ctx context.Context, s Setup) error {
	if absent(m.seq.Sequence) {
		return fmt.Errorf("draft model: %w: no sequence", ErrOptions)
	}
	if err := compatible(s.Target, m.seq.Sequence); err != nil {
		return err
	}
	m.seq.enlist(s.Clock)
	m.vocab, m.known = min(s.Vocab, m.seq.Vocab()), 0
	if err := m.picker.start(s); err != nil {
		return err
	}
	if m.heading() != nil {
		return m.head.start(s.Prompt)
	}
	if err := m.encode(ctx, s); err != nil || m.unread != nil {
		return err
	}
	if err := m.seq.open(); err != nil {
		return err
	}
	if s.Longest == 0 || len(s.Prompt) > m.seq.Context() || !m.knows(s.Prompt) {
		return nil
	}
	if err := m.seq.rewind(s.Prompt, 0); err != nil {
		return err
	}
	m.seq.reserve(min(m.seq.Context(), len(s.Prompt)+prefillChunk))
	if s.Late {
		return nil
	}
	return m.seq.warm(ctx, s.Prompt[:len(s.Prompt)-1])
}

// encode gives a draft model with an encoder the target's input. Where memory is short for it the first draft asks for
// it again.
func (m *modelDrafter) encode(ctx context.Context, s Setup) error {
	m.unread = nil
	switch {
	case m.seq.encoderOf() == nil || s.Longest == 0:
		return nil
	case s.Input == nil:
		return fmt.Errorf("draft model: %w: an encoder-decoder model, and the target has no encoder", ErrOptions)
	}
	err := m.seq.encode(ctx, s.Input)
	if refused(err) {
		m.unread = slices.Clone(s.Input)
	} else if err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	return nil
}

// knows reports whether the draft model has all these tokens.
func (m *modelDrafter) knows(tokens []int32) bool {
	for _, id := range tokens {
		if int(id) >= m.seq.Vocab() {
			return false
		}
	}
	return true
}

func (m *modelDrafter) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	written := len(sequence)
	sequence = append(sequence, d.Tokens...) // what a constraint forces
	d.Likely = m.likely
	m.begin()
	for d.More() {
		n := d.Len()
		ok, err := m.next(ctx, sequence, written, d)
		if !ok || err != nil {
			return err
		}
		d.Extend(n)
		sequence = append(sequence, d.Tokens[n:]...)
	}
	return nil
}

// Continues says that the model continues forced tokens.
func (m *modelDrafter) Continues() bool { return true }

// next drafts the token after sequence, of which the first written tokens are not drafted. It feeds what the cache
// lacks.
func (m *modelDrafter) next(ctx context.Context, sequence []int32, written int, d *Draft) (bool, error) {
	row, err := m.logits(ctx, sequence, written, d)
	if row == nil || err != nil {
		return false, err
	}
	id, q := m.pick(row, sequence, d)
	return d.Add(id, m.confidence(row, id), q), nil
}

// logits returns the logits after sequence, nil where the model cannot compute them.
func (m *modelDrafter) logits(ctx context.Context, sequence []int32, written int, d *Draft) ([]float32, error) {
	if m.head != nil {
		if !m.knows(sequence[written-1:]) {
			return nil, nil
		}
		row, err := m.head.logits(ctx, sequence, written, d)
		return row[:min(len(row), m.vocab)], err
	}
	if len(sequence) > m.seq.Context() || m.ready != nil && !m.ready() {
		return nil, nil
	}
	if m.unread != nil {
		if err := m.seq.encode(ctx, m.unread); err != nil {
			return nil, err
		}
		m.unread = nil
	}
	if err := m.seq.rewind(sequence, m.known); err != nil {
		return nil, err
	}
	missing := sequence[len(m.seq.tokens):]
	if !m.knows(missing) {
		return nil, nil
	}
	if len(missing) > prefillChunk {
		if _, err := m.seq.prefill(ctx, sequence[:len(sequence)-1]); err != nil {
			return nil, err
		}
		missing = sequence[len(sequence)-1:]
	}
	logits, err := m.seq.chain(ctx, missing, engine.Last)
	if err != nil {
		return nil, err
	}
	m.known = min(written, len(m.seq.tokens))
	d.Passes++
	return logits.Row(0)[:m.vocab], nil
}

func (m *modelDrafter) Observe(r *Round) {
	if m.head != nil {
		m.head.accept(r.Path)
	}
}

// picker chooses tokens from a draft model's logits.
type picker struct {
	sampler *sampling.Sampler
	random  randomStream
	lane    int

	needsProbs, needsConfidence bool
}

func (p *picker) start(s Setup) (err error) {
	p.random, p.needsProbs, p.needsConfidence, p.lane = randomStream{s.Sampling.Seed}, s.NeedsProbs, s.NeedsConfidence,
		s.Lane
	p.sampler, err = sampling.New(s.Vocab, s.Sampling)
	return err
}

// pick chooses the token after sequence: with the shared noise, or, for verifiers that need probabilities, by an
// independent draw from q, which it returns too.
func (p *picker) pick(row []float32, sequence []int32, d *Draft) (int32, []sampling.Prob) {
	if !p.needsProbs {
		return p.sampler.Pick(row, sequence), nil
	}
	all := d.distributions()
	q := all.keep(p.sampler.AppendDistribution(all.next(), row, sequence))
	return draw(q, p.random.uniform(len(sequence), forDraft, d.Round, p.lane<<16+d.Len())), q
}

// confidence is the raw probability of a token, if the schedule needs it.
func (p *picker) confidence(row []float32, id int32) float32 {
	if !p.needsConfidence || id < 0 {
		return 1
	}
	return sampling.Probability(row, id)
}
