package engine

// mellum is Mellum 2 (JetBrains): qwen3MoE with windows, in whose layers the rotation is not scaled.
func mellum(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.ends.output = outputRequired
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		if pattern := "attention.sliding_window_pattern"; !l.has(pattern) {
			l.integer(pattern) // which it must say
		}
		f.attention.windowed, f.rope.windowUnscaled = l.window(0), true
	}
	f.feed.experts = l.experts(c, expertOptions{
		width:     l.integerOr("expert_feed_forward_length", c.FeedForward/max(1, l.integerOr("expert_used_count", 1))),
		normalize: true,
	})
	return f
}
