package convert

import "fmt"

// arcee converts Arcee's AFM: Llama with a feed-forward without a gate.
func arcee(b *builder) {
	c := b.config
	c.must("hidden_act", "GGUF's arcee has the square of ReLU", "relu2")
	if in := c.rotary(); in != nil && in.values["mscale_all_dim"] == nil {
		delete(in.values, "mscale") // which the class looks at together with that one only
	}
	s, ok := b.llamaSizes(options{activation: "relu2"})
	if !ok || *c.err != nil {
		return
	}
	b.window()
	b.rotation(s.head)
	b.matrix("token_embd.weight", "model.embed_tokens.weight", b.vocab, s.width)
	for i := range s.layers {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		b.vector(to+"attn_norm.weight", from+"input_layernorm.weight", s.width, 0)
		b.projections(s, to, from, interleaved(s.head))
		b.vector(to+"ffn_norm.weight", from+"post_attention_layernorm.weight", s.width, 0)
		b.plainFeedForward(s.feedForward, s.width, to+"ffn_", from+"mlp.")
	}
	b.vector("output_norm.weight", "model.norm.weight", s.width, 0)
	b.head("lm_head.weight", s.width)
}
