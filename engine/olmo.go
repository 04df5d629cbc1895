package engine

// olmo is OLMo (Groeneveld et al. 2024, arXiv:2402.00838): LayerNorm without weights, clamped queries, keys and values.
func olmo(l *loader, c *Config) family {
	return family{norm: layerNorm, noWeights: true, rotation: pairs, gated: true, clamp: l.floatOr("attention.clamp_kqv", 0)}
}

// olmo2 is OLMo 2 and 3 (arXiv:2501.00656): norms of the sublayers' outputs instead of their inputs, and of queries and keys over all
// heads. OLMo 3 has windows, in whose layers the rotation is not scaled.
func olmo2(l *loader, c *Config) family {
	f := family{norm: rmsNorm, noInput: true, output: true, rotation: halves, qkNorm: perToken, gated: true, head: headRequired}
	if f.window = l.integerOr("attention.sliding_window", 0); f.window > 0 {
		f.windowed, f.windowRope = l.window(4), true
	}
	return f
}

// olmoE is OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): the weights of the chosen experts are not normalized.
func olmoE(l *loader, c *Config) family {
	return family{norm: rmsNorm, rotation: halves, qkNorm: perToken, gated: true, experts: l.experts(c, expertOptions{width: c.FeedForward})}
}
