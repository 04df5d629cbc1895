package engine

// gpt2 is GPT-2 (Radford et al. 2019): LayerNorm, learned position embeddings, GELU.
func gpt2(l *loader, _ *Config) family {
	return family{
		norms: normParts{kind: layerNorm{}},
		feed:  feedParts{activation: l.gelu()},
		ends:  endParts{positions: true},
	}
}
