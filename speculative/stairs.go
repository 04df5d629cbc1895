package speculative

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// Stairs is the method of Grigaliunas and Lukosevicius (2024). A batch has B rows: the text with 0
// to B-1 draft tokens, each predicting one token. The ground truth is row 0 with its prediction;
// row i passes if it equals the ground truth without its prediction, which then becomes row i with
// its prediction; the first row that fails ends the round. At a temperature above 0 predictions are
// samples with shared noise, as in [Match], so the text is plain decoding's at every temperature.
// The schedule for B rows is Constant(B-1, 0).
//
// The rows are beginnings of one another, so one pass over the longest has all predictions: that is
// the fast form, which the zero options choose. The text is the same in every form.
func Stairs(o StairsOptions) Verifier {
	if !o.Recompute && !o.Batch {
		return &match{}
	}
	return &stairs{o: o}
}

// StairsOptions configure [Stairs].
type StairsOptions struct {
	// Batch computes the rows as published: B sequences in one pass of the target, which share the cache of the text and
	// compute the text's last token and their draft tokens each for themselves. It needs an [*engine.Session] as target.
	Batch bool
	// Recompute computes each row from its first token on, without a cache: with Batch in one pass, else one row after
	// the other.
	Recompute bool
}

type stairs struct {
	match
	o    StairsOptions
	data []float32

	batch          engine.Batch
	passes, tokens int // of the last Evaluate
}

// Work is what the last Evaluate cost.
func (s *stairs) Work() (passes, tokens int) { return s.passes, s.tokens }

// Evaluate computes every row by itself. Afterwards the target holds the last one, the sequence with the whole draft,
// as after an ordinary pass.
func (s *stairs) Evaluate(ctx context.Context, target Sequence, sequence []int32, d *Draft) (engine.Logits, error) {
	s.data, s.passes, s.tokens = s.data[:0], 0, 0
	if s.o.Batch {
		return s.evaluateBatch(ctx, target, sequence, d)
	}
	for i := range d.Len() + 1 {
		if err := target.Truncate(0); err != nil {
			return engine.Logits{}, err
		}
		row := append(sequence, d.Tokens[:i]...) // in the sequence's spare capacity
		s.tokens += len(row)
		for len(row) > 1 {
			chunk := row[:min(len(row)-1, prefillChunk)]
			if _, err := target.Eval(ctx, chunk, nil, engine.None); err != nil {
				return engine.Logits{}, err
			}
			s.passes++
			row = row[len(chunk):]
		}
		logits, err := target.Eval(ctx, row, nil, engine.Last)
		if err != nil {
			return engine.Logits{}, err
		}
		s.passes++
		s.data = append(slices.Grow(s.data, logits.Vocab), logits.Row(0)...)
	}
	return engine.Logits{Vocab: target.Vocab(), Data: s.data}, nil
}

// evaluateBatch computes the rows in one pass: forks of the target, and the target itself as the last row.
func (s *stairs) evaluateBatch(ctx context.Context, target Sequence, sequence []int32, d *Draft) (
	engine.Logits, error) {
	session, ok := target.(*engine.Session)
	if !ok {
		return engine.Logits{}, fmt.Errorf("%w: the rows of stairs as one batch need an *engine.Session as target, not %T",
			ErrOptions, target)
	}
	s.batch = s.batch[:0]
	for i := range d.Len() + 1 {
		row := session
		if i < d.Len() {
			var err error
			if row, err = session.Fork(); err != nil {
				return engine.Logits{}, err
			}
			defer row.Close()
		}
		if s.o.Recompute {
			if err := row.Truncate(0); err != nil {
				return engine.Logits{}, err
			}
		}
		tokens := slices.Concat(sequence[row.Len():], d.Tokens[:i])
		s.tokens += len(tokens)
		s.batch = append(s.batch, engine.Segment{Session: row, Tokens: tokens, Logits: engine.Last})
	}
	s.passes = 1
	out, err := session.Model().Forward(ctx, s.batch)
	if err != nil {
		return engine.Logits{}, err
	}
	for i := range out {
		if out[i].Err != nil {
			return engine.Logits{}, out[i].Err
		}
		s.data = append(s.data, out[i].Logits.Row(0)...)
	}
	clear(s.batch)
	return engine.Logits{Vocab: session.Vocab(), Data: s.data}, nil
}
