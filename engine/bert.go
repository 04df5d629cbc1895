package engine

// postNorm is what encoders after BERT have in common (Devlin et al. 2018, arXiv:1810.04805): LayerNorms of the
// embeddings and of the residual stream after each sublayer, none at the end.
func postNorm(types typeKey) family {
	return family{
		norms: normParts{kind: layerNorm{}, at: atResidual, names: map[string]string{
			"attn_norm": "attn_output_norm", "ffn_norm": "layer_output_norm", "output_norm": ""}},
		ends: endParts{tokenTypes: types, embeddingNorm: true},
	}
}

// bert is BERT, and as their files are converted RoBERTa (arXiv:1907.11692) and XLM-R (arXiv:1911.02116): learned
// positions, which the converter has cut to those of tokens.
func bert(l *loader, _ *Config) family {
	f := postNorm(typesCounted)
	f.feed.activation, f.ends.positions = l.gelu(), true
	return f
}

// jinaBERT3 is jina-embeddings-v3 (Sturua et al. 2024, arXiv:2409.10173) without its adapters: bert with rotated
// queries and keys instead of positions.
func jinaBERT3(l *loader, _ *Config) family {
	f := postNorm(typesCounted)
	f.feed.activation, f.rope.pairing = l.gelu(), halves
	return f
}

// nomicBERT is nomic-embed-text v1 and v1.5 (Nussbaum et al. 2024, arXiv:2402.01613). The published models have no
// biases in the feed-forward; the reference engine takes those of a file and does not use them.
func nomicBERT(*loader, *Config) family {
	f := postNorm(typesCounted)
	f.rope.pairing, f.feed.gate = halves, gated
	f.feed.own = func(b *build, i int) sublayer {
		ffn := b.feedForward(b.block(i), "", b.ffn[i])
		ffn.gate.b, ffn.up.b, ffn.down.b = nil, nil, nil
		return ffn
	}
	return f
}

// nomicBERTMoE is nomic-embed-text v2 (Nussbaum and Duderstadt 2025, arXiv:2502.07972): in block i with i mod n = 1,
// for moe_every_n_layers n, experts without gates, whose weights are the router's probabilities as they are.
func nomicBERTMoE(l *loader, c *Config) family {
	f := postNorm(typesCounted)
	f.rope.pairing, f.feed.activation = halves, l.gelu()
	every := l.integerOr("moe_every_n_layers", 0)
	if f.feed.experts = l.experts(c, expertOptions{width: c.FeedForward}); f.feed.experts != nil {
		f.feed.experts.scale = 0
		f.feed.experts.dense = func(layer int) bool { return every == 0 || layer%every != 1 }
	}
	return f
}
