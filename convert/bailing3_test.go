package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// ling3Layout is Ling 3, with a block behind the groups and one for multi-token prediction.
func ling3Layout() layoutCase {
	return layoutCase{class: "BailingMoeV3ForCausalLM", recipe: "llama", lay: layLing3,
		file: func(t *testing.T, _ *gguf.File) *gguf.File { return ling3File(t) },
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

// ling3File is a drawn file of the architecture.
func ling3File(t *testing.T) *gguf.File {
	t.Helper()
	const heads, size, inner, width = 4, 16, 4 * 16, 64
	kv := []uint32{0, 1, 0, 1, 1, 1}
	keys := map[string]gguf.Value{"context_length": uint32(512), "embedding_length": uint32(width),
		"block_count": uint32(len(kv)), "feed_forward_length": uint32(96), "vocab_size": uint32(randommodel.Vocab),
		"attention.head_count": uint32(heads), "attention.head_count_kv": kv,
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.kv_lora_rank": uint32(24),
		"attention.q_lora_rank": uint32(40), "attention.key_length": uint32(32), "attention.value_length": uint32(size),
		"attention.key_length_mla": uint32(24), "attention.value_length_mla": uint32(20), "ssm.conv_kernel": uint32(4),
		"kda.head_dim": uint32(size), "kda.safe_gate": true, "kda.gate_lower_bound": float32(-0.75),
		"rope.freq_base": float32(50), "rope.dimension_count": uint32(8), "expert_count": uint32(8),
		"expert_used_count": uint32(3), "expert_feed_forward_length": uint32(32), "expert_shared_count": uint32(2),
		"expert_shared_feed_forward_length": uint32(48), "leading_dense_block_count": uint32(1),
		"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(2.5),
		"expert_group_count": uint32(4), "expert_group_used_count": uint32(2), "nextn_predict_layers": uint32(1),
		"swiglu_clamp_exp": []float32{0, 0.5, 0, 0.75, 0, 0.25}, "swiglu_clamp_shexp": []float32{0.5, 0, 2, 0, 0, 0}}
	kvs := []gguf.KV{{Key: "general.architecture", Value: "bailingmoe3"}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		kvs = append(kvs, gguf.KV{Key: "bailingmoe3." + k, Value: keys[k]})
	}
	var list []gguf.TensorSource
	add := func(name string, mean float64, dims ...int) {
		list = append(list, randommodel.Tensor(3, name, mean, 1/math.Sqrt(float64(max(dims[0], 16))), dims...))
	}
	add("token_embd.weight", 0, width, randommodel.Vocab)
	for i, n := range kv {
		to := fmt.Sprintf("blk.%d.", i)
		add(to+"attn_norm.weight", 1, width)
		if n == 0 {
			for _, part := range []string{"q", "k", "v"} {
				add(to+"attn_"+part+".weight", 0, width, inner)
				add(to+"ssm_conv1d_"+part+".weight", 0, 4, 1, inner)
			}
			add(to+"ssm_f_a.weight", 0, width, inner)
			add(to+"ssm_g_a.weight", 0, width, inner)
			add(to+"ssm_beta.weight", 0, width, heads)
			add(to+"ssm_a", 2, 1, heads)
			add(to+"ssm_dt.bias", 0, inner)
			add(to+"ssm_norm.weight", 1, size)
			add(to+"attn_output.weight", 0, inner, width)
		} else {
			add(to+"attn_q_a.weight", 0, width, 40)
			add(to+"attn_q_a_norm.weight", 1, 40)
			add(to+"attn_q_b.weight", 0, 40, heads*24)
			add(to+"attn_kv_a_mqa.weight", 0, width, 32)
			add(to+"attn_kv_a_norm.weight", 1, 24)
			add(to+"attn_k_b.weight", 0, 16, 24, heads)
			add(to+"attn_v_b.weight", 0, 24, 20, heads)
			add(to+"attn_gate.weight", 0, width, heads)
			add(to+"attn_output.weight", 0, heads*20, width)
		}
		add(to+"ffn_norm.weight", 1, width)
		feed := func(suffix string, inner int, n ...int) {
			add(to+"ffn_gate"+suffix, 0, append([]int{width, inner}, n...)...)
			add(to+"ffn_up"+suffix, 0, append([]int{width, inner}, n...)...)
			add(to+"ffn_down"+suffix, 0, append([]int{inner, width}, n...)...)
		}
		if i == 0 {
			feed(".weight", 96)
			continue
		}
		add(to+"ffn_gate_inp.weight", 0, width, 8)
		add(to+"exp_probs_b.bias", 0, 8)
		feed("_exps.weight", 32, 8)
		feed("_shexp.weight", 48)
	}
	add("blk.5.nextn.eh_proj.weight", 0, 2*width, width)
	for _, norm := range []string{"blk.5.nextn.enorm", "blk.5.nextn.hnorm", "blk.5.layer_output_norm", "output_norm"} {
		add(norm+".weight", 1, width)
	}
	add("output.weight", 0, width, randommodel.Vocab)
	return openedFile(t, randommodel.Bytes(t, kvs, list))
}
