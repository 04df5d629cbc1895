package convert

import (
	"maps"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// merged is several maps in one.
func merged[V any](list ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range list {
		maps.Copy(out, m)
	}
	return out
}

type members = map[string]string

// Members of config.json, by the keys that they are.
var (
	commonMembers = members{"embedding_length": "hidden_size", "block_count": "num_hidden_layers",
		"attention.layer_norm_rms_epsilon": "rms_norm_eps"}
	llamaMembers = merged(commonMembers, members{"attention.head_count": "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads", "feed_forward_length": "intermediate_size",
		"context_length": "max_position_embeddings", "rope.freq_base": "rope_theta", "attention.key_length": "head_dim"})
	qwenMembers = merged(llamaMembers, members{"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
		"expert_feed_forward_length":        "moe_intermediate_size",
		"expert_shared_feed_forward_length": "shared_expert_intermediate_size"})
	deltaMembers = merged(qwenMembers, members{"ssm.conv_kernel": "linear_conv_kernel_dim",
		"ssm.state_size": "linear_key_head_dim", "ssm.group_count": "linear_num_key_heads",
		"ssm.time_step_rank": "linear_num_value_heads", "full_attention_interval": "full_attention_interval"})
	routedMembers = merged(llamaMembers, members{"expert_count": "n_routed_experts",
		"expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
		"leading_dense_block_count": "first_k_dense_replace", "expert_shared_count": "n_shared_experts",
		"expert_weights_scale": "routed_scaling_factor", "expert_weights_norm": "norm_topk_prob",
		"expert_group_count": "n_group", "expert_group_used_count": "topk_group",
		"nextn_predict_layers": "num_nextn_predict_layers"})
	latentMembers = merged(routedMembers, members{"attention.kv_lora_rank": "kv_lora_rank",
		"attention.q_lora_rank": "q_lora_rank", "attention.value_length_mla": "v_head_dim",
		"rope.dimension_count": "qk_rope_head_dim", "attention.key_length": "", "attention.head_count_kv": ""})
	graniteMembers = merged(llamaMembers, members{"embedding_scale": "embedding_multiplier",
		"residual_scale": "residual_multiplier", "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
		"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok",
		"expert_shared_feed_forward_length": "shared_intermediate_size"})
	graniteHybridMembers = merged(graniteMembers, members{"ssm.conv_kernel": "mamba_d_conv",
		"ssm.state_size": "mamba_d_state", "ssm.group_count": "mamba_n_groups", "ssm.time_step_rank": "mamba_n_heads",
		"attention.head_count_kv": ""})
	nemotronHMembers = merged(routedMembers, members{"ssm.conv_kernel": "conv_kernel", "ssm.state_size": "ssm_state_size",
		"ssm.group_count": "n_groups", "ssm.time_step_rank": "mamba_num_heads", "attention.head_count_kv": "",
		"feed_forward_length": "", "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
		"expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size", "moe_latent_size": "moe_latent_size"})
	mambaMembers = merged(commonMembers, members{"ssm.conv_kernel": "conv_kernel", "ssm.inner_size": "intermediate_size",
		"ssm.state_size": "state_size", "ssm.time_step_rank": "time_step_rank",
		"attention.layer_norm_rms_epsilon": "layer_norm_epsilon"})
	falconMembers = merged(llamaMembers, members{"ssm.conv_kernel": "mamba_d_conv", "ssm.inner_size": "mamba_d_ssm",
		"ssm.state_size": "mamba_d_state", "ssm.group_count": "mamba_n_groups", "ssm.time_step_rank": "mamba_n_heads"})
)

// Names of tensors.
var (
	routedNames = []string{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias",
		"ffn_gate_shexp.", "mlp.shared_experts.gate_proj.", "ffn_up_shexp.", "mlp.shared_experts.up_proj.",
		"ffn_down_shexp.", "mlp.shared_experts.down_proj.", "nextn.eh_proj.", "eh_proj.", "nextn.enorm.", "enorm.",
		"nextn.hnorm.", "hnorm.", "nextn.shared_head_norm.", "shared_head.norm.", "nextn.shared_head_head.",
		"shared_head.head.", "nextn.embed_tokens.", "embed_tokens."}
	latentNames = append([]string{"attn_q_a.", "self_attn.q_a_proj.", "attn_q_a_norm.", "self_attn.q_a_layernorm.",
		"attn_q_b.", "self_attn.q_b_proj.", "attn_kv_a_mqa.", "self_attn.kv_a_proj_with_mqa.",
		"attn_kv_a_norm.", "self_attn.kv_a_layernorm."}, routedNames...)
	nextNames = []string{"post_attention_norm.", "post_attention_layernorm.", "ssm_ba.", "linear_attn.in_proj_ba.",
		"ssm_conv1d.", "linear_attn.conv1d.", "ssm_dt.bias", "linear_attn.dt_bias", "ssm_a", "linear_attn.A_log",
		"ssm_norm.", "linear_attn.norm.", "ssm_out.", "linear_attn.out_proj."}
	graniteNames = append([]string{"ffn_gate_inp.", "block_sparse_moe.router.layer."}, mambaNames("mamba.")...)
	backbone     = []string{"blk.", "backbone.layers.", "token_embd.", "backbone.embeddings.", "output_norm.",
		"backbone.norm_f.", "attn_norm.", "norm."}
	nemotronHNames = append(append([]string{"attn_q.", "mixer.q_proj.", "attn_k.", "mixer.k_proj.", "attn_v.",
		"mixer.v_proj.", "attn_output.", "mixer.o_proj.", "ffn_up.", "mixer.up_proj.", "ffn_down.", "mixer.down_proj.",
		"ffn_gate_inp.", "mixer.gate.", "exp_probs_b.bias", "mixer.gate.e_score_correction_bias",
		"ffn_up_exps.", "mixer.experts.%d.up_proj.", "ffn_down_exps.", "mixer.experts.%d.down_proj.",
		"ffn_up_shexp.", "mixer.shared_experts.up_proj.", "ffn_down_shexp.", "mixer.shared_experts.down_proj.",
		"ffn_latent_down.", "mixer.fc1_latent_proj.", "ffn_latent_up.", "mixer.fc2_latent_proj."},
		mambaNames("mixer.")...), backbone...)
)

// mambaNames are those of Mamba's layers behind a prefix.
func mambaNames(prefix string) []string {
	return []string{"ssm_in.", prefix + "in_proj.", "ssm_conv1d.", prefix + "conv1d.", "ssm_dt.bias", prefix + "dt_bias",
		"ssm_a", prefix + "A_log", "ssm_d", prefix + "D", "ssm_norm.", prefix + "norm.", "ssm_out.", prefix + "out_proj."}
}

// layTiled writes the delta nets and experts of Qwen 3.5.
func (d drawnDelta) layTiled(l *laid, x gguf.Tensor) bool {
	block, _, _ := strings.Cut(strings.TrimPrefix(x.Name, "blk."), ".")
	experts := strings.TrimSuffix(l.name("blk."+block+".ffn_gate_exps."), "%d.gate_proj.")
	cols, rows, n := dimsOf(x)
	switch values := l.of(x.Name); {
	case strings.HasSuffix(x.Name, "ffn_gate_exps.weight"):
		l.inPair(x.Name, strings.Replace(x.Name, "gate", "up", 1), experts+"gate_up_proj", n, 2*rows, cols)
	case strings.HasSuffix(x.Name, "ffn_up_exps.weight"):
	case strings.HasSuffix(x.Name, "ffn_down_exps.weight"):
		l.put(experts+"down_proj", []int{n, rows, cols}, func(i int) float32 { return values[i] })
	case strings.Contains(x.Name, "ssm_norm"):
		return false
	case strings.Contains(x.Name, "ssm_conv1d"):
		l.put(l.name(x.Name), []int{rows, 1, cols}, d.grouped(x.Name, values, rows, cols))
	case strings.Contains(x.Name, "ssm_"), strings.Contains(x.Name, "attn_qkv."), strings.Contains(x.Name, "attn_gate."):
		shape := []int{rows, cols}
		if len(x.Dims) == 1 {
			shape = shape[1:]
		}
		l.put(l.name(x.Name), shape, d.grouped(x.Name, values, rows, cols))
	default:
		return false
	}
	return true
}

// layFlipped writes the experts of Qwen 3 VL: of each its inputs, then its outputs, those of gate before those of up.
func layFlipped(l *laid, x gguf.Tensor) bool {
	block, _, _ := strings.Cut(strings.TrimPrefix(x.Name, "blk."), ".")
	experts := strings.TrimSuffix(l.name("blk."+block+".ffn_gate_exps."), "%d.gate_proj.")
	cols, rows, n := dimsOf(x)
	switch values := l.of(x.Name); {
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

// layNext writes the inputs of Qwen3-Next's delta nets: of each head of keys q, k, v and z.
func (d drawnDelta) layNext(l *laid, x gguf.Tensor) bool {
	block, is := strings.CutSuffix(x.Name, "attn_qkv.weight")
	if !is {
		return strings.HasSuffix(x.Name, "attn_gate.weight")
	}
	qkv, gate := l.of(x.Name), l.of(block+"attn_gate.weight")
	cols, values := int(x.Dims[0]), d.of*d.state
	each := 2*d.state + 2*values
	l.put(l.name(block)+"linear_attn.in_proj_qkvz.weight", []int{d.groups * each, cols}, func(i int) float32 {
		head, at, col := i/cols/each, i/cols%each, i%cols
		switch {
		case at < d.state:
			return qkv[(head*d.state+at)*cols+col]
		case at < 2*d.state:
			return qkv[(d.groups*d.state+head*d.state+at-d.state)*cols+col]
		case at < 2*d.state+values:
			return qkv[(2*d.groups*d.state+head*values+at-2*d.state)*cols+col]
		}
		return gate[(head*values+at-2*d.state-values)*cols+col]
	})
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

// layGranite writes experts, and gates with ups.
func layGranite(l *laid, x gguf.Tensor) bool {
	cols, rows, n := dimsOf(x)
	for _, kind := range []struct{ end, name string }{{"_exps.weight", "block_sparse_moe."},
		{"_shexp.weight", "shared_mlp."}, {".weight", "shared_mlp."}} {
		in, shape := []int{2 * rows, cols}, []int{rows, cols}
		if kind.end == "_exps.weight" {
			in, shape = append([]int{n}, in...), append([]int{n}, shape...)
		}
		if block, is := strings.CutSuffix(x.Name, "ffn_gate"+kind.end); is {
			l.inPair(x.Name, block+"ffn_up"+kind.end, l.name(block)+kind.name+"input_linear.weight", in...)
			return true
		}
		if block, is := strings.CutSuffix(x.Name, "ffn_down"+kind.end); is {
			values := l.of(x.Name)
			l.put(l.name(block)+kind.name+"output_linear.weight", shape, func(i int) float32 { return values[i] })
			return true
		}
		if strings.HasSuffix(x.Name, "ffn_up"+kind.end) {
			return true
		}
	}
	return false
}

// layWQKV writes q, k and v of InternLM 2 as one matrix: of each head of keys its queries, its key and its value.
func layWQKV(l *laid, x gguf.Tensor) bool {
	block, is := strings.CutSuffix(x.Name, "attn_q.weight")
	if !is {
		return strings.HasSuffix(x.Name, "attn_k.weight") || strings.HasSuffix(x.Name, "attn_v.weight")
	}
	const d, kv = 16, 2
	cols, rows, _ := dimsOf(x)
	q, k, v := l.of(x.Name), l.of(block+"attn_k.weight"), l.of(block+"attn_v.weight")
	queries := rows / kv
	turned := func(row int) int { return row/d*d + row%d%(d/2)*2 + row%d/(d/2) }
	l.put(l.name(block)+"attention.wqkv.weight", []int{rows + 2*kv*d, cols}, func(i int) float32 {
		group, at, col := i/cols/(queries+2*d), i/cols%(queries+2*d), i%cols
		switch {
		case at < queries:
			return q[turned(group*queries+at)*cols+col]
		case at < queries+d:
			return k[turned(group*d+at-queries)*cols+col]
		}
		return v[(group*d+at-queries-d)*cols+col]
	})
	return true
}

// falconMultipliers divide what the class multiplies; powers of 2 are exact.
var falconMultipliers = map[string]any{"attention_in_multiplier": 2, "attention_out_multiplier": 0.5,
	"key_multiplier": 0.25, "ssm_in_multiplier": 4, "ssm_out_multiplier": 0.125, "embedding_multiplier": 8,
	"lm_head_multiplier": 8, "mlp_multipliers": []float64{0.5, 16}, "ssm_multipliers": []float64{2, 4, 8, 16, 32}}

// layFalcon divides by falconMultipliers.
func layFalcon(l *laid, x gguf.Tensor) bool {
	const inner, states = randommodel.MambaInner, randommodel.Groups * randommodel.State
	cols, rows, _ := dimsOf(x)
	values := l.of(x.Name)
	for end, by := range map[string]float32{"token_embd.weight": 8, "attn_q.weight": 2, "attn_k.weight": 0.5,
		"attn_v.weight": 2, "attn_output.weight": 0.5, "ffn_gate.weight": 0.5, "ffn_down.weight": 16,
		"ssm_out.weight": 0.125} {
		if strings.HasSuffix(x.Name, end) {
			l.put(l.name(x.Name), []int{rows, cols}, func(i int) float32 { return values[i] / by })
			return true
		}
	}
	if !strings.HasSuffix(x.Name, "ssm_in.weight") {
		return false
	}
	l.put(l.name(x.Name), []int{rows, cols}, func(i int) float32 {
		zone, ends := 0, []int{inner, 2 * inner, 2*inner + states, 2*inner + 2*states, rows}
		for i/cols >= ends[zone] {
			zone++
		}
		return values[i] / 4 / float32(int(2)<<zone)
	})
	return true
}

// layNumbers writes the numbers of Apertus' activation, which are keys.
func layNumbers(l *laid, x gguf.Tensor) bool {
	if block, is := strings.CutSuffix(x.Name, "attn_norm.weight"); is {
		for _, name := range []string{"alpha_n", "alpha_p", "beta", "eps"} {
			list, err := l.f.Float32s("xielu." + name)
			if err != nil {
				l.t.Fatal(err)
			}
			at := int(block[len("blk.")] - '0')
			l.put(l.name(block)+"mlp.act_fn."+name, []int{1}, func(int) float32 { return list[at] })
		}
	}
	return x.Name == "rope_freqs.weight"
}

func layoutCases() []layoutCase {
	tied, untied := map[string]any{"tie_word_embeddings": true}, map[string]any{"tie_word_embeddings": false}
	silu := map[string]any{"hidden_act": "silu"}
	three := []string{"linear_attention", "linear_attention", "linear_attention", "full_attention"}
	delta := merged(silu, untied, map[string]any{"linear_value_head_dim": 16, "mlp_only_layers": []int{},
		"router_aux_loss_coef": 0.001})
	deep := merged(silu, untied, map[string]any{"num_key_value_heads": 4, "scoring_func": "sigmoid", "ep_size": 1,
		"topk_method": "noaux_tc", "moe_layer_freq": 1, "attention_bias": false, "seq_aux": true, "aux_loss_alpha": 0.001})
	granite := merged(silu, tied, map[string]any{"embedding_multiplier": 12, "residual_multiplier": 0.22,
		"attention_multiplier": 0.25})
	hybrid := merged(granite, map[string]any{"layer_types": []string{"mamba", "attention", "mamba", "attention"},
		"mamba_d_head": 32, "mamba_expand": 2, "mamba_conv_bias": true, "mamba_proj_bias": false, "mamba_chunk_size": 256,
		"num_key_value_heads": 2, "init_method": "mup", "normalization_function": "rmsnorm", "rope_theta": 10000,
		"position_embedding_type": "nope", "num_local_experts": 0, "num_experts_per_tok": 0,
		"shared_intermediate_size": 96, "time_step_limit": []any{0.0, "Infinity"}})
	nemotronH := merged(untied, map[string]any{"hybrid_override_pattern": "M-M*-", "mamba_head_dim": 16,
		"num_key_value_heads": 2, "intermediate_size": 96, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu",
		"expand": 2, "time_step_limit": []any{0.0, "Infinity"}, "use_conv_bias": true, "mamba_proj_bias": false,
		"use_bias": false, "sliding_window": nil, "time_step_rank": 256, "chunk_size": 128})
	nemotronE := merged(nemotronH, map[string]any{"hybrid_override_pattern": "MEM*E", "topk_group": 1})
	mambas := map[string]any{"hidden_act": "silu", "use_bias": false, "use_conv_bias": true, "expand": 2, "rms_norm": true,
		"time_step_limit": []any{0.0, "Infinity"}}
	hunyuan := merged(silu, map[string]any{"use_qk_norm": true, "use_cla": false, "vit_path": nil, "im_start_id": 5,
		"attention_head_dim": 24})
	return []layoutCase{
		{class: "Qwen3_5MoeForCausalLM", file: "qwen35moe", names: qwen35Names, after: mtpNames, lessOne: true,
			members: merged(deltaMembers, members{"nextn_predict_layers": "mtp_num_hidden_layers"}),
			lay:     drawnDelta{2, 2, 16}.layTiled,
			config: merged(delta, map[string]any{"layer_types": three, "rope_parameters": map[string]any{"rope_type": "default",
				"mrope_interleaved": true, "mrope_section": []int{3, 3, 2}, "rope_theta": 1e7, "partial_rotary_factor": 0.5}})},
		{class: "Qwen3NextForCausalLM", file: "qwen3next", names: nextNames, after: mtpNames, lessOne: true,
			members: deltaMembers, lay: drawnDelta{2, 2, 16}.layNext, config: merged(delta, map[string]any{
				"partial_rotary_factor": 0.25, "decoder_sparse_step": 1, "norm_topk_prob": true, "rope_scaling": nil})},
		{class: "Qwen3VLMoeForConditionalGeneration", file: "qwen3vlmoe", members: qwenMembers, lay: layFlipped,
			apart: []string{"n_deepstack_layers"}, config: merged(silu, untied, map[string]any{"norm_topk_prob": true,
				"decoder_sparse_step": 1, "mlp_only_layers": []int{}, "rope_scaling": map[string]any{"rope_type": "default",
					"mrope_interleaved": true, "mrope_section": []int{6, 5, 5}}})},
		{class: "Glm4MoeForCausalLM", file: "glm4moe", names: append([]string{"post_attention_norm.",
			"post_attention_layernorm."}, routedNames...), members: routedMembers, config: merged(silu, untied, map[string]any{
			"partial_rotary_factor": 0.5, "attention_bias": true, "use_qk_norm": false, "n_group": 1, "topk_group": 1})},
		{class: "DeepseekV3ForCausalLM", file: "deepseek2", names: latentNames, members: latentMembers, lay: layLatent,
			config: merged(deep, map[string]any{"qk_nope_head_dim": 16, "rope_scaling": map[string]any{"type": "yarn",
				"factor": 40, "original_max_position_embeddings": 32, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
				"mscale_all_dim": 1.0}})},
		{class: "DeepseekV2ForCausalLM", file: "deepseek2-lite", names: latentNames, members: latentMembers, lay: layLatent,
			config: merged(deep, map[string]any{"qk_nope_head_dim": 8, "num_key_value_heads": 2, "scoring_func": "softmax",
				"topk_method": "greedy", "n_group": 1, "topk_group": 1, "norm_topk_prob": false,
				"rope_scaling": map[string]any{"type": "yarn", "factor": 40, "original_max_position_embeddings": 32,
					"mscale": 0.707, "mscale_all_dim": 0.707}})},
		{class: "Glm4MoeLiteForCausalLM", file: "deepseek2-glm", names: latentNames, members: latentMembers, lay: layLatent,
			config: merged(deep, map[string]any{"qk_nope_head_dim": 12, "partial_rotary_factor": 1.0, "rope_scaling": nil})},

		{class: "GraniteMoeForCausalLM", file: "drawn granitemoe", names: graniteNames, members: graniteMembers,
			turned: true, lay: layGranite, config: granite},
		{class: "GraniteMoeHybridForCausalLM", file: "drawn granitehybrid", names: graniteNames, turned: true,
			members: graniteHybridMembers, lay: layGranite, config: hybrid},
		{class: "GraniteMoeHybridForCausalLM", file: "granitehybrid-moe", names: graniteNames, turned: true,
			members: graniteHybridMembers, lay: layGranite, config: merged(hybrid, map[string]any{"mamba_d_head": 16,
				"layer_types": []string{"mamba", "attention", "mamba"}, "num_local_experts": 8, "num_experts_per_tok": 3,
				"shared_intermediate_size": 40})},
		{class: "GraniteMoeHybridForCausalLM", file: "drawn granitehybrid experts", names: graniteNames, turned: true,
			members: graniteHybridMembers, lay: layGranite, config: merged(hybrid, map[string]any{"num_local_experts": 6,
				"num_experts_per_tok": 3, "shared_intermediate_size": 32, "position_embedding_type": "rope"})},
		{class: "GraniteMoeHybridForCausalLM", file: "drawn granite", names: graniteNames, turned: true,
			members: graniteMembers, lay: layGranite, config: merged(hybrid, map[string]any{"position_embedding_type": "rope",
				"layer_types": []string{"attention", "attention", "attention", "attention"}})},
		{class: "NemotronForCausalLM", file: "drawn nemotron", lessOne: true, members: merged(llamaMembers, members{
			"attention.layer_norm_epsilon": "norm_eps"}), config: merged(untied, map[string]any{"hidden_act": "relu2",
			"partial_rotary_factor": 0.5, "mlp_bias": true, "attention_bias": true})},
		{class: "NemotronHForCausalLM", file: "nemotron-h", names: nemotronHNames, members: nemotronHMembers,
			config: nemotronH},
		{class: "NemotronHForCausalLM", file: "nemotron-h-moe", names: nemotronHNames, members: nemotronHMembers,
			config: nemotronE},
		{class: "NemotronHForCausalLM", file: "nemotron-h-moe-latent", names: nemotronHNames, members: nemotronHMembers,
			config: nemotronE, apart: []string{"feed_forward_length"}},
		{class: "FalconH1ForCausalLM", file: "drawn falcon-h1", names: append([]string{"ffn_norm",
			"pre_ff_layernorm.weight", "output_norm.", "model.final_layernorm.", "ffn_gate.", "feed_forward.gate_proj.",
			"ffn_up.", "feed_forward.up_proj.", "ffn_down.", "feed_forward.down_proj."}, mambaNames("mamba.")...),
			members: falconMembers, lay: layFalcon, config: merged(silu, tied, falconMultipliers, map[string]any{
				"mamba_d_head": 32, "mamba_rms_norm": false, "mamba_norm_before_gate": true, "mamba_use_mlp": true,
				"projectors_bias": false, "mamba_conv_bias": true})},
		{class: "MambaForCausalLM", file: "mamba", names: append(append([]string{"ssm_x.", "mixer.x_proj.", "ssm_dt.",
			"mixer.dt_proj."}, mambaNames("mixer.")...), backbone...), members: mambaMembers, apart: []string{"context_length"},
			config: merged(mambas, map[string]any{"d_model": 64, "d_inner": 128, "time_step_min": 0.001})},
		{class: "Mamba2ForCausalLM", file: "mamba2", names: append(mambaNames("mixer."), backbone...),
			apart: []string{"context_length"}, members: merged(mambaMembers, members{"ssm.inner_size": "",
				"ssm.time_step_rank": "num_heads", "ssm.group_count": "n_groups"}), config: merged(mambas, untied, map[string]any{
				"head_dim": 16, "norm_before_gate": true, "chunk_size": 256})},

		{class: "HunYuanDenseV1ForCausalLM", file: "hunyuan-dense", names: hunyuanNames, members: llamaMembers,
			apart: []string{"rope.freq_base", "rope.scaling.alpha"}, config: merged(hunyuan, tied, map[string]any{
				"rope_scaling": map[string]any{"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32,
					"beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.0}})},
		{class: "HunYuanMoEV1ForCausalLM", file: "drawn hunyuan-moe", names: hunyuanNames, members: merged(llamaMembers,
			members{"expert_count": "num_experts"}), config: merged(hunyuan, untied, map[string]any{"moe_topk": []int{3, 3},
			"moe_intermediate_size": []int{96, 96}, "num_shared_expert": []int{1, 1}, "use_mixed_mlp_moe": true}),
			recipe: randommodel.Recipe{Arch: "hunyuan-moe", Parts: "gate qkhead experts untied", Keys: map[string]gguf.Value{
				"expert_count": uint32(randommodel.Experts), "expert_used_count": uint32(3), "expert_shared_count": uint32(1),
				"expert_feed_forward_length": uint32(96), "expert_shared_feed_forward_length": uint32(96)}}},
		{class: "InternLM2ForCausalLM", file: "internlm2", names: []string{"token_embd.", "model.tok_embeddings.",
			"output.", "output.", "output_norm.", "model.norm.", "attn_output.", "attention.wo.", "attn_norm.",
			"attention_norm.", "ffn_norm.", "ffn_norm.", "ffn_gate.", "feed_forward.w1.", "ffn_up.", "feed_forward.w3.",
			"ffn_down.", "feed_forward.w2."}, members: llamaMembers, lay: layWQKV, config: merged(silu, untied, map[string]any{
			"bias": false, "rope_scaling": map[string]any{"type": "dynamic", "factor": 2.0}})},
		{class: "MiniCPMForCausalLM", file: "drawn minicpm with keys", turned: true, members: merged(llamaMembers, members{
			"embedding_scale": "scale_emb"}), config: merged(silu, map[string]any{"scale_depth": 1.0, "dim_model_base": 32})},
		{class: "ApertusForCausalLM", file: "apertus", names: []string{"attn_norm.", "attention_layernorm.", "ffn_norm.",
			"feedforward_layernorm."}, members: llamaMembers, lay: layNumbers, config: merged(untied, map[string]any{
			"hidden_act": "xielu", "qk_norm": true, "post_norm": false, "mlp_bias": false, "rope_scaling": map[string]any{
				"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
				"original_max_position_embeddings": 8192}})},
		{class: "ArceeForCausalLM", file: "drawn arcee", turned: true, members: llamaMembers, config: merged(tied,
			map[string]any{"hidden_act": "relu2", "mlp_bias": false, "attention_bias": false})},
		{class: "BailingMoeV2ForCausalLM", file: "bailingmoe2", names: append([]string{"token_embd.",
			"model.word_embeddings.", "attn_qkv.", "attention.query_key_value.", "attn_output.", "attention.dense.",
			"attn_q_norm.", "attention.query_layernorm.", "attn_k_norm.", "attention.key_layernorm.",
			"exp_probs_b.bias", "mlp.gate.expert_bias", "layer_output_norm.", "final_layernorm."}, routedNames...),
			members: merged(routedMembers, members{"expert_count": "num_experts", "expert_shared_count": "num_shared_experts",
				"expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size"}), config: merged(silu, untied,
				map[string]any{"partial_rotary_factor": 0.5, "score_function": "sigmoid", "use_qk_norm": true,
					"use_rmsnorm": true, "moe_router_enable_expert_bias": true, "use_qkv_bias": false, "router_dtype": "fp32"})},
		{class: "Ernie4_5_MoeForCausalLM", file: "ernie4-5-moe", names: append([]string{"exp_probs_b.bias",
			"mlp.moe_statics.e_score_correction_bias"}, routedNames...), members: merged(llamaMembers, members{
			"expert_count": "moe_num_experts", "expert_used_count": "moe_k",
			"expert_feed_forward_length": "moe_intermediate_size", "expert_shared_count": "moe_num_shared_experts",
			"leading_dense_block_count": "moe_layer_start_index"}), config: merged(silu, untied, map[string]any{
			"moe_layer_interval": 1, "moe_layer_end_index": 2, "moe_use_aux_free": true, "use_bias": false,
			"moe_capacity": []int{64, 64, 64}, "moe_gate": "topk"})},
		{class: "Lfm2MoeForCausalLM", file: "drawn lfm2moe", names: []string{"token_embd_norm.", "model.embedding_norm.",
			"attn_norm.", "operator_norm.", "ffn_norm.", "ffn_norm.", "shortconv.", "conv.",
			"attn_output.", "self_attn.out_proj.", "attn_q_norm.", "self_attn.q_layernorm.", "attn_k_norm.",
			"self_attn.k_layernorm.", "ffn_gate.", "feed_forward.w1.", "ffn_up.", "feed_forward.w3.", "ffn_down.",
			"feed_forward.w2.", "ffn_gate_inp.", "feed_forward.gate.", "exp_probs_b.bias", "feed_forward.expert_bias",
			"ffn_gate_exps.", "feed_forward.experts.%d.w1.", "ffn_up_exps.", "feed_forward.experts.%d.w3.",
			"ffn_down_exps.", "feed_forward.experts.%d.w2."}, members: merged(llamaMembers, members{
			"attention.layer_norm_rms_epsilon": "norm_eps", "attention.head_count_kv": "", "shortconv.l_cache": "conv_L_cache",
			"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
			"expert_feed_forward_length": "moe_intermediate_size", "leading_dense_block_count": "num_dense_layers"}),
			config: map[string]any{"layer_types": []string{"conv", "full_attention", "conv", "full_attention"},
				"num_key_value_heads": 2, "conv_bias": false, "norm_topk_prob": true, "use_expert_bias": true,
				"routed_scaling_factor": 1.0, "tie_embedding": true}},
		{class: "Qwen3VLForConditionalGeneration", file: "drawn qwen3vl", members: llamaMembers, config: merged(silu, tied,
			map[string]any{"rope_scaling": map[string]any{"mrope_interleaved": true, "mrope_section": []int{3, 3, 2},
				"rope_type": "default"}})},
	}
}

// hunyuanNames are what Hunyuan's classes call their tensors otherwise.
var hunyuanNames = []string{"attn_q_norm.", "self_attn.query_layernorm.", "attn_k_norm.", "self_attn.key_layernorm.",
	"ffn_gate_inp.", "mlp.gate.wg.", "ffn_gate_shexp.", "mlp.shared_mlp.gate_proj.", "ffn_up_shexp.",
	"mlp.shared_mlp.up_proj.", "ffn_down_shexp.", "mlp.shared_mlp.down_proj."}
