package convert

// nemotron converts Nemotron and Minitron: LayerNorm whose weights are stored less 1, a feed-forward without a gate. A
// part of each head is turned in halves, as in GGUF's.
func nemotron(b *builder) {
	c := b.config
	share := c.partialRotary(0.5)
	c.must("hidden_act", "GGUF's nemotron has the square of ReLU", "relu2")
	c.values["layer_norm_eps"] = c.values[c.first("norm_eps", "layer_norm_eps")]
	c.must("tie_word_embeddings", "GGUF's nemotron has an output matrix", false)
	s, ok := b.llamaKeys(options{layerNorms: true, activation: "relu2"}, share)
	if !ok {
		return
	}
	c.must("kv_channels", "heads have other numbers", float64(s.head))
	c.must("rope_percent", "partial_rotary_factor says something else", share)
	norm := func(to, from string, width int) {
		b.vector(to+".weight", from+".weight", width, 1)
		b.vector(to+".bias", from+".bias", width, 0)
	}
	b.model(llamaModel, s.width, s.layers, norm, func(_ int, to, from string) {
		norm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		norm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		b.feedForward(b.biased, s, plainParts, to, from+"mlp.")
	})
}
