package engine

import "github.com/specgo/spec/tensor"

// laguna is Laguna (Poolside): windows in all layers but the first of four, which have more heads and another rotation;
// gates of attention's result; experts behind plain layers.
func laguna(l *loader, c *Config) family {
	f := qwen3(l, c)
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 { // M.1 has none
		f.attention.windowed, f.rope.windowUnscaled = l.windowAfter(4), true
		f.rope.windowDims = l.windowDims(c)
	}
	f.attention.own = func(b *build, i int) mixer {
		each := 1 // of a head: some layers have a gate for each of its numbers
		if t, ok := l.f.Tensor(l.block(i) + "attn_gate.weight"); ok && len(t.Dims) == 2 &&
			t.Dims[1] != uint64(l.queryHeads[i]) {
			each = c.HeadDim
		}
		return b.outputGate(i, each, tensor.Softplus)
	}
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	o := l.byKeys(gateSigmoid, expertOptions{width: width, mustChoose: true, dense: l.leadingDense()})
	o.shared = l.integerOr("expert_shared_feed_forward_length", width*l.integerOr("expert_shared_count", 1))
	f.feed.experts = l.experts(c, o)
	return f
}
