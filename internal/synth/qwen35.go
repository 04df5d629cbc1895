package synth

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// The gated delta nets of Qwen 3.5 0.8B (text_config of Qwen/Qwen3.5-0.8B: linear_num_key_heads,
// linear_num_value_heads, linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim,
// full_attention_interval).
const (
	deltaHeads    = 16  // of queries and keys, and of values
	deltaHeadDim  = 128 // numbers of each
	deltaTaps     = 4   // of the convolution
	deltaInterval = 4   // every fourth layer is attention
)

func deltaKeys() []gguf.KV {
	key := func(name string, n int) gguf.KV { return gguf.KV{Key: "qwen35." + name, Value: uint32(n)} }
	return []gguf.KV{
		key("ssm.conv_kernel", deltaTaps), key("ssm.state_size", deltaHeadDim), key("ssm.group_count", deltaHeads),
		key("ssm.time_step_rank", deltaHeads), key("ssm.inner_size", deltaHeads*deltaHeadDim),
		key("full_attention_interval", deltaInterval),
	}
}

// qwen35Block is a layer of Qwen 3.5: gated attention, or a gated delta net whose decay is near 1/2.
func (s Shape) qwen35Block(l int, matrix func(name string, rows, cols int) source) []source {
	b := fmt.Sprintf("blk.%d.", l)
	vector := func(p *pattern, name string, n int) source { return p.tensor(b+name, gguf.F32, n) }
	list := []source{vector(ones, "attn_norm.weight", s.HiddenSize),
		vector(ones, "post_attention_norm.weight", s.HiddenSize)}
	if (l+1)%deltaInterval == 0 {
		heads, kv := s.Heads*s.head(), s.KVHeads*s.head()
		list = append(list,
			matrix(b+"attn_q.weight", 2*heads, s.HiddenSize), // queries and gates
			matrix(b+"attn_k.weight", kv, s.HiddenSize),
			matrix(b+"attn_v.weight", kv, s.HiddenSize),
			vector(ones, "attn_q_norm.weight", s.head()), vector(ones, "attn_k_norm.weight", s.head()),
			matrix(b+"attn_output.weight", s.HiddenSize, heads))
	} else {
		inner := deltaHeads * deltaHeadDim
		list = append(list,
			matrix(b+"attn_qkv.weight", 3*inner, s.HiddenSize),
			matrix(b+"attn_gate.weight", inner, s.HiddenSize),
			matrix(b+"ssm_alpha.weight", deltaHeads, s.HiddenSize), matrix(b+"ssm_beta.weight", deltaHeads, s.HiddenSize),
			vector(zeros, "ssm_dt.bias", deltaHeads), vector(minusOnes, "ssm_a", deltaHeads),
			patternOf(gguf.F32).tensor(b+"ssm_conv1d.weight", gguf.F32, deltaTaps, 3*inner),
			vector(ones, "ssm_norm.weight", deltaHeadDim),
			matrix(b+"ssm_out.weight", s.HiddenSize, inner))
	}
	return append(list,
		matrix(b+"ffn_gate.weight", s.FeedForward, s.HiddenSize), matrix(b+"ffn_up.weight", s.FeedForward, s.HiddenSize),
		matrix(b+"ffn_down.weight", s.HiddenSize, s.FeedForward))
}
