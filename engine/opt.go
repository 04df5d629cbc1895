package engine

// opt is OPT (Zhang et al. 2022, arXiv:2205.01068). The model of 350 million parameters normalizes the residual stream after each
// sublayer, and its token embeddings are smaller than hidden states.
func opt(l *loader, c *Config) family {
	f := family{norm: layerNorm, positions: true, activation: relu, head: headTied}
	if l.has("word_embedding_length") {
		f.embeddingSize = l.integer("word_embedding_length")
	}
	if before := l.boolOr("norm_before", true); before {
		f.noFinal = !l.holds("output_norm.weight")
	} else {
		f.noInput, f.after, f.noFinal = true, true, true
	}
	return f
}
