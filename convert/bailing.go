package convert

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
	c.must("tie_word_embeddings", "GGUF's bailingmoe2 has an output matrix", false)
	s, ok := b.llamaKeys(options{}, share)
	if !ok {
		return
	}
	c.must("rotary_dim", "partial_rotary_factor says something else", float64(b.sizeOf("rope.dimension_count")))
	names := llamaModel
	names.embedding = "model.word_embeddings.weight"
	b.model(names, s.width, s.layers+b.furtherBlocks(s.layers), b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.matrix(to+"attn_qkv.weight", from+"attention.query_key_value.weight", (s.heads+2*s.kvHeads)*s.head, s.width)
		b.headNorms(s, to, from, "attention.query_layernorm", "attention.key_layernorm")
		b.matrix(to+"attn_output.weight", from+"attention.dense.weight", s.width, s.heads*s.head)
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from)
			b.rmsNorm(to+"layer_output_norm", from+"final_layernorm", s.width)
		}
	})
}
