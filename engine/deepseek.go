package engine

// deepseek is DeepSeekMoE (Dai et al. 2024, arXiv:2401.06066): experts behind plain layers, whose weights are not
// normalized, and some that every token is sent to.
func deepseek(l *loader, c *Config) family {
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed: feedParts{gate: gated, experts: l.experts(c, expertOptions{
			width: width, shared: width * l.integerOr("expert_shared_count", 0), dense: l.leadingDense(),
		})},
	}
}
