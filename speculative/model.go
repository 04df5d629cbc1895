package speculative

import (
	"context"
	"fmt"

	"github.com/specgo/spec/engine"
)

// Model drafts with a smaller model of the same vocabulary. It picks with the target's sampling
// settings and seed, hence with the same noise, so that it guesses what will be sampled and not
// only what is likely. Its cache is rolled back to what was accepted and never recomputed. When the
// text outgrows its context it stops drafting.
func Model(seq Sequence) Drafter { return &modelDrafter{seq: tracked{Sequence: seq}} }

type modelDrafter struct {
	picker
	seq   tracked
	vocab int // ids that both models know
	known int // the cache agrees with the text up to here
}

func (m *modelDrafter) Start(ctx context.Context, s Setup) error {
	if absent(m.seq.Sequence) {
		return fmt.Errorf("draft model: %w: no sequence", ErrOptions)
	}
	if err := compatible(s.Target, m.seq.Sequence); err != nil {
		return err
	}
	if err := m.seq.open(); err != nil {
		return err
	}
	m.vocab, m.known = min(s.Vocab, m.seq.Vocab()), 0
	if err := m.picker.start(s); err != nil {
		return err
	}
	if s.Longest == 0 || len(s.Prompt) > m.seq.Context() || !m.speaks(s.Prompt) {
		return nil
	}
	if err := m.seq.rewind(s.Prompt, 0); err != nil {
		return err
	}
	m.seq.reserve(min(m.seq.Context(), len(s.Prompt)+prefillChunk))
	_, err := m.seq.prefill(ctx, s.Prompt[:len(s.Prompt)-1])
	return err
}

// speaks reports whether the draft model knows all these tokens.
func (m *modelDrafter) speaks(tokens []int32) bool {
	for _, id := range tokens {
		if int(id) >= m.seq.Vocab() {
			return false
		}
	}
	return true
}

func (m *modelDrafter) Draft(ctx context.Context, text []int32, d *Draft) error {
	written := len(text)
	for d.More() {
		ok, err := m.next(ctx, text, written, d)
		if !ok || err != nil {
			return err
		}
		text = append(text, d.Tokens[d.Len()-1])
	}
	return nil
}

// next drafts the token after text, of which the first written tokens are certain. It feeds what
// the cache lacks.
func (m *modelDrafter) next(ctx context.Context, text []int32, written int, d *Draft) (bool, error) {
	if d.Len() == 0 {
		m.begin()
	}
	row, err := m.logits(ctx, text, written, d)
	if row == nil || err != nil {
		return false, err
	}
	id, q := m.pick(row, text, d)
	return d.Add(id, m.confidence(row, id), q), nil
}

// logits of the token after text, nil where the model cannot tell.
func (m *modelDrafter) logits(ctx context.Context, text []int32, written int, d *Draft) ([]float32, error) {
	if len(text) > m.seq.Context() {
		return nil, nil
	}
	if err := m.seq.rewind(text, m.known); err != nil {
		return nil, err
	}
	missing := text[len(m.seq.tokens):]
	if !m.speaks(missing) {
		return nil, nil
	}
	if len(missing) > prefillChunk {
		if _, err := m.seq.prefill(ctx, text[:len(text)-1]); err != nil {
			return nil, err
		}
		missing = text[len(text)-1:]
	}
	logits, err := m.seq.chain(ctx, missing, engine.Last)
	if err != nil {
		return nil, err
	}
	m.known = min(written, len(m.seq.tokens))
	d.Passes++
	return logits.Row(0)[:m.vocab], nil
}

func (m *modelDrafter) Observe(*Round) {}

// picker chooses a model drafter's tokens from its logits.
type picker struct {
	sampler *engine.Sampler
	dice    dice
	probs   bool
	trust   bool
	lane    int
	q       []engine.Prob // storage of the distributions of one draft
}

func (p *picker) start(s Setup) (err error) {
	p.dice, p.probs, p.trust, p.lane = dice{s.Sampling.Seed}, s.NeedsProbs, s.NeedsConfidence, s.Lane
	p.sampler, err = engine.NewSampler(s.Vocab, s.Sampling)
	return err
}

// begin begins a draft.
func (p *picker) begin() { p.q = p.q[:0] }

// pick chooses the token after text: by the shared noise, or, for rules that weigh p against q,
// by an independent draw from q, which is returned with it.
func (p *picker) pick(row []float32, text []int32, d *Draft) (int32, []engine.Prob) {
	if !p.probs {
		return p.sampler.Pick(row, text), nil
	}
	from := len(p.q)
	p.q = p.sampler.AppendDistribution(p.q, row, text)
	q := p.q[from:len(p.q):len(p.q)]
	return draw(q, p.dice.roll(len(text), forDraft, d.Round, p.lane<<16+d.Len())), q
}

// confidence is the raw probability of a token, if the schedule looks at it.
func (p *picker) confidence(row []float32, id int32) float32 {
	if !p.trust || id < 0 {
		return 1
	}
	return engine.Probability(row, id)
}
