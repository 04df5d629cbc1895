package engine

// gpt2 is GPT-2 (Radford et al. 2019): LayerNorm, learned position embeddings, GELU.
func gpt2(l *loader, c *Config) family {
	return family{norm: layerNorm, positions: true, activation: gelu}
}
