package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/speculative"
)

// chains drafts with a head from every token of a text after its prompt on, as long as the head writes what the text
// says. The target is asked once for its hidden states.
func (c Config) chains(ctx context.Context, target, head *engine.Session, text []int32, prompt int) (
	all [][]step, err error) {
	all = [][]step{}
	layers := speculative.Model(head).(speculative.Attentive).HiddenLayers(target)
	h := c.Draft.Head()
	width := h.TargetStates()
	lead := 0
	if h.FirstToken && h.Block == 0 {
		lead = 1
	}
	states := make([]float32, lead*width)
	for _, s := range []*engine.Session{target, head} {
		if err := s.Truncate(0); err != nil {
			return nil, err
		}
	}
	const chunk = 128
	for at := 0; at < len(text)-1; at += chunk {
		r, err := target.EvalSegment(ctx, engine.Segment{
			Tokens: text[at:min(at+chunk, len(text)-1)], Hidden: engine.All, Layers: layers})
		if err != nil {
			return nil, fmt.Errorf("measuring the draft head: %w", err)
		}
		states = append(states, r.Hidden.Data...)
	}
	sampler, err := sampling.New(c.Target.Config().Vocab, c.Sampling)
	if err != nil {
		return nil, err
	}
	tokens := text[1-lead:] // tokens[i] goes in with states[i]
	if h.Block > 0 {
		tokens = text
	}
	for at := prompt; at < len(text); at++ { // text[at] is the first that is drafted
		from, to := head.Len(), at-1+lead // what the target's states give
		g := engine.Segment{Tokens: tokens[from:to], States: states[from*width : to*width], FromTarget: true}
		var chain []step
		if to == 0 { // the target has no state yet
			all = append(all, nil)
			continue
		}
		if h.Block > 0 {
			chain, err := c.block(ctx, head, g, text[:at], text[at:], sampler)
			if err != nil {
				return nil, err
			}
			all = append(all, chain)
			continue
		}
		for n := 0; n < c.longest() && at+n < len(text); n++ {
			g.Logits, g.Hidden, g.Layers = engine.Last, engine.Last, []int{h.Output}
			r, err := head.EvalSegment(ctx, g)
			if err != nil {
				return nil, fmt.Errorf("measuring the draft head: %w", err)
			}
			row := r.Logits.Row(0)
			id := sampler.Pick(row, text[:at+n])
			chain = append(chain, step{id == text[at+n], sampling.Probability(row, id)})
			if id != text[at+n] {
				break
			}
			g = engine.Segment{Tokens: []int32{id}, States: slices.Clone(r.Hidden.Row(0))}
		}
		all = append(all, chain)
		if err := head.Truncate(to); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// block feeds a head what the target's states give of a text, and drafts a block after it, as long as the head writes
// what comes.
func (c Config) block(ctx context.Context, head *engine.Session, states engine.Segment, text, comes []int32,
	sampler *sampling.Sampler) (chain []step, err error) {
	if _, err := head.EvalSegment(ctx, states); err != nil {
		return nil, fmt.Errorf("measuring the draft head: %w", err)
	}
	r, err := head.EvalSegment(ctx, c.Draft.Head().Drafts(text[len(text)-1], c.longest()))
	if err != nil {
		return nil, fmt.Errorf("measuring the draft head: %w", err)
	}
	for n := 0; n < min(c.longest(), len(comes)); n++ {
		id := sampler.Pick(r.Logits.Row(n), slices.Concat(text, comes[:n]))
		chain = append(chain, step{id == comes[n], sampling.Probability(r.Logits.Row(n), id)})
		if id != comes[n] {
			break
		}
	}
	return chain, nil
}
