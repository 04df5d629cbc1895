package engine

// gemmaEmbedding is EmbeddingGemma (Schechter Vera et al. 2025, arXiv:2509.20354): Gemma 3's blocks without its mask.
func gemmaEmbedding(l *loader, c *Config) family {
	f := gemma(l, c)
	f.norms.at, f.attention.norms, f.ends = atBoth, perHead, endParts{}
	f.attention.window, f.attention.windowed = l.integer("attention.sliding_window"), l.window(6)
	f.rope.windowBase, f.rope.windowUnscaled = 10000, true
	return f
}
