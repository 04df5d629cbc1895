package speculative

import (
	"context"
	"slices"

	"github.com/specgo/spec/engine"
)

// draftHead is a draft head's part of a drafter.
type draftHead interface {
	// attendTo is told the target and returns the layers of it that the head reads.
	attendTo(target Sequence) []int
	// known and hidden are those of [Attentive].
	known(ctx context.Context, prompt []int32) (int, error)
	hidden(ctx context.Context, position int, tokens []int32, s engine.HiddenStates) error
	// start begins drafting for a text whose prompt the target has.
	start(prompt []int32) error
	// begin begins a draft.
	begin()
	// logits returns the logits after path, the first written tokens of which are not drafted; nil where the head cannot
	// compute them.
	logits(ctx context.Context, path []int32, written int, d *Draft) ([]float32, error)
	// accept is told, by the path's indices, which of the draft's pass is part of the text.
	accept(path []int32)
}

// headOf is the head of a sequence, nil if it is no head's.
func headOf(seq *cachedSequence) draftHead {
	if absent(seq.Sequence) {
		return nil
	}
	m, ok := seq.Sequence.(Modeled)
	if !ok || m.Model().Head() == nil {
		return nil
	}
	switch h := m.Model().Head(); {
	case h.SharesCache:
		return &assistant{seq: seq, layers: slices.Clone(h.TargetLayers), output: []int{h.Output}}
	case h.Block > 0:
		return newBlockHead(seq, h)
	default:
		return newHead(seq, h)
	}
}
