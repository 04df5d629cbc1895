package engine

// qwen2 is Qwen 1.5 to 2.5.
func qwen2(*loader, *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves},
		feed:  feedParts{gate: gated},
		ends:  endParts{outputBias: true},
	}
}

// qwen2MoE is Qwen 1.5 and 2 with experts; the weights of the chosen ones are not normalized, and a gate decides how
// much of a further one every token gets.
func qwen2MoE(l *loader, c *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves},
		feed: feedParts{gate: gated, experts: l.experts(c, expertOptions{
			width:  l.integerOr("expert_feed_forward_length", c.FeedForward/max(1, l.integerOr("expert_used_count", 1))),
			shared: l.integerOr("expert_shared_feed_forward_length", c.FeedForward), sharedGate: true,
		})},
		ends: endParts{output: outputRequired},
	}
}

// qwen2VL is the language model of Qwen 2 and 2.5 VL.
func qwen2VL(l *loader, c *Config) family {
	l.sections()
	return qwen2(l, c)
}
