package convert

import "math"

// miniCPM converts MiniCPM: Llama with scaled embeddings, sublayers and logits.
func miniCPM(b *builder) {
	c := b.config
	width, layers := c.integer("hidden_size"), c.layers("num_hidden_layers")
	b.real("embedding_scale", c.number("scale_emb"))
	b.real("residual_scale", c.number("scale_depth")/math.Sqrt(float64(layers)))
	b.real("logit_scale", float64(width)/c.positive("dim_model_base"))
	c.must("num_experts", "the class has no experts here", 0.0)
	c.has("mup_denominator")
	b.llamaLike(options{interleave: true})
}
