package speculative

import (
	"context"

	"github.com/specgo/spec/engine"
)

// blockHead is a head that drafts a block of tokens in one pass ([engine.Head].Block): DFlash, DSpark. What the
// target's states give is fed as that of other heads. Then one pass gives a row of logits for every token of a draft,
// by how far it is from the text's end: the rows do not depend on the tokens that are drafted. A tree has the same
// candidates after all nodes of a depth.
type blockHead struct {
	*head
	block engine.Segment // of the longest draft
	rows  engine.Logits  // of this draft's block; none: it has not been computed
}

func newBlockHead(seq *cachedSequence, o *engine.Head) *blockHead {
	return &blockHead{head: &head{seq: seq, most: o.Longest}, block: o.Drafts(0, o.Longest)}
}

// begin begins a draft.
func (b *blockHead) begin() { b.rows = engine.Logits{} }

func (b *blockHead) logits(ctx context.Context, path []int32, written int, d *Draft) ([]float32, error) {
	depth := len(path) - written
	if b.lost || len(b.text) != written-1 {
		return nil, nil
	}
	if depth >= b.rows.Rows() {
		if err := b.draft(ctx, path[written-1], depth, d); err != nil {
			return nil, err
		}
	}
	if depth >= b.rows.Rows() { // it drafts no token so far ahead, or has no room for it
		return nil, nil
	}
	return b.rows.Row(depth), nil
}

// draft computes the block after the text, which ends with the token last: as many rows as the draft may be long, more
// than depth.
func (b *blockHead) draft(ctx context.Context, last int32, depth int, d *Draft) error {
	if err := b.feed(ctx, b.text[b.cached:]); err != nil || b.cached < len(b.text) {
		return err
	}
	n := min(max(d.maxDepth, depth+1), b.most, b.seq.Context()-b.cached-1)
	if n <= depth {
		return nil
	}
	size := len(b.block.Tokens) - b.most + n
	b.block.Tokens[0] = last
	r, err := b.seq.segment(ctx, engine.Segment{Tokens: b.block.Tokens[:size], Parents: b.block.Parents[:size],
		Logits: engine.Rows(n)})
	if err != nil {
		return err
	}
	b.rows = r.Logits
	d.Passes++
	return nil
}
