package engine

// hunyuanDense is Hunyuan (dense). Files of it may say that there is one expert, which is the feed-forward.
func hunyuanDense(l *loader, _ *Config) family {
	if n := l.integerOr("expert_count", 0); l.ok() && n > 1 {
		l.fail("expert_count", ErrUnsupported, "%d", n)
	}
	return hunyuan()
}

// hunyuan is what Hunyuan's models have in common: queries and keys are normalized after the rotation.
func hunyuan() family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves, keys: alphaKey},
		attention: attentionParts{norms: perHeadLast},
		feed:      feedParts{gate: gated},
	}
}

// hunyuanMoE is Hunyuan A13B: experts, and one that every token is sent to.
func hunyuanMoE(l *loader, c *Config) family {
	f := hunyuan()
	l.has("expert_feed_forward_length") // experts are as wide as feed_forward_length says
	l.has("expert_shared_count")        // the shared one's width is that of all
	f.feed.experts = l.experts(c, expertOptions{
		width: c.FeedForward, normalize: true, shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward),
	})
	return f
}
