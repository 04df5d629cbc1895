package speculative

import (
	"context"
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
// the fast mode. The faithful mode computes each row by itself from its first token on, as published.
func Stairs(o StairsOptions) Verifier {
	if o.Recompute {
		return &stairs{}
	}
	return &match{}
}

// StairsOptions configure [Stairs].
type StairsOptions struct {
	Recompute bool // compute each row by itself from its first token on, as published
}

type stairs struct {
	match
	data []float32
}

// Evaluate computes every row anew. Afterwards the target holds the last one, the sequence with the whole draft, as
// after an ordinary pass.
func (s *stairs) Evaluate(ctx context.Context, target Sequence, sequence []int32, d *Draft) (engine.Logits, error) {
	s.data = s.data[:0]
	for i := range d.Len() + 1 {
		if err := target.Truncate(0); err != nil {
			return engine.Logits{}, err
		}
		row := append(sequence, d.Tokens[:i]...) // in the sequence's spare capacity
		for len(row) > 1 {
			chunk := row[:min(len(row)-1, prefillChunk)]
			if _, err := target.Eval(ctx, chunk, nil, engine.None); err != nil {
				return engine.Logits{}, err
			}
			row = row[len(chunk):]
		}
		logits, err := target.Eval(ctx, row, nil, engine.Last)
		if err != nil {
			return engine.Logits{}, err
		}
		s.data = append(slices.Grow(s.data, logits.Vocab), logits.Row(0)...)
	}
	return engine.Logits{Vocab: target.Vocab(), Data: s.data}, nil
}
