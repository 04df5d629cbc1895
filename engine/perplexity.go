package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/specgo/spec/engine/sampling"
)

// PerplexityRows is how many rows of logits [Perplexity] has at a time: they are large.
const PerplexityRows = 32

// Perplexity measures how well a model predicts a sequence, as llama.cpp's perplexity tool does: the sequence is cut
// into chunks of o.Context tokens, 4 at least, the rest is dropped; the first token of each chunk is replaced by BOS,
// if the vocabulary asks for one; the predictions of the second half of each chunk count. The result is exp of the mean
// negative log-likelihood. A sequence shorter than o.Context is one chunk; it needs three tokens for a prediction.
func Perplexity(ctx context.Context, m *Model, ids []int32, o SessionOptions) (float64, error) {
	window := o.Context
	if window < 4 || window > m.config.Context {
		return 0, fmt.Errorf("%w: perplexity over chunks of %d tokens, the model's context is %d", ErrUsage, window,
			m.config.Context)
	}
	if window = min(window, len(ids)); window < 3 {
		return 0, fmt.Errorf("%w: perplexity needs 3 tokens at least, there are %d", ErrUsage, len(ids))
	}
	o.Context = window
	s, err := m.NewSession(o)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	var (
		chunk = make([]int32, window)
		sum   float64
		n     int
	)
	for ; len(ids) >= window; ids = ids[window:] {
		copy(chunk, ids)
		if t := m.tokenizer; t != nil && t.AddsBOS() {
			chunk[0] = t.BOS()
		}
		if err := s.Truncate(0); err != nil {
			return 0, err
		}
		if _, err := s.Eval(ctx, chunk[:window/2], nil, None); err != nil {
			return 0, err
		}
		for at := window / 2; at < window-1; {
			end := min(at+PerplexityRows, window-1)
			out, err := s.Eval(ctx, chunk[at:end], nil, All)
			if err != nil {
				return 0, err
			}
			for i := range out.Rows() {
				sum -= float64(sampling.LogProb(out.Row(i), chunk[at+i+1]))
				n++
			}
			at = end
		}
	}
	return math.Exp(sum / float64(n)), nil
}
