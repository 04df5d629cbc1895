package convert

import "fmt"

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
	s, ok := b.llamaSizes(options{experts: e})
	if c.integer("intermediate_size"); !ok || *c.err != nil {
		return
	}
	b.window()
	b.rotation(s.head)
	b.size("rope.dimension_count", int(float64(s.head)*share))
	b.matrix("token_embd.weight", "model.embed_tokens.weight", b.vocab, s.width)
	for i := range s.layers + b.furtherBlocks(s.layers) {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		b.vector(to+"attn_norm.weight", from+"input_layernorm.weight", s.width, 0)
		b.projections(s, to, from, nil)
		if headNorms {
			b.headNorms(s, to, from, "self_attn.q_norm", "self_attn.k_norm")
		}
		b.vector(to+"post_attention_norm.weight", from+"post_attention_layernorm.weight", s.width, 0)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from, "shared_head.norm.weight")
		}
	}
	b.vector("output_norm.weight", "model.norm.weight", s.width, 0)
	b.head("lm_head.weight", s.width)
}
