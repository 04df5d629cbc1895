package engine

// llama is Llama (Touvron et al. 2023, arXiv:2302.13971) and what shares its block: Mistral, Mixtral, SmolLM, Yi, TinyLlama.
func llama(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, gated: true,
		experts: l.experts(c, expertOptions{width: c.FeedForward, normalize: true}),
	}
}

// plainLlama is llama without options: ERNIE 4.5 (dense), InternLM 2.
func plainLlama(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, gated: true}
}
