package engine

// bailingMoE is Ling 1 (Ling Team 2025, arXiv:2503.05139): experts in all layers, and some that every token is sent to.
func bailingMoE(l *loader, c *Config) family {
	c.HeadDim = l.integerOr("rope.dimension_count", c.HeadDim)
	l.leadingDense() // it says nothing
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed: feedParts{gate: gated, experts: l.experts(c, l.byKeys(gateSoftmax, expertOptions{
			width: l.integerOr("expert_feed_forward_length", c.FeedForward),
		}))},
		ends: endParts{output: outputRequired},
	}
}

// bailingMoE2 is Ling 2 and Ring 2 (Ling Team 2025, arXiv:2510.22115): normalized queries and keys, groups of experts
// behind plain layers.
func bailingMoE2(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.ends.output = outputRequired
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	o := l.byKeys(0, expertOptions{width: width, dense: l.leadingDense()})
	o.shared = l.integerOr("expert_shared_count", 0) * l.integerOr("expert_shared_feed_forward_length", width)
	f.feed.experts = l.experts(c, o)
	return f
}
