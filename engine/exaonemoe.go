package engine

// exaoneMoE is K-EXAONE: windows in three of four layers, which alone are rotated, and experts behind plain layers.
func exaoneMoE(l *loader, c *Config) family {
	f := exaone(l, c)
	f.attention.norms, f.ends.output = perHead, outputRequired
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), l.fixedWindow(func(layer int) bool {
		return layer%4 < 3
	})
	f.rope.layers = f.attention.windowed
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	f.feed.experts = l.experts(c, l.byKeys(0, expertOptions{
		width: width, shared: l.integerOr("expert_shared_feed_forward_length", width), dense: l.leadingDense(),
	}))
	return f
}
