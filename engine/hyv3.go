package engine

// hyV3 is Hunyuan 3: normalized queries and keys, experts that a bias helps to choose, and one for every token.
func hyV3(l *loader, c *Config) family {
	f := qwen3(l, c)
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	f.feed.experts = l.experts(c, l.byKeys(gateSigmoid, expertOptions{
		width: width, shared: l.integerOr("expert_shared_feed_forward_length", width), choice: "exp_probs_b",
		dense: l.routerless,
	}))
	return f
}
