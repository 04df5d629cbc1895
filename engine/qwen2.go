package engine

// qwen1 is Qwen 1. Its files say the size of gate and up together.
func qwen1(l *loader, c *Config) family {
	for i, n := range l.ffn {
		if l.ok() && n%2 != 0 {
			l.fail("feed_forward_length", ErrValue, "%d, of gate and up together", n)
		}
		l.ffn[i] = n / 2
	}
	c.FeedForward /= 2
	f := qwen2(l, c)
	f.ends = endParts{output: outputRequired}
	return f
}

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
