package serve

import (
	"cmp"
	"context"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// rowTap sees the logits that predicted each token: the verifier is the one place that has them and knows which are used.
type rowTap struct {
	speculative.Verifier
	top  int
	rows [][]sampling.Prob // of the round's tokens that were not asked for yet
}

// tap observes a verifier. One that evaluates by itself stays one.
func (t *rowTap) tap(v speculative.Verifier) speculative.Verifier {
	t.Verifier = v
	if e, ok := v.(speculative.Evaluator); ok {
		return &evaluatorTap{t, e}
	}
	return t
}

type evaluatorTap struct {
	*rowTap
	e speculative.Evaluator
}

func (t *evaluatorTap) Evaluate(ctx context.Context, target speculative.Sequence, sequence []int32, d *speculative.Draft) (engine.Logits, error) {
	return t.e.Evaluate(ctx, target, sequence, d)
}

func (t *rowTap) Verify(v *speculative.Verification) {
	t.Verifier.Verify(v)
	t.rows = t.rows[:0]
	row := 0
	for _, i := range v.Path {
		t.rows = append(t.rows, best(v.Logits.Row(row), t.top))
		row = int(i) + 1
	}
	t.rows = append(t.rows, best(v.Logits.Row(row), t.top))
}

// next are the alternatives of the next token.
func (t *rowTap) next() []sampling.Prob {
	if len(t.rows) == 0 {
		return nil
	}
	row := t.rows[0]
	t.rows = t.rows[1:]
	return row
}

// best are the n greatest logits, as logarithms of probabilities, the greatest first and the lower id on a tie.
func best(row []float32, n int) []sampling.Prob {
	order := func(a, b sampling.Prob) int { return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.ID, b.ID)) }
	list := make([]sampling.Prob, 0, n+1)
	for id, x := range row {
		if len(list) == n && !(x > list[n-1].P) {
			continue
		}
		p := sampling.Prob{ID: int32(id), P: x}
		at, _ := slices.BinarySearchFunc(list, p, order)
		if list = slices.Insert(list, at, p); len(list) > n {
			list = list[:n]
		}
	}
	if len(list) > 0 {
		sum := list[0].P - sampling.LogProb(row, list[0].ID) // log of the sum of exponentials: one pass over the row for all of them
		for i := range list {
			list[i].P -= sum
		}
	}
	return list
}
