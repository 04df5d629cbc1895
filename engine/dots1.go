package engine

// dots1 is dots.llm1 (Huo et al. 2025, arXiv:2506.05767): normalized queries and keys, experts behind plain layers.
func dots1(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.ends.output = outputRequired
	f.feed.experts = l.experts(c, l.byKeys(gateSoftmax, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), dense: l.leadingDense(),
	}))
	return f
}
