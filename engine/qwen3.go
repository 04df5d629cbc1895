package engine

// qwen3 is Qwen 3: queries and keys are normalized head by head.
func qwen3(*loader, *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perHead},
		feed:      feedParts{gate: gated},
	}
}

// qwen3VL is the language model of Qwen 3 VL. For text its three kinds of positions are equal, so the sections of its
// rotation do not matter.
func qwen3VL(l *loader, c *Config) family {
	l.sections()
	return qwen3(l, c)
}

// qwen3MoE is Qwen 3 with experts.
func qwen3MoE(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.feed.experts = l.experts(c, expertOptions{width: l.integerOr("expert_feed_forward_length", c.FeedForward),
		normalize: true})
	return f
}

// qwen3VLMoE is qwen3VL with experts. Images alone feed hidden states into its first layers (n_deepstack_layers).
func qwen3VLMoE(l *loader, c *Config) family {
	l.sections()
	return qwen3MoE(l, c)
}
