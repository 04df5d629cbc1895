package engine

// minimaxM2 is MiniMax M2: queries and keys are normalized over all heads; experts are chosen with a bias.
func minimaxM2(l *loader, c *Config) family {
	l.has("expert_feed_forward_length") // experts are as wide as feed_forward_length says
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perToken},
		feed: feedParts{gate: gated, experts: l.experts(c, expertOptions{
			width: c.FeedForward, gating: l.gating(gateSigmoid), normalize: true, mustChoose: true,
		})},
		ends: endParts{output: outputRequired},
	}
}
