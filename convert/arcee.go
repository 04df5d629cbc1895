package convert

// arcee converts Arcee's AFM: Llama with a feed-forward without a gate.
func arcee(b *builder) {
	c := b.config
	c.must("hidden_act", "GGUF's arcee has the square of ReLU", "relu2")
	if in := c.rotary(); in != nil && in.values["mscale_all_dim"] == nil {
		delete(in.values, "mscale") // which the class looks at together with that one only
	}
	s, ok := b.llamaKeys(options{activation: "relu2"}, 0)
	if !ok {
		return
	}
	b.model(llamaModel, s.width, s.layers, b.rmsNorm, func(_ int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", interleaved(s.head))
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		b.feedForward(b.biased, s, plainParts, to, from+"mlp.")
	})
}
