package convert

import (
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// Members and names of families with experts.
var (
	qwenMembers = with(llamaMembers, members{"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
		"expert_feed_forward_length":        "moe_intermediate_size",
		"expert_shared_feed_forward_length": "shared_expert_intermediate_size"})
	routedMembers = with(llamaMembers, members{"expert_count": "n_routed_experts",
		"expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
		"leading_dense_block_count": "first_k_dense_replace", "expert_shared_count": "n_shared_experts",
		"expert_weights_scale": "routed_scaling_factor", "expert_weights_norm": "norm_topk_prob",
		"expert_group_count": "n_group", "expert_group_used_count": "topk_group",
		"nextn_predict_layers": "num_nextn_predict_layers"})
	latentMembers = with(routedMembers, members{"attention.kv_lora_rank": "kv_lora_rank",
		"attention.q_lora_rank": "q_lora_rank", "attention.value_length_mla": "v_head_dim",
		"rope.dimension_count": "qk_rope_head_dim", "attention.key_length": "", "attention.head_count_kv": ""})
	routedNames = []string{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias",
		"ffn_gate_shexp.", "mlp.shared_experts.gate_proj.", "ffn_up_shexp.", "mlp.shared_experts.up_proj.",
		"ffn_down_shexp.", "mlp.shared_experts.down_proj.", "nextn.eh_proj.", "eh_proj.", "nextn.enorm.", "enorm.",
		"nextn.hnorm.", "hnorm.", "nextn.shared_head_norm.", "shared_head.norm.", "nextn.shared_head_head.",
		"shared_head.head.", "nextn.embed_tokens.", "embed_tokens."}
	latentNames = append([]string{"attn_q_a.", "self_attn.q_a_proj.", "attn_q_a_norm.", "self_attn.q_a_layernorm.",
		"attn_q_b.", "self_attn.q_b_proj.", "attn_kv_a_mqa.", "self_attn.kv_a_proj_with_mqa.",
		"attn_kv_a_norm.", "self_attn.kv_a_layernorm."}, routedNames...)
	moe = object{"num_experts": randommodel.Experts, "num_experts_per_tok": 3, "norm_topk_prob": false,
		"output_router_logits": false, "router_aux_loss_coef": 0.01}
)

// expertLayouts are classes whose blocks are attention and experts.
func expertLayouts() []layoutCase {
	few := naming{5, "mlp.gate.weight: shape [6 64]"}
	deep := with(plain, object{"num_key_value_heads": 4, "scoring_func": "sigmoid", "ep_size": 1,
		"topk_method": "noaux_tc", "moe_layer_freq": 1, "attention_bias": false, "seq_aux": true, "aux_loss_alpha": 0.001})
	return []layoutCase{
		{class: "MixtralForCausalLM", recipe: "llama experts", turned: true, names: []string{"ffn_gate_inp.",
			"block_sparse_moe.gate.", "ffn_gate_exps.", "block_sparse_moe.experts.%d.w1.", "ffn_up_exps.",
			"block_sparse_moe.experts.%d.w3.", "ffn_down_exps.", "block_sparse_moe.experts.%d.w2."},
			config:  with(tied, object{"num_local_experts": randommodel.Experts, "num_experts_per_tok": 3}),
			refuses: object{"num_experts_per_tok": 7, "num_local_experts": 1 << 20}},
		{class: "Qwen2MoeForCausalLM", recipe: "qwen2moe", members: qwenMembers, config: with(plain, moe, object{
			"decoder_sparse_step": 1, "mlp_only_layers": []int{}, "use_sliding_window": false}),
			refuses: object{"num_experts_per_tok": 7, "norm_topk_prob": true, "num_experts": few, "decoder_sparse_step": 2,
				"mlp_only_layers": []int{1}}},
		{class: "Qwen3MoeForCausalLM", recipe: "qwen3moe", members: qwenMembers, config: with(moe, tied, object{
			"norm_topk_prob": true}),
			refuses: object{"num_experts_per_tok": 7, "norm_topk_prob": false, "num_experts": few}},
		{class: "OlmoeForCausalLM", recipe: "olmoe", config: with(plain, moe, object{"clip_qkv": nil}),
			refuses: object{"num_experts_per_tok": 7, "norm_topk_prob": true, "num_experts": few, "clip_qkv": 8.0}},
		{class: "Qwen3VLMoeForConditionalGeneration", shared: "qwen3vlmoe", members: qwenMembers, lay: layFlipped,
			apart: []string{"n_deepstack_layers"}, config: with(plain, object{"norm_topk_prob": true,
				"decoder_sparse_step": 1, "mlp_only_layers": []int{}, "rope_scaling": object{"rope_type": "default",
					"mrope_interleaved": true, "mrope_section": []int{6, 5, 5}}})},
		{class: "Glm4MoeForCausalLM", shared: "glm4moe", names: append([]string{"post_attention_norm.",
			"post_attention_layernorm."}, routedNames...), members: routedMembers, config: with(plain, object{
			"partial_rotary_factor": 0.5, "attention_bias": true, "use_qk_norm": false, "n_group": 1, "topk_group": 1,
			"scoring_func": "sigmoid", "topk_method": "noaux_tc"}),
			refuses: object{"scoring_func": "softmax", "topk_method": "greedy",
				"num_nextn_predict_layers": 2, "n_group": 3, "first_k_dense_replace": 1.5,
				"hidden_act": "gelu"}},
		{class: "DeepseekV3ForCausalLM", shared: "deepseek2", names: latentNames, members: latentMembers, lay: layLatent,
			config: with(deep, object{"qk_nope_head_dim": 16, "rope_scaling": object{"type": "yarn",
				"factor": 40, "original_max_position_embeddings": 32, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
				"mscale_all_dim": 1.0}}),
			refuses: object{"scoring_func": "softmax", "topk_method": "greedy", "topk_group": 5, "moe_layer_freq": 2,
				"attention_bias": true, "qk_head_dim": 5, "num_key_value_heads": 2}},
		{class: "DeepseekV2ForCausalLM", shared: "deepseek2-lite", names: latentNames, members: latentMembers,
			lay: layLatent, config: with(deep, object{"qk_nope_head_dim": 8, "num_key_value_heads": 2,
				"scoring_func": "softmax", "topk_method": "greedy", "n_group": 1, "topk_group": 1, "norm_topk_prob": false,
				"rope_scaling": object{"type": "yarn", "factor": 40, "original_max_position_embeddings": 32,
					"mscale": 0.707, "mscale_all_dim": 0.707}}),
			refuses: object{"topk_method": "group_limited_greedy", "scoring_func": "sigmoid", "norm_topk_prob": true}},
		{class: "Glm4MoeLiteForCausalLM", shared: "deepseek2-glm", names: latentNames, members: latentMembers,
			lay:    layLatent,
			config: with(deep, object{"qk_nope_head_dim": 12, "partial_rotary_factor": 1.0, "rope_scaling": nil})},
		{class: "HunYuanMoEV1ForCausalLM", names: hunyuanNames, members: with(llamaMembers,
			members{"expert_count": "num_experts"}), config: with(hunyuanConfig, object{"tie_word_embeddings": false,
			"moe_topk": []int{3, 3}, "moe_intermediate_size": []int{96, 96}, "num_shared_expert": []int{1, 1},
			"use_mixed_mlp_moe": true}),
			edit: func(r *randommodel.Recipe) {
				*r = randommodel.Recipe{Arch: "hunyuan-moe", Parts: "gate qkhead experts untied", Keys: map[string]gguf.Value{
					"expert_count": uint32(randommodel.Experts), "expert_used_count": uint32(3), "expert_shared_count": uint32(1),
					"expert_feed_forward_length": uint32(96), "expert_shared_feed_forward_length": uint32(96)}}
			},
			refuses: object{"norm_topk_prob": false, "routed_scaling_factor": 2, "group_limited_greedy": true,
				"moe_topk": []int{3, 2}, "moe_intermediate_size": []int{24, 24}, "moe_layer_num_skipped": 1}},
		{class: "BailingMoeV2ForCausalLM", shared: "bailingmoe2", names: append([]string{"token_embd.",
			"model.word_embeddings.", "attn_qkv.", "attention.query_key_value.", "attn_output.", "attention.dense.",
			"attn_q_norm.", "attention.query_layernorm.", "attn_k_norm.", "attention.key_layernorm.",
			"exp_probs_b.bias", "mlp.gate.expert_bias", "layer_output_norm.", "final_layernorm."}, routedNames...),
			members: with(routedMembers, members{"expert_count": "num_experts", "expert_shared_count": "num_shared_experts",
				"expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size"}), config: with(plain, object{
				"partial_rotary_factor": 0.5, "score_function": "sigmoid", "use_qk_norm": true,
				"use_rmsnorm": true, "moe_router_enable_expert_bias": true, "use_qkv_bias": false, "router_dtype": "fp32",
				"norm_head": false, "norm_softmax": false, "moe_router_enable_shared_expert": true,
				"moe_router_enable_routed_scaling": true}),
			refuses: object{"norm_head": true, "rotary_dim": 5, "moe_router_enable_routed_scaling": false,
				"score_function": "softmax", "use_qk_norm": false, "moe_router_enable_expert_bias": false}},
		ling3Layout(),
		{class: "Ernie4_5_MoeForCausalLM", shared: "ernie4-5-moe", names: append([]string{"exp_probs_b.bias",
			"mlp.moe_statics.e_score_correction_bias"}, routedNames...), members: with(llamaMembers, members{
			"expert_count": "moe_num_experts", "expert_used_count": "moe_k",
			"expert_feed_forward_length": "moe_intermediate_size", "expert_shared_count": "moe_num_shared_experts",
			"leading_dense_block_count": "moe_layer_start_index"}), config: with(plain, object{
			"moe_layer_interval": 1, "moe_layer_end_index": 2, "moe_use_aux_free": true, "use_bias": false,
			"moe_capacity": []int{64, 64, 64}, "moe_gate": "topk", "moe_gate_act": "softmax"}),
			refuses: object{"moe_gate_act": "sigmoid", "moe_gate": "hash", "compression_ratio": 0.5, "moe_layer_interval": 2,
				"moe_layer_end_index": 1, "moe_use_aux_free": false}},
	}
}

// layStacked writes the experts of Qwen 3.5: all of a block are one tensor of gates and ups, and one of outputs.
func layStacked(l *laid, x gguf.Tensor) bool {
	cols, rows, n := dimsOf(x)
	switch experts := l.block(x) + "mlp.experts."; {
	case strings.HasSuffix(x.Name, "ffn_gate_exps.weight"):
		l.inPair(x.Name, strings.Replace(x.Name, "gate", "up", 1), experts+"gate_up_proj", n, 2*rows, cols)
	case strings.HasSuffix(x.Name, "ffn_up_exps.weight"):
	case strings.HasSuffix(x.Name, "ffn_down_exps.weight"):
		values := l.of(x.Name)
		l.put(experts+"down_proj", []int{n, rows, cols}, func(i int) float32 { return values[i] })
	default:
		return false
	}
	return true
}

// layFlipped writes the experts of Qwen 3 VL: of each its inputs, then its outputs, those of gate before those of up.
func layFlipped(l *laid, x gguf.Tensor) bool {
	cols, rows, n := dimsOf(x)
	values, experts := l.of(x.Name), l.block(x)+"mlp.experts."
	switch {
	case strings.HasSuffix(x.Name, "ffn_gate_exps.weight"):
		up := l.of(strings.Replace(x.Name, "gate", "up", 1))
		l.put(experts+"gate_up_proj", []int{n, cols, 2 * rows}, func(i int) float32 {
			expert, input, output := i/(2*rows)/cols, i/(2*rows)%cols, i%(2*rows)
			if output < rows {
				return values[(expert*rows+output)*cols+input]
			}
			return up[(expert*rows+output-rows)*cols+input]
		})
	case strings.HasSuffix(x.Name, "ffn_up_exps.weight"):
	case strings.HasSuffix(x.Name, "ffn_down_exps.weight"):
		l.put(experts+"down_proj", []int{n, cols, rows}, func(i int) float32 {
			return values[i/rows/cols*rows*cols+i%rows*cols+i/rows%cols]
		})
	default:
		return false
	}
	return true
}

// layLatent writes the matrix that makes keys and values of latents: of each head the rows of keys, then of values.
func layLatent(l *laid, x gguf.Tensor) bool {
	block, is := strings.CutSuffix(x.Name, "attn_k_b.weight")
	if !is {
		return strings.HasSuffix(x.Name, "attn_v_b.weight")
	}
	v, _ := l.f.Tensor(block + "attn_v_b.weight")
	keys, values := l.of(x.Name), l.of(v.Name)
	nope, rank, heads := dimsOf(x)
	_, dv, _ := dimsOf(v)
	each := nope + dv
	l.put(l.name(block)+"self_attn.kv_b_proj.weight", []int{heads * each, rank}, func(i int) float32 {
		head, at, col := i/rank/each, i/rank%each, i%rank
		if at < nope {
			return keys[(head*rank+col)*nope+at]
		}
		return values[(head*dv+at-nope)*rank+col]
	})
	return true
}

// TestTypesOfExperts: experts have the type that is asked for, and what chooses them stays float32.
func TestTypesOfExperts(t *testing.T) {
	s, _, _ := layoutOf(t, "Qwen2MoeForCausalLM").folder(t)
	got, _ := converted(t, s.dir, Options{Type: "q8_0"})
	for name, want := range map[string]string{"ffn_gate_inp": "F32", "ffn_gate_inp_shexp": "F32", "ffn_gate_exps": "Q8_0",
		"ffn_down_exps": "Q8_0", "ffn_up_shexp": "Q8_0"} {
		if x := tensorOf(t, got, "blk.0."+name+".weight"); x.Type.String() != want {
			t.Errorf("%s is %v, want %s", name, x.Type, want)
		}
	}
}

// TestExpertsAreCounted: rows of all experts that no number of 32 bits counts are refused before they are multiplied.
func TestExpertsAreCounted(t *testing.T) {
	for name, c := range map[string]struct{ object, count, width string }{
		"GptOssForCausalLM":              {"", "num_local_experts", "intermediate_size"},
		"Gemma4ForConditionalGeneration": {"text_config.", "num_experts", "moe_intermediate_size"},
	} {
		s, config, _ := layoutOf(t, name).folder(t)
		config = inside(config, c.object+c.count, 10000)
		for _, size := range []string{"hidden_size", c.width} {
			s.writeConfig(inside(config, c.object+size, largest))
			s.refused(name+", "+size, []string{"hidden_size", "10000 experts"})
		}
	}
}
