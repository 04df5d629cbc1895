package speculative

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// costLengths are the tokens of the passes that MeasureCosts measures.
var costLengths = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}

// MeasureCosts measures the time of passes of a few lengths, each several times: some 30 passes, or about as long as 60
// tokens take to decode. The sequence is left as it was. What was measured holds for its model and runtime; it can be
// kept in a file.
func MeasureCosts(ctx context.Context, target Sequence) (PassCosts, error) {
	return measureCosts(ctx, target, monotonic())
}

func measureCosts(ctx context.Context, target Sequence, now func() time.Duration) (p PassCosts, err error) {
	if absent(target) {
		return PassCosts{}, fmt.Errorf("%w: no target sequence", ErrOptions)
	}
	const repeats = 3
	begin, room := target.Len(), target.Context()-target.Len()
	tokens := make([]int32, costLengths[len(costLengths)-1])
	for _, n := range costLengths {
		if n > room {
			break
		}
		p.Tokens, p.Seconds = append(p.Tokens, n), append(p.Seconds, 0)
	}
	times := make([][]float64, len(p.Tokens))
	for range repeats { // interleaved, so that a change of speed meets all lengths
		for i, n := range p.Tokens {
			start := now()
			if _, err := target.Eval(ctx, tokens[:n], nil, engine.Rows(n)); err != nil {
				return PassCosts{}, fmt.Errorf("measuring costs: %w", err)
			}
			times[i] = append(times[i], seconds(now()-start))
			if err := target.Truncate(begin); err != nil {
				return PassCosts{}, fmt.Errorf("measuring costs: %w", err)
			}
		}
	}
	for i := range times {
		slices.Sort(times[i])
		p.Seconds[i] = times[i][len(times[i])/2]
	}
	return p, nil
}
