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
func Stairs(faithful bool) Verifier {
	if faithful {
		return &stairs{}
	}
	return &match{}
}

type stairs struct {
	match
	data []float32
}

// evaluate computes every row anew. Afterwards the cache holds the last one, the text with the
// whole draft, as after an ordinary pass.
func (s *stairs) evaluate(ctx context.Context, target *tracked, text []int32, d *Draft) (engine.Logits, error) {
	s.data = s.data[:0]
	for i := range d.Len() + 1 {
		if err := target.cut(0); err != nil {
			return engine.Logits{}, err
		}
		row := append(text, d.Tokens[:i]...) // in the text's spare capacity
		if _, err := target.prefill(ctx, row[:len(row)-1]); err != nil {
			return engine.Logits{}, err
		}
		logits, err := target.chain(ctx, row[len(row)-1:], engine.Last)
		if err != nil {
			return engine.Logits{}, err
		}
		s.data = append(slices.Grow(s.data, logits.Vocab), logits.Row(0)...)
	}
	return engine.Logits{Vocab: target.Vocab(), Data: s.data}, nil
}
