package speculative

import (
	"context"
	"math"

	"github.com/specgo/spec/engine"
)

// Model drafts with a smaller model of the same vocabulary. It picks with the target's sampling
// settings and seed, hence with the same noise, so that it guesses what will be sampled and not
// only what is likely. Its cache is rolled back to what was accepted and never recomputed. When the
// text outgrows its context it stops drafting.
func Model(seq Sequence) Drafter { return &modelDrafter{seq: tracked{Sequence: seq}} }

type modelDrafter struct {
	seq     tracked
	vocab   int // ids that both models know
	sampler *engine.Sampler
	dice    dice
	setup   Setup
	known   int           // the cache agrees with the text up to here
	q       []engine.Prob // storage of the distributions of one draft
}

func (m *modelDrafter) Start(ctx context.Context, s Setup) error {
	if err := compatible(s.Target, m.seq.Sequence); err != nil {
		return err
	}
	if err := m.seq.open(); err != nil {
		return err
	}
	m.vocab = min(s.Vocab, m.seq.Vocab())
	sampler, err := engine.NewSampler(s.Vocab, s.Sampling)
	if err != nil {
		return err
	}
	m.sampler, m.setup, m.known, m.dice = sampler, s, 0, dice{s.Sampling.Seed}
	m.setup.Prompt = nil
	if s.Longest == 0 || len(s.Prompt) > m.seq.Context() || !m.speaks(s.Prompt) {
		return nil
	}
	if err := m.seq.rewind(s.Prompt, 0); err != nil {
		return err
	}
	m.seq.reserve(min(m.seq.Context(), len(s.Prompt)+prefillChunk))
	_, err = m.seq.prefill(ctx, s.Prompt[:len(s.Prompt)-1])
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
		m.q = m.q[:0]
	}
	if len(text) > m.seq.Context() {
		return false, nil
	}
	if err := m.seq.rewind(text, m.known); err != nil {
		return false, err
	}
	missing := text[len(m.seq.tokens):]
	if !m.speaks(missing) {
		return false, nil
	}
	if len(missing) > prefillChunk {
		if _, err := m.seq.prefill(ctx, text[:len(text)-1]); err != nil {
			return false, err
		}
		missing = text[len(text)-1:]
	}
	logits, err := m.seq.chain(ctx, missing, engine.Last)
	if err != nil {
		return false, err
	}
	m.known = min(written, len(m.seq.tokens))
	d.Passes++
	row := logits.Row(0)[:m.vocab]
	id, q := m.pick(row, text, d)
	return d.Add(id, m.confidence(row, id), q), nil
}

// pick chooses the token after text: by the shared noise, or, for rules that weigh p against q,
// by an independent draw from q, which is returned with it.
func (m *modelDrafter) pick(row []float32, text []int32, d *Draft) (int32, []engine.Prob) {
	if !m.setup.Probs {
		return m.sampler.Pick(row, text), nil
	}
	from := len(m.q)
	m.q = m.sampler.AppendDistribution(m.q, row, text)
	q := m.q[from:len(m.q):len(m.q)]
	return draw(q, m.dice.roll(len(text), forDraft, d.Round, m.setup.Lane<<16+d.Len())), q
}

func (m *modelDrafter) confidence(row []float32, id int32) float32 {
	if !m.setup.Trust || id < 0 {
		return 1
	}
	return float32(math.Exp(float64(engine.LogProb(row, id))))
}

func (m *modelDrafter) Observe(*Round) {}
