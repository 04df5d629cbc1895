package synth

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// The latent attention and the experts of DeepSeek V2 Lite (config.json of deepseek-ai/DeepSeek-V2-Lite: kv_lora_rank,
// qk_rope_head_dim, qk_nope_head_dim, v_head_dim, n_shared_experts, first_k_dense_replace, rope_scaling).
const (
	latentRank   = 512
	latentRotate = 64 // numbers of a key that are rotated, and
	latentPlain  = 128
	latentValues = 128
	sharedUnits  = 2 // experts that every token is sent to
	plainLayers  = 1 // before those with experts
)

// latentKeys are its metadata in the form of files of 2025, whose cache holds the latents.
func latentKeys() []gguf.KV {
	key := func(name string, v gguf.Value) gguf.KV { return gguf.KV{Key: "deepseek2." + name, Value: v} }
	return []gguf.KV{
		key("attention.kv_lora_rank", uint32(latentRank)),
		key("attention.key_length_mla", uint32(latentPlain+latentRotate)),
		key("attention.value_length_mla", uint32(latentValues)),
		key("expert_shared_count", uint32(sharedUnits)), key("leading_dense_block_count", uint32(plainLayers)),
		key("expert_weights_scale", float32(1)), key("expert_gating_func", uint32(1)),
		key("rope.scaling.type", "yarn"), key("rope.scaling.factor", float32(40)),
		key("rope.scaling.original_context_length", uint32(4096)),
		key("rope.scaling.yarn_log_multiplier", float32(0.0707)),
	}
}

// deepseek2Block is a layer of DeepSeek V2 Lite.
func (s Shape) deepseek2Block(l int, matrix func(name string, rows, cols int) source,
	stack func(name string, n, rows, cols int) source) []source {
	b := fmt.Sprintf("blk.%d.", l)
	norm := func(name string, n int) source { return ones.tensor(b+name, gguf.F32, n) }
	list := []source{
		norm("attn_norm.weight", s.HiddenSize), norm("attn_kv_a_norm.weight", latentRank),
		norm("ffn_norm.weight", s.HiddenSize),
		matrix(b+"attn_q.weight", s.Heads*(latentPlain+latentRotate), s.HiddenSize),
		matrix(b+"attn_kv_a_mqa.weight", latentRank+latentRotate, s.HiddenSize),
		stack(b+"attn_k_b.weight", s.Heads, latentRank, latentPlain),
		stack(b+"attn_v_b.weight", s.Heads, latentValues, latentRank),
		matrix(b+"attn_output.weight", s.HiddenSize, s.Heads*latentValues),
	}
	feedForward := func(suffix string, width int) {
		list = append(list, matrix(b+"ffn_gate"+suffix, width, s.HiddenSize),
			matrix(b+"ffn_up"+suffix, width, s.HiddenSize), matrix(b+"ffn_down"+suffix, s.HiddenSize, width))
	}
	if l < plainLayers {
		feedForward(".weight", s.dense())
		return list
	}
	feedForward("_shexp.weight", sharedUnits*s.FeedForward)
	return append(list,
		patternOf(gguf.F32).tensor(b+"ffn_gate_inp.weight", gguf.F32, s.HiddenSize, s.Experts),
		stack(b+"ffn_gate_exps.weight", s.Experts, s.FeedForward, s.HiddenSize),
		stack(b+"ffn_up_exps.weight", s.Experts, s.FeedForward, s.HiddenSize),
		stack(b+"ffn_down_exps.weight", s.Experts, s.HiddenSize, s.FeedForward))
}
