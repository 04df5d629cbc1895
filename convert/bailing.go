package convert

import "fmt"

// bailingMoE2 converts Ling 2 and Ring 2: norms of queries and keys, a part of each head turned in halves, as in
// GGUF's, and experts in groups behind dense blocks.
func bailingMoE2(b *builder) {
	c := b.config
	c.saysTheta()
	for _, key := range []string{"embedding_dropout", "output_dropout", "router_dtype", "mtp_loss_scaling_factor"} {
		c.has(key) // how it was trained
	}
	for _, key := range []string{"use_bias", "use_qkv_bias", "use_sliding_window", "norm_head", "norm_softmax"} {
		c.must(key, "GGUF's bailingmoe2 has none", false)
	}
	for _, key := range []string{"use_rmsnorm", "use_qk_norm", "moe_router_enable_expert_bias",
		"moe_router_enable_routed_scaling", "moe_router_enable_shared_expert"} {
		c.must(key, "so is GGUF's bailingmoe2", true)
	}
	c.must("score_function", "the class has sigmoids", "sigmoid")
	share := c.partialRotary(0.5)
	e, dense := b.routedExperts(gatingSigmoid)
	b.routing(e, true)
	e.choice = "mlp.gate.expert_bias"
	if shared := b.sizeOf("expert_shared_count"); shared > 0 { // GGUF multiplies the two
		each := c.integerOr("moe_shared_expert_intermediate_size", e.width)
		e.shared = c.product("num_shared_experts", shared, each)
		b.size("expert_shared_feed_forward_length", each)
	}
	s, ok := b.llamaSizes(options{experts: e})
	if c.integer("intermediate_size"); !ok || *c.err != nil {
		return
	}
	b.window()
	b.rotation(s.head)
	turned := int(float64(s.head) * share)
	c.must("rotary_dim", "partial_rotary_factor says something else", float64(turned))
	b.size("rope.dimension_count", turned)
	b.matrix("token_embd.weight", "model.word_embeddings.weight", b.vocab, s.width)
	for i := range s.layers + b.furtherBlocks(s.layers) {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		b.vector(to+"attn_norm.weight", from+"input_layernorm.weight", s.width, 0)
		b.matrix(to+"attn_qkv.weight", from+"attention.query_key_value.weight", (s.heads+2*s.kvHeads)*s.head, s.width)
		b.headNorms(s, to, from, "attention.query_layernorm", "attention.key_layernorm")
		b.matrix(to+"attn_output.weight", from+"attention.dense.weight", s.width, s.heads*s.head)
		b.vector(to+"ffn_norm.weight", from+"post_attention_layernorm.weight", s.width, 0)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from, "shared_head.norm.weight")
			b.vector(to+"layer_output_norm.weight", from+"final_layernorm.weight", s.width, 0)
		}
	}
	b.vector("output_norm.weight", "model.norm.weight", s.width, 0)
	c.must("tie_word_embeddings", "GGUF's bailingmoe2 has an output matrix", false)
	b.head("lm_head.weight", s.width)
}
