package convert

import (
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// ling3Layout is Ling 3, with a block behind the groups and one for multi-token prediction.
func ling3Layout() layoutCase {
	return layoutCase{class: "BailingMoeV3ForCausalLM", recipe: "llama", lay: layLing3,
		file: func(t *testing.T, _ *gguf.File) *gguf.File { return openedFile(t, randommodel.Ling3{}.File(t)) },
		names: append([]string{"token_embd.", "model.word_embeddings.", "attn_q.", "attention.q_proj.",
			"attn_k.", "attention.k_proj.", "attn_v.", "attention.v_proj.", "ssm_f_a.", "attention.f_proj.",
			"ssm_g_a.", "attention.g_proj.", "attn_gate.", "attention.g_proj.", "ssm_beta.", "attention.b_proj.",
			"ssm_dt.bias", "attention.dt_bias", "ssm_norm.", "attention.o_norm.", "attn_output.", "attention.o_proj.",
			"attn_q_a.", "attention.q_a_proj.", "attn_q_a_norm.", "attention.q_a_layernorm.",
			"attn_q_b.", "attention.q_b_proj.", "attn_kv_a_mqa.", "attention.kv_a_proj_with_mqa.",
			"attn_kv_a_norm.", "attention.kv_a_layernorm.", "exp_probs_b.bias", "mlp.gate.expert_bias",
			"layer_output_norm.", "final_layernorm."}, routedNames...),
		members: with(latentMembers, members{"expert_count": "num_experts", "expert_shared_count": "num_shared_experts",
			"kda.head_dim": "head_dim", "kda.gate_lower_bound": "kda_lower_bound", "ssm.conv_kernel": "short_conv_kernel_size",
			"attention.value_length": ""}),
		config: with(plain, object{"moe_shared_expert_intermediate_size": 24, "qk_nope_head_dim": 16, "qk_head_dim": 24,
			"num_key_value_heads": 4, "layer_group_size": 2, "no_kda_lora": true, "kda_safe_gate": true,
			"gated_attention_proj_granularity_type": "head_wise", "score_function": "sigmoid", "scoring_func": "sigmoid",
			"topk_method": "noaux_tc", "use_qk_norm": true, "linear_silu": true, "group_norm_size": 1, "rotary_dim": 8,
			"moe_router_enable_expert_bias": true, "mtp_use_kda": false, "use_kda_lora": false, "router_dtype": "fp32",
			"num_kv_heads_for_linear_attn": 0, "rope_interleave": true, "partial_rotary_factor": 0.5,
			"rope_parameters":                object{"rope_type": "default", "rope_theta": 50, "partial_rotary_factor": 0.5},
			"expert_swiglu_limit_list":       []any{nil, 0.5, 0, 0.75, nil, 0.25, 7},
			"share_expert_swiglu_limit_list": []any{0.5, nil, 2}}),
		refuses: object{"no_kda_lora": nil, "kda_safe_gate": false, "gated_attention_proj_granularity_type": "element_wise",
			"kda_lower_bound": 0, "num_key_value_heads": 2, "num_kv_heads_for_linear_attn": 2, "use_mla_nope": true,
			"rope_interleave": false, "mtp_use_kda": true, "rope_parameters.partial_rotary_factor": 0.25,
			"rotary_dim": 4, "layer_group_size": 0, "expert_swiglu_limit_list": []any{-1}, "score_function": "softmax",
			"num_shared_experts": 0, "num_nextn_predict_layers": 2, "tie_word_embeddings": true, "group_norm_size": 2},
	}
}

// layLing3 writes what is stored otherwise: filters of three dimensions, logarithms of four, the output's matrix of
// latent attention by a name of its own, and what makes keys and values of latents.
func layLing3(l *laid, x gguf.Tensor) bool {
	cols, rows, n := dimsOf(x)
	values, attention := l.of(x.Name), l.block(x)+"attention."
	_, latent := l.f.Tensor(strings.Replace(x.Name, "attn_output.", "attn_gate.", 1))
	switch name := x.Name[strings.LastIndexByte(strings.TrimSuffix(x.Name, ".weight"), '.')+1:]; {
	case name == "ssm_a":
		l.put(attention+"A_log", []int{1, 1, rows, 1}, func(i int) float32 {
			return float32(math.Log(float64(values[i])))
		})
	case strings.HasPrefix(name, "ssm_conv1d_"):
		l.put(attention+name[len("ssm_conv1d_"):][:1]+"_conv1d.weight", []int{n, 1, cols},
			func(i int) float32 { return values[i] })
	case name == "attn_output.weight" && latent:
		l.put(attention+"dense.weight", []int{rows, cols}, func(i int) float32 { return values[i] })
	case name == "attn_k_b.weight":
		layLatent(l, x)
		from, to := l.block(x)+"self_attn.kv_b_proj.weight", attention+"kv_b_proj.weight"
		l.put(to, l.tensors[from], l.values[from])
		delete(l.tensors, from)
	case name == "attn_v_b.weight":
	default:
		return false
	}
	return true
}
