package convert

import "encoding/json"

// kimiSizes are those of Kimi delta attention: heads, the numbers of one, and the taps of the convolution.
type kimiSizes struct{ heads, head, taps int }

// bailingMoE3 converts Ling 3: Kimi delta attention, but in the last block of each group and behind the groups latent
// attention, whose heads have gates and of which pairs (2i, 2i+1) are turned, as in GGUF's; and experts in groups
// behind dense blocks.
func bailingMoE3(b *builder) {
	c := b.config
	b.bailing3Members()
	s := sizes{width: c.integer("hidden_size"), heads: c.integer("num_attention_heads"),
		layers: c.layers("num_hidden_layers"), feedForward: c.integer("intermediate_size")}
	k := kimiSizes{s.heads, c.integer("head_dim"), c.integer("short_conv_kernel_size")}
	a := latentSizes{latent: c.integer("kv_lora_rank"), still: c.integer("qk_nope_head_dim"),
		turned: c.integer("qk_rope_head_dim"), value: c.integer("v_head_dim"), output: "dense.weight"}
	if c.has("q_lora_rank") {
		a.queries = c.integer("q_lora_rank")
	}
	key, inner := a.still+a.turned, c.product("head_dim", s.heads, k.head)
	c.must("num_key_value_heads", "latents are for all heads", float64(s.heads))
	c.must("num_kv_heads_for_linear_attn", "heads have keys of their own", 0.0, float64(s.heads))
	c.must("qk_head_dim", "the parts of a key say something else", float64(key))
	c.must("rotary_dim", "qk_rope_head_dim says what is turned", float64(a.turned))
	if share := c.partialRotary(float64(a.turned) / float64(k.head)); share*float64(k.head) != float64(a.turned) {
		c.fail("partial_rotary_factor", "%v of %d numbers, qk_rope_head_dim says %d", share, k.head, a.turned)
	}
	if a.turned%2 != 0 || int64(s.heads)*int64(max(key+a.value, a.latent)) > largest ||
		int64(inner)*int64(k.taps) > largest {
		c.fail("qk_rope_head_dim", "%d heads with keys of %d and %d numbers, values of %d, and %d taps", s.heads, a.still,
			a.turned, a.value, k.taps)
	}
	group := c.integer("layer_group_size")
	e, dense := b.routedExperts(gatingSigmoid)
	b.routing(e, true)
	e.choice = "mlp.gate.expert_bias"
	if shared := b.sizeOf("expert_shared_count"); shared > 0 {
		e.shared = c.product("num_shared_experts", shared, c.integerOr("moe_shared_expert_intermediate_size", e.width))
		b.size("expert_shared_feed_forward_length", e.shared)
	} else {
		c.fail("num_shared_experts", "GGUF's bailingmoe3 has an expert for all tokens")
	}
	if *c.err != nil {
		return
	}
	b.blockSizes(c.integer("max_position_embeddings"), s.width, s.layers, s.feedForward, s.heads)
	b.real("attention.layer_norm_rms_epsilon", c.numberOr("rms_norm_eps", 1e-6))
	b.size("attention.kv_lora_rank", a.latent)
	if a.queries > 0 {
		b.size("attention.q_lora_rank", a.queries)
	}
	b.size("attention.key_length", a.latent+a.turned)
	b.size("attention.value_length", k.head) // as the reference's converter does, by which it is of Kimi delta attention
	b.size("attention.key_length_mla", key)
	b.size("attention.value_length_mla", a.value)
	b.size("ssm.conv_kernel", k.taps)
	b.size("kda.head_dim", k.head)
	b.rotation(a.turned)

	layers := s.layers + b.furtherBlocks(s.layers)
	latent := func(i int) bool { return i >= s.layers/group*group || (i+1)%group == 0 }
	kv := make([]uint32, layers)
	names := llamaModel
	names.embedding = "model.word_embeddings.weight"
	b.model(names, s.width, layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		if latent(i) {
			kv[i] = 1
			b.latentAttention(s, a, to+"attn_", from+"attention.")
			b.matrix(to+"attn_gate.weight", from+"attention.g_proj.weight", s.heads, s.width)
		} else {
			b.kimiDelta(k, s.width, to, from+"attention.")
		}
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from)
			b.rmsNorm(to+"layer_output_norm", from+"final_layernorm", s.width)
		}
	})
	b.set("attention.head_count_kv", kv)
	b.activationLimits("swiglu_clamp_exp", "expert_swiglu_limit_list", layers)
	b.activationLimits("swiglu_clamp_shexp", "share_expert_swiglu_limit_list", layers)
}

