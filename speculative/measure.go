package speculative

import (
	"context"
	"fmt"
	"time"

	"github.com/specgo/spec/engine"
)

// differentTokens are n tokens of a vocabulary: with equal ones a mixture of experts would read fewer experts than a
// text does.
func differentTokens(n, vocab int) []int32 {
	const step = 7919 // a prime: neighbors differ, also in what their ids stand for
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i + 1) * step % vocab)
	}
	return ids
}

const (
	// estimateBytes are the weights that an estimating pass reads at least: more than caches hold, so that they come
	// from memory.
	estimateBytes = 64 << 20
	// estimateSpread is the relative standard deviation of an estimate: of one pass over a part of the layers.
	estimateSpread = 0.06
)

// measuredInput is the tokens of an encoder's input that passes are measured with: those of a sentence. They cost
// little beside the weights.
const measuredInput = 32

// estimateLengths are the tokens of the passes of EstimateCosts; the first is repeated, as a first pass meets cold
// memory.
var estimateLengths = []int{1, 1, 2, 3, 4, 8, 16}

// EstimateCosts estimates the times of a model's passes from eight passes over its first layers, as few as read more
// weights than a cache holds. For a model of many layers that takes less time than one token. The estimates are
// within some 5 % on a quiet machine. Of a model whose weights are read from disk it says nothing, as the time of its
// layers depends on what was read before: a schedule learns these costs from its first rounds.
func EstimateCosts(ctx context.Context, m *engine.Model, o engine.SessionOptions) (PassCosts, error) {
	if m == nil {
		return PassCosts{}, fmt.Errorf("%w: no model", ErrOptions)
	}
	if m.Memory().Streams() {
		return PassCosts{}, nil
	}
	all := m.Config().Layers
	o.Layers = min(all, 1+int(int64(all)*estimateBytes/max(m.Bytes(), 1)))
	o.Context = min(m.Config().Context, estimateLengths[len(estimateLengths)-1])
	part, err := m.NewSession(o)
	if err != nil {
		return PassCosts{}, fmt.Errorf("estimating costs: %w", err)
	}
	defer part.Close()
	if m.Encodes() {
		if err := part.Encode(ctx, differentTokens(measuredInput, part.Vocab())); err != nil {
			return PassCosts{}, fmt.Errorf("estimating costs: %w", err)
		}
	}
	return estimateCosts(ctx, part, float64(all)/float64(o.Layers), monotonic())
}

// estimateCosts measures a part of a model's layers. The model has times as many. The output matrix is measured for one
// token and assumed to behave like the layers.
func estimateCosts(ctx context.Context, part Sequence, times float64, now func() time.Duration) (
	p PassCosts, err error) {
	room := part.Context()
	tokens := differentTokens(min(room, estimateLengths[len(estimateLengths)-1]), part.Vocab())
	pass := func(n int, want engine.Rows) (float64, error) {
		start := now()
		_, err := part.Eval(ctx, tokens[:n], nil, want)
		took := seconds(now() - start)
		if err == nil {
			err = part.Truncate(0)
		}
		if err != nil {
			return 0, fmt.Errorf("estimating costs: %w", err)
		}
		return took, nil
	}
	for _, n := range estimateLengths {
		if n > room {
			break
		}
		took, err := pass(n, engine.None)
		if err != nil {
			return PassCosts{}, err
		}
		if i := len(p.Tokens) - 1; i >= 0 && p.Tokens[i] == n {
			p.Seconds[i] = min(p.Seconds[i], took)
			continue
		}
		p.Tokens, p.Seconds = append(p.Tokens, n), append(p.Seconds, took)
	}
	whole, err := pass(1, engine.Last)
	if err != nil {
		return PassCosts{}, err
	}
	layers := p.Seconds[0]
	one := float64(layers*times) + max(0, whole-layers) // of the model
	for i := range p.Seconds {
		p.Seconds[i] *= one / layers
	}
	p.Spread = estimateSpread
	return p, nil
}
