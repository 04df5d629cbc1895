package convert

import (
	"cmp"
	"fmt"
)

// latentSizes are those of latent attention (arXiv:2405.04434): of the latents of queries, 0 without, and of keys with
// values; of a head the numbers of a key that are not turned and those that are, and of a value.
type latentSizes struct {
	queries, latent, still, turned, value int

	output string // the output's matrix; "": o_proj.weight
}

// deepseekV2 converts DeepSeek V2: experts by a softmax, in one group. GGUF's deepseek2 chooses groups as V3 does.
func deepseekV2(b *builder) {
	c := b.config
	c.must("scoring_func", "the class has a softmax", "softmax")
	c.must("topk_method", "groups of experts are chosen otherwise in GGUF's deepseek2", "greedy")
	for _, key := range []string{"n_group", "topk_group"} { // greedy choice does not look at groups
		c.has(key)
		delete(c.values, key)
	}
	c.must("norm_topk_prob", "what the class then computes depends on who wrote it", false)
	b.latentModel(gatingSoftmax, false)
}

// deepseekV3 converts DeepSeek V3 and R1, and GLM-4.7 Flash: experts by sigmoids and a bias, in groups.
func deepseekV3(b *builder) {
	c := b.config
	c.must("scoring_func", "the class has sigmoids", "sigmoid")
	c.must("topk_method", "the class has a bias for the choice", "noaux_tc")
	b.latentModel(gatingSigmoid, true)
}

// latentModel converts models with latent attention, where the matrix that makes keys and values of latents becomes
// two: GGUF's deepseek2 has that of the keys the other way round, on the side of the queries. Pairs (2i, 2i+1) are
// turned, as in the source.
func (b *builder) latentModel(gating int, normalized bool) {
	c := b.config
	for _, key := range []string{"aux_loss_alpha", "seq_aux", "ep_size", "router_aux_loss_coef"} {
		c.has(key) // how it was trained
	}
	c.must("hidden_act", "this architecture's gate is SiLU", "silu")
	c.must("moe_layer_freq", "every block behind the dense ones has experts", 1.0)
	for _, key := range []string{"attention_bias", "mlp_bias"} {
		c.must(key, "GGUF's deepseek2 has no biases", false)
	}
	c.must("partial_rotary_factor", "qk_rope_head_dim says what is turned", 1.0)
	c.must("rope_interleave", "GGUF's deepseek2 turns neighbors", true)
	s := sizes{width: c.integer("hidden_size"), heads: c.integer("num_attention_heads"),
		layers:      c.layers("num_hidden_layers"),
		feedForward: c.integer("intermediate_size")}
	a := latentSizes{latent: c.integer("kv_lora_rank"), still: c.integer("qk_nope_head_dim"),
		turned: c.integer("qk_rope_head_dim"), value: c.integer("v_head_dim")}
	if c.has("q_lora_rank") {
		a.queries = c.integer("q_lora_rank")
	}
	key := a.still + a.turned
	c.must("num_key_value_heads", "latents are for all heads", float64(s.heads))
	c.must("head_dim", "qk_rope_head_dim says what is turned", float64(a.turned))
	c.must("qk_head_dim", "the parts of a key say something else", float64(key))
	if a.turned%2 != 0 || int64(s.heads)*int64(max(key+a.value, a.latent)) > largest {
		c.fail("qk_rope_head_dim", "%d heads with keys of %d and %d numbers, values of %d", s.heads, a.still, a.turned,
			a.value)
	}
	e, dense := b.routedExperts(gating)
	b.routing(e, normalized)
	if *c.err != nil {
		return
	}
	b.blockSizes(c.integer("max_position_embeddings"), s.width, s.layers, s.feedForward, s.heads)
	b.size("attention.head_count_kv", 1)
	b.real("attention.layer_norm_rms_epsilon", c.numberOr("rms_norm_eps", 1e-6))
	b.size("attention.kv_lora_rank", a.latent)
	if a.queries > 0 {
		b.size("attention.q_lora_rank", a.queries)
	}
	b.size("attention.key_length", a.latent+a.turned)
	b.size("attention.value_length", a.latent)
	b.size("attention.key_length_mla", key)
	b.size("attention.value_length_mla", a.value)
	b.multiplier()
	b.rotation(a.turned)

	layers := s.layers + b.furtherBlocks(s.layers)
	b.model(llamaModel, s.width, layers, b.rmsNorm, func(i int, to, from string) {
		b.skip(from + "self_attn.rotary_emb.inv_freq")
		b.rmsNorm(to+"attn_norm", from+"input_layernorm", s.width)
		b.latentAttention(s, a, to+"attn_", from+"self_attn.")
		b.rmsNorm(to+"ffn_norm", from+"post_attention_layernorm", s.width)
		if b.denseOr(s, e, dense, i, to, from); i >= s.layers {
			b.nextn(s, to, from)
		}
	})
}

// multiplier takes out of config.json by what YaRN makes scores and angles larger: the class's angles are as they are
// if both numbers are the same.
func (b *builder) multiplier() {
	in := b.config.rotary()
	if in == nil || in.text(in.first("rope_type", "type")) != "yarn" {
		return
	}
	m := in.positive("mscale_all_dim")
	in.required("mscale", fmt.Sprintf("mscale_all_dim is %v: angles would have another magnitude", m), m)
	b.real("rope.scaling.yarn_log_multiplier", 0.1*m)
	delete(in.values, "mscale")
	delete(in.values, "mscale_all_dim")
}

// latentAttention adds the tensors of latent attention.
func (b *builder) latentAttention(s sizes, a latentSizes, to, from string) {
	key := a.still + a.turned
	if a.queries > 0 {
		b.matrix(to+"q_a.weight", from+"q_a_proj.weight", a.queries, s.width)
		b.rmsNorm(to+"q_a_norm", from+"q_a_layernorm", a.queries)
		b.matrix(to+"q_b.weight", from+"q_b_proj.weight", s.heads*key, a.queries)
	} else {
		b.matrix(to+"q.weight", from+"q_proj.weight", s.heads*key, s.width)
	}
	b.matrix(to+"kv_a_mqa.weight", from+"kv_a_proj_with_mqa.weight", a.latent+a.turned, s.width)
	b.rmsNorm(to+"kv_a_norm", from+"kv_a_layernorm", a.latent)
	const both = "kv_b_proj.weight" // of each head the rows of keys, then those of values
	each := a.still + a.value
	b.add(target{name: to + "k_b.weight", from: from + both, rows: s.heads * a.latent, cols: a.still, stack: s.heads,
		sourceRows: s.heads * each, sourceCols: a.latent, place: func(row, col int) int {
			return (row/a.latent*each+col)*a.latent + row%a.latent
		}})
	b.add(target{name: to + "v_b.weight", from: from + both, rows: s.heads * a.value, cols: a.latent, stack: s.heads,
		sourceRows: s.heads * each, order: partOfEach(each, a.still, a.value)})
	b.matrix(to+"output.weight", from+cmp.Or(a.output, "o_proj.weight"), s.width, s.heads*a.value)
}
