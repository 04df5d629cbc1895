package engine

// llama is Llama (Touvron et al. 2023, arXiv:2302.13971) and what shares its block: Mistral, Mixtral, SmolLM, Yi,
// TinyLlama.
func llama(l *loader, c *Config) family {
	return family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: freqFactors | longrope},
		feed:  feedParts{gate: gated, experts: l.experts(c, expertOptions{width: c.FeedForward, normalize: true})},
	}
}
