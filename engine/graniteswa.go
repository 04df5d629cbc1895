package engine

// graniteSWA is Granite with windows (IBM 2026): granite, or graniteMoE, whose file says for each layer whether it has
// a window and whether it is rotated; sinks in all layers. The gate of the shared expert is in its matrix ffn_up.
func graniteSWA(l *loader, c *Config) family {
	f := graniteBlock(l)
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), l.windows()
	if rotated := "attention.rope_pattern"; l.has(rotated) {
		f.rope.layers = l.flags(rotated)
	}
	f.attention.own = func(b *build, i int) mixer {
		a := b.attention(i)
		a.scores.Sinks = b.vector(b.block(i)+"attn_sinks.weight", a.heads)
		return a
	}
	if f.feed.experts = l.experts(c, expertOptions{width: c.FeedForward, normalize: true}); f.feed.experts == nil {
		return f
	}
	if shared := l.integerOr("expert_shared_feed_forward_length", 0); shared > 0 {
		f.feed.own = func(b *build, i int) sublayer {
			e, in := b.expertBlock(f.feed.experts, b.block(i)), *b
			in.feed.gate = gateInUp
			e.shared = in.feedForward(b.block(i), "_shexp", shared)
			return e
		}
	}
	return f
}
