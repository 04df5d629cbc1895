package engine

// ernie45 is ERNIE 4.5 (dense): llama without options.
func ernie45(*loader, *Config) family {
	return family{norms: normParts{kind: rmsNorm{}}, rope: ropeParts{pairing: pairs}, feed: feedParts{gate: gated}}
}

// ernie45MoE is ERNIE 4.5 with experts behind plain layers. A bias helps to choose them.
func ernie45MoE(l *loader, c *Config) family {
	f := ernie45(l, c)
	if n := l.integer("interleave_moe_layer_step"); l.ok() && n != 1 {
		l.fail("interleave_moe_layer_step", ErrUnsupported, "%d", n)
	}
	l.has("expert_shared_count") // the shared ones' width is that of all
	f.feed.experts = l.experts(c, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), normalize: true,
		shared: l.integerOr("expert_shared_feed_forward_length", 0), dense: l.leadingDense(),
	})
	return f
}
