package convert

// glm4MoE converts GLM-4.5 to 4.7: experts that sigmoids and a bias choose, behind dense blocks. The source turns
// halves of a part of each head, as GGUF's does.
func glm4MoE(b *builder) {
	c := b.config
	share := c.partialRotary(0.5)
	c.must("scoring_func", "the class has sigmoids", "sigmoid")
	c.must("topk_method", "the class has a bias for the choice", "noaux_tc")
	e, dense := b.routedExperts(gatingSigmoid)
	b.routing(e, true)
	headNorms := c.boolOr("use_qk_norm", false)
	s, ok := b.llamaKeys(options{}, share)
	if !ok {
		return
	}
	layers := s.layers + b.furtherBlocks(s.layers)
	b.model(llamaModel, s.width, layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.projections(s, to, from+"self_attn.", nil)
		if headNorms {
			b.headNorms(s, to, from, "self_attn.q_norm", "self_attn.k_norm")
		}
		b.rmsNorm(to+"post_attention_norm", from+"post_attention_layernorm", s.width)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from)
		}
	})
}
