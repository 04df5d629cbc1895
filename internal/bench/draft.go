package bench

import (
	"fmt"

	"github.com/specgo/spec/engine"
)

// draft measures the steps of the draft model, or of the draft head: passes of one token with logits, in chains. A
// head is fed random hidden states, the first time as if they were the target's. Of a head that drafts blocks a step is
// a whole one, after one token.
func (r *runner) draft() ([]Row, error) {
	m := r.o.Draft
	n := max(1, min(r.o.Decode, m.Config().Context-1))
	o := engine.SessionOptions{KV: r.o.KV}
	if h := m.Head(); h != nil && h.SharesCache { // its steps look at n tokens of the target
		n = min(n, r.m.Config().Context)
		target, err := r.m.NewSession(engine.SessionOptions{Context: n, KV: r.o.KV})
		if err != nil {
			return nil, err
		}
		defer target.Close()
		if _, err := target.Eval(r.ctx, make([]int32, n), nil, engine.None); err != nil {
			return nil, fmt.Errorf("drafting: %w", err)
		}
		o.Target = target
	}
	tokens := make([]int32, min(r.o.DraftVocab, m.Config().Vocab))
	for i := range tokens {
		tokens[i] = int32(i)
	}
	form, err := m.NewDraftVocab(r.ctx, tokens, r.o.DraftText)
	if err != nil {
		return nil, err
	}
	defer form.Close()
	o.Form = form
	s, err := m.NewSession(o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.rng.NormFloat64())
		}
		return x
	}
	var seconds []float64
	spent := 0.0
	for repeat := range r.o.Repeats {
		if err := s.Truncate(0); err != nil {
			return nil, err
		}
		for i := range n + 1 {
			g := engine.Segment{Tokens: []int32{r.rng.Int32N(int32(m.Config().Vocab))}, Logits: engine.Last}
			if h := m.Head(); h != nil {
				if h.Longest > 0 && s.Len() >= h.Longest { // its blocks have drafted a token each
					if err := s.Truncate(1); err != nil {
						return nil, err
					}
				}
				g.Hidden, g.Layers = engine.Last, []int{h.Output}
				g.States = random(m.Config().HiddenSize)
				if g.FromTarget = i == 0 || h.SharesCache; g.FromTarget {
					g.States = random(h.TargetStates())
				}
				if h.Block > 0 {
					if g.Hidden, g.Layers = engine.None, nil; i == 0 {
						g.Logits = engine.None
					} else {
						g = h.Drafts(g.Tokens[0], h.Longest)
					}
				}
			}
			took, err := timed(func() error {
				_, err := s.EvalSegment(r.ctx, g)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("drafting: %w", err)
			}
			if i > 0 { // the first one meets cold memory
				seconds = append(seconds, took)
			}
			spent += took
		}
		if repeat > 0 && r.o.Budget > 0 && spent > r.o.Budget.Seconds() {
			break
		}
	}
	row := r.summary("draft", 1, 0, 0, seconds)
	row.Bytes = 0 // a head reads weights of its target too
	return []Row{row}, nil
}
