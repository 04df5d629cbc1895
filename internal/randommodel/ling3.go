package randommodel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Ling3 is a small random model of Ling 3 (bailingmoe3), of five blocks in groups of two and one for multi-token
// prediction.
type Ling3 struct{ Context int } // 0: 512

// File is the GGUF file.
func (m Ling3) File(tb testing.TB) []byte {
	tb.Helper()
	const heads, size, inner, width = 4, 16, 4 * 16, Width
	kv := []uint32{0, 1, 0, 1, 1, 1}
	keys := map[string]gguf.Value{"context_length": uint32(cmp.Or(m.Context, 512)), "embedding_length": uint32(width),
		"block_count": uint32(len(kv)), "feed_forward_length": uint32(96), "vocab_size": uint32(Vocab),
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
		list = append(list, Tensor(3, name, mean, 1/math.Sqrt(float64(max(dims[0], 16))), dims...))
	}
	add("token_embd.weight", 0, width, Vocab)
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
	add("output.weight", 0, width, Vocab)
	return Bytes(tb, kvs, list)
}
