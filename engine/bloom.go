package engine

// bloom is BLOOM (Le Scao et al. 2022, arXiv:2211.05100): ALiBi, normalized embeddings.
func bloom(*loader, *Config) family {
	return family{norm: layerNorm, embeddingNorm: true, activation: gelu, alibi: 8}
}
