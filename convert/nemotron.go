package convert

import "fmt"

// nemotron converts Nemotron and Minitron: LayerNorm whose weights are stored less 1, a feed-forward without a gate. A
// part of each head is turned in halves, as in GGUF's.
func nemotron(b *builder) {
	c := b.config
	share := c.partialRotary(0.5)
	c.must("hidden_act", "GGUF's nemotron has the square of ReLU", "relu2")
	c.values["layer_norm_eps"] = c.values[c.first("norm_eps", "layer_norm_eps")]
	s, ok := b.llamaSizes(options{layerNorms: true, activation: "relu2"})
	if !ok || *c.err != nil {
		return
	}
	c.must("kv_channels", "heads have other numbers", float64(s.head))
	c.must("rope_percent", "partial_rotary_factor says something else", share)
	b.window()
	b.rotation(s.head)
	b.size("rope.dimension_count", int(float64(s.head)*share))
	norm := func(to, from string) {
		b.vector(to+".weight", from+".weight", s.width, 1)
		b.vector(to+".bias", from+".bias", s.width, 0)
	}
	b.matrix("token_embd.weight", "model.embed_tokens.weight", b.vocab, s.width)
	for i := range s.layers {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		norm(to+"attn_norm", from+"input_layernorm")
		b.projections(s, to, from, nil)
		norm(to+"ffn_norm", from+"post_attention_layernorm")
		b.plainFeedForward(s.feedForward, s.width, to+"ffn_", from+"mlp.")
	}
	norm("output_norm", "model.norm")
	c.must("tie_word_embeddings", "GGUF's nemotron has an output matrix", false)
	b.head("lm_head.weight", s.width)
}

// plainFeedForward adds a feed-forward without a gate.
func (b *builder) plainFeedForward(inner, width int, to, from string) {
	b.linear(to+"up", from+"up_proj", inner, width, nil)
	b.linear(to+"down", from+"down_proj", width, inner, nil)
}
