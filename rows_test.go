package spec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// counted is a sequence that notes the most rows of logits of a pass.
type counted struct {
	Sequence
	most *atomic.Int64
}

func (c counted) note(l engine.Logits, err error) {
	if err == nil && int64(l.Rows()) > c.most.Load() {
		c.most.Store(int64(l.Rows()))
	}
}

func (c counted) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	l, err := c.Sequence.Eval(ctx, tokens, parents, want)
	c.note(l, err)
	return l, err
}

func (c counted) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	r, err := c.Sequence.EvalSegment(ctx, g)
	c.note(r.Logits, err)
	return r, err
}

// Whatever a request asks for, no pass has more rows of logits than Memory.Rows says: long drafts, trees, an earlier
// answer, what a schema forces and scores of a prompt. The answer is the one without a bound.
func TestRowsOfLogitsAreBounded(t *testing.T) {
	const forcing = `{"type":"object","properties":{"a_name_that_is_long_enough":{"const":"and a value as long as that"}},` +
		`"required":["a_name_that_is_long_enough"],"additionalProperties":false}`
	begin := strings.Repeat("func (r *Ring) Push(", 4)
	earlier := Prompt{Text: strings.Repeat("x := y\n", 40)}
	constant := speculative.Choice{Drafter: "model", Schedule: "constant", Max: 40}
	tree := constant
	tree.Drafter = "tree"
	var most atomic.Int64
	around := func(s Sequence) Sequence { return counted{s, &most} }
	want := map[string][]string{} // without a bound
	for _, parallel := range []int{1, 0} {
		for name, r := range map[string]Request{
			"draft":    {Speculation: constant},
			"tree":     {Speculation: tree},
			"previous": {Speculation: constant, Previous: earlier},
			"schema":   {Speculation: constant, Constraint: Schema([]byte(forcing))},
			"scores":   {LogProbs: true, Scored: true, Top: 2},
		} {
			r.Prompts, r.MaxTokens = []Prompt{{Text: begin}}, 40
			for _, rows := range map[int][]int{1: {0, 2}, 0: {5}}[parallel] {
				m := newModel(t, Options{Parallel: parallel, Around: around, Memory: Memory{Rows: rows}})
				most.Store(0)
				var got []string
				for e, err := range m.Generate(t.Context(), r) {
					if err != nil {
						t.Fatal(name, err)
					}
					line := fmt.Sprintf("%d %q %v %v", e.Token.ID, e.Text, e.Token.LogProb, e.Token.Top)
					if e.Scored != nil {
						line += fmt.Sprintf(", %d scored %v %v", e.Scored.ID, e.Scored.LogProb, e.Scored.Top)
					}
					got = append(got, line)
				}
				if rows == 0 {
					if want[name] = got; most.Load() <= 5 {
						t.Errorf("%s: %d rows without a bound, which proves nothing", name, most.Load())
					}
				}
				if !slices.Equal(got, want[name]) || rows > 0 && most.Load() > int64(rows) {
					t.Errorf("%s, %d rows, %d at once: a pass of %d, the same answer: %v", name, rows, parallel, most.Load(),
						slices.Equal(got, want[name]))
				}
			}
		}
	}
	if _, err := New(Parts{Target: newModel(t, Options{}).Target()}, Options{Memory: Memory{Rows: -1}}); err == nil {
		t.Error("a negative bound is taken")
	}
}
