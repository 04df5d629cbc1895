package engine

// hunyuanDense is Hunyuan (dense): queries and keys are normalized after the rotation.
func hunyuanDense(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves, keys: alphaKey},
		attention: attentionParts{norms: perHeadLast},
		feed:      feedParts{gate: gated},
	}
}

// hunyuanMoE is Hunyuan A13B: hunyuanDense with experts, and one that every token is sent to.
func hunyuanMoE(l *loader, c *Config) family {
	f := hunyuanDense(l, c)
	l.has("expert_feed_forward_length") // experts are as wide as feed_forward_length says
	l.has("expert_shared_count")        // the shared one's width is that of all
	f.feed.experts = l.experts(c, expertOptions{
		width: c.FeedForward, normalize: true, shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward),
	})
	return f
}
