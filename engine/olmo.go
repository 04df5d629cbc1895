package engine

// olmo is OLMo (Groeneveld et al. 2024, arXiv:2402.00838): LayerNorm without weights, clamped queries, keys and values.
func olmo(l *loader, _ *Config) family {
	return family{
		norms:     normParts{kind: unweighted{}},
		rope:      ropeParts{pairing: pairs},
		attention: attentionParts{clamp: l.floatOr("attention.clamp_kqv", 0)},
		feed:      feedParts{gate: gated},
	}
}

// unweighted is LayerNorm without weights.
type unweighted struct{ layerNorm }

func (unweighted) read(l *loader, name string, n int) (w, b []float32) {
	return ones(n), l.biases(name, n)
}

// olmo2 is OLMo 2 and 3 (arXiv:2501.00656): norms of the sublayers' outputs instead of their inputs, and of queries
// and keys over all heads. OLMo 3 has windows, in whose layers the rotation is not scaled.
func olmo2(l *loader, _ *Config) family {
	f := family{
		norms:     normParts{kind: rmsNorm{}, at: atOutputs},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perToken},
		feed:      feedParts{gate: gated},
		ends:      endParts{output: outputRequired},
	}
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		f.attention.windowed, f.rope.windowUnscaled = l.window(4), true
	}
	return f
}

// olmoE is OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): the weights of the chosen experts are not normalized.
func olmoE(l *loader, c *Config) family {
	return family{
		norms:     normParts{kind: rmsNorm{}},
		rope:      ropeParts{pairing: halves},
		attention: attentionParts{norms: perToken},
		feed:      feedParts{gate: gated, experts: l.experts(c, expertOptions{width: c.FeedForward})},
	}
}
