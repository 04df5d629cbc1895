package selftest

import (
	"context"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// headMemo computes a draft head's logits after any text, all positions of which it gives the target's hidden states.
type headMemo struct {
	target, head *engine.Session
	layers       []int
	width        int       // numbers of the target's states for a token
	lead         int       // 1: the head also takes the first token, with zeros
	states       []float32 // of the target's tokens, after those zeros
}

func newHeadMemo(target, head *engine.Model) (h *headMemo, err error) {
	h = &headMemo{}
	if h.target, err = target.NewSession(engine.SessionOptions{}); err != nil {
		return nil, err
	}
	if h.head, err = head.NewSession(engine.SessionOptions{}); err != nil {
		h.target.Close()
		return nil, err
	}
	h.layers = speculative.Model(h.head).(speculative.Attentive).HiddenLayers(h.target)
	h.width = head.Head().TargetStates()
	if head.Head().FirstToken && head.Head().Block == 0 {
		h.lead, h.states = 1, make([]float32, h.width)
	}
	return h, nil
}

func (h *headMemo) close() {
	h.target.Close()
	h.head.Close()
}

// after returns the logits after text, which has two tokens at least.
func (h *headMemo) after(ctx context.Context, text []int32) ([]float32, error) {
	fed, have := text[:len(text)-1], h.target.Tokens() // of the last token the target has no state yet
	same := 0
	for same < min(len(fed), len(have)) && fed[same] == have[same] {
		same++
	}
	if err := h.target.Truncate(same); err != nil {
		return nil, err
	}
	h.states = h.states[:(same+h.lead)*h.width]
	if same < len(fed) {
		r, err := h.target.EvalSegment(ctx, engine.Segment{Tokens: fed[same:], Hidden: engine.All, Layers: h.layers})
		if err != nil {
			return nil, err
		}
		h.states = append(h.states, r.Hidden.Data...)
	}
	o := h.head.Model().Head()
	tokens, held := text[1-h.lead:], h.head.Tokens()
	if o.Block > 0 {
		tokens = text // each goes in with the state at it, the last one begins a block
	}
	n := 0
	for n < min(len(tokens)-1, len(held), same+h.lead) && tokens[n] == held[n] {
		n++
	}
	if err := h.head.Truncate(n); err != nil {
		return nil, err
	}
	g := engine.Segment{Tokens: tokens[n:], States: h.states[n*h.width:], FromTarget: true, Logits: engine.Last}
	if o.Block > 0 {
		g.Tokens, g.Logits = fed[n:], engine.None
		if _, err := h.head.EvalSegment(ctx, g); err != nil {
			return nil, err
		}
		g = o.Drafts(text[len(text)-1], 1)
	}
	r, err := h.head.EvalSegment(ctx, g)
	if err != nil {
		return nil, err
	}
	return r.Logits.Row(0), nil
}
