package engine

// jais is Jais (Sengupta et al. 2023, arXiv:2308.16149): ALiBi, a gate of SiLU, scores divided by the head's size.
func jais(l *loader, c *Config) family {
	return family{
		norms:     normParts{kind: layerNorm{}},
		rope:      ropeParts{alibi: l.floatOr("attention.max_alibi_bias", 0)},
		attention: attentionParts{scale: 1 / float32(max(c.HeadDim, 1))},
		feed:      feedParts{gate: gated},
		ends:      endParts{output: outputRequired},
	}
}