// bailing3Members reads what is the same in all models of the class, and how they were trained.
func (b *builder) bailing3Members() {
	c := b.config
	for _, key := range []string{"embedding_dropout", "output_dropout", "router_dtype", "mtp_loss_scaling_factor",
		"seq_aux", "max_window_layers"} {
		c.has(key)
	}
	const lacks, has = "GGUF's bailingmoe3 has none", "so is GGUF's bailingmoe3"
	for _, key := range []string{"use_bias", "use_qkv_bias", "use_sliding_window", "use_kda_lora", "use_mla_nope",
		"use_nGPT", "value_norm", "up_proj_norm", "scale_router_input", "mtp_use_kda"} {
		c.must(key, lacks, false)
	}
	for _, key := range []string{"use_rmsnorm", "use_qk_norm", "moe_router_enable_expert_bias", "linear_silu",
		"rope_interleave"} {
		c.must(key, has, true)
	}
	c.required("no_kda_lora", "decays and gates are of one matrix each in GGUF's bailingmoe3", true)
	c.required("kda_safe_gate", "decays have a floor in GGUF's bailingmoe3", true)
	c.required("gated_attention_proj_granularity_type", "gates are of heads in GGUF's bailingmoe3", "head_wise")
	c.must("group_norm_size", "a norm is of one head", 1.0)
	c.must("hidden_act", "this architecture's gate is SiLU", "silu")
	for _, key := range []string{"score_function", "scoring_func"} {
		c.must(key, "the class has sigmoids", "sigmoid")
	}
	c.must("topk_method", "the class has a bias for the choice", "noaux_tc")
	c.must("tie_word_embeddings", "the class has an output matrix", false)
	floor := c.number("kda_lower_bound")
	if *c.err == nil && !(floor < 0 && floor >= -largest) {
		c.fail("kda_lower_bound", "%v: the floor of decays' logarithms is below 0", floor)
	}
	b.set("kda.safe_gate", true)
	b.real("kda.gate_lower_bound", floor)
}

// kimiDelta adds the tensors of Kimi delta attention (arXiv:2510.26692).
func (b *builder) kimiDelta(k kimiSizes, width int, to, from string) {
	inner := k.heads * k.head
	b.matrix(to+"ssm_f_a.weight", from+"f_proj.weight", inner, width)
	b.matrix(to+"ssm_g_a.weight", from+"g_proj.weight", inner, width)
	b.matrix(to+"ssm_beta.weight", from+"b_proj.weight", k.heads, width)
	for _, part := range []string{"q", "k", "v"} {
		b.matrix(to+"attn_"+part+".weight", from+part+"_proj.weight", inner, width)
		b.add(target{name: to + "ssm_conv1d_" + part + ".weight", from: from + part + "_conv1d.weight", rows: inner,
			cols: k.taps, stack: inner, float: true})
	}
	b.vector(to+"ssm_dt.bias", from+"dt_bias", inner, 0)
	b.add(target{name: to + "ssm_a", from: from + "A_log", rows: k.heads, cols: 1, sourceRows: 1, sourceCols: k.heads,
		place: func(row, _ int) int { return row }, float: true, exponent: true})
	b.vector(to+"ssm_norm.weight", from+"o_norm.weight", k.head, 0)
	b.matrix(to+"attn_output.weight", from+"o_proj.weight", width, inner)
}

// activationLimits writes the limits of n blocks' activations, where config.json has any; null is none, as is 0.
func (b *builder) activationLimits(key, member string, n int) {
	c := b.config
	if !c.has(member) {
		return
	}
	if list, ok := c.values[member].([]any); ok {
		for i, v := range list {
			if v == nil {
				list[i] = json.Number("0")
			}
		}
	}
	limits := make([]float32, n)
	for i, x := range c.numbers(member) {
		if x < 0 {
			c.fail(member, "a limit of %v", x)
		}
		if i < n {
			limits[i] = x
		}
	}
	b.set(key, limits)
}
