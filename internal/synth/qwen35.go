package synth

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// The gated delta nets of Qwen 3.5 0.8B (text_config of Qwen/Qwen3.5-0.8B: linear_num_key_heads,
// linear_num_value_heads, linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim,
// full_attention_interval). Those of Qwen3-Next have twice as many heads of values.
const (
	deltaHeads    = 16  // of queries and keys
	deltaHeadDim  = 128 // numbers of each
	deltaTaps     = 4   // of the convolution
	deltaInterval = 4   // every fourth layer is attention
)

// deltaValues is how many heads of values there are.
func (s Shape) deltaValues() int {
	if s.Architecture == "qwen3next" {
		return 2 * deltaHeads
	}
	return deltaHeads
}

func (s Shape) deltaKeys() []gguf.KV {
	key := func(name string, n int) gguf.KV { return gguf.KV{Key: s.Architecture + "." + name, Value: uint32(n)} }
	kvs := []gguf.KV{
		key("ssm.conv_kernel", deltaTaps), key("ssm.state_size", deltaHeadDim), key("ssm.group_count", deltaHeads),
		key("ssm.time_step_rank", s.deltaValues()), key("ssm.inner_size", s.deltaValues()*deltaHeadDim),
		key("full_attention_interval", deltaInterval),
	}
	if s.Experts > 0 {
		kvs = append(kvs, key("expert_shared_feed_forward_length", s.FeedForward))
	}
	return kvs
}

// qwen35Block is a layer of Qwen 3.5: gated attention, or a gated delta net whose decay is near 1/2. Those after the
// layers are MTP blocks. Qwen3-Next has experts, and makes strengths and decays by one matrix.
func (s Shape) qwen35Block(l int, matrix func(name string, rows, cols int) source,
	stack func(name string, n, rows, cols int) source) []source {
	b := fmt.Sprintf("blk.%d.", l)
	vector := func(p *pattern, name string, n int) source { return p.tensor(b+name, gguf.F32, n) }
	list := []source{vector(ones, "attn_norm.weight", s.HiddenSize),
		vector(ones, "post_attention_norm.weight", s.HiddenSize)}
	if (l+1)%deltaInterval == 0 || l >= s.Layers {
		heads, kv := s.Heads*s.head(), s.KVHeads*s.head()
		list = append(list,
			matrix(b+"attn_q.weight", 2*heads, s.HiddenSize), // queries and gates
			matrix(b+"attn_k.weight", kv, s.HiddenSize),
			matrix(b+"attn_v.weight", kv, s.HiddenSize),
			vector(ones, "attn_q_norm.weight", s.head()), vector(ones, "attn_k_norm.weight", s.head()),
			matrix(b+"attn_output.weight", s.HiddenSize, heads))
	} else {
		values := s.deltaValues()
		inner, wide := values*deltaHeadDim, (2*deltaHeads+values)*deltaHeadDim
		list = append(list,
			matrix(b+"attn_qkv.weight", wide, s.HiddenSize),
			matrix(b+"attn_gate.weight", inner, s.HiddenSize))
		if s.Architecture == "qwen3next" {
			list = append(list, matrix(b+"ssm_ba.weight", 2*values, s.HiddenSize))
		} else {
			list = append(list, matrix(b+"ssm_alpha.weight", values, s.HiddenSize),
				matrix(b+"ssm_beta.weight", values, s.HiddenSize))
		}
		list = append(list,
			vector(zeros, "ssm_dt.bias", values), vector(minusOnes, "ssm_a", values),
			patternOf(gguf.F32).tensor(b+"ssm_conv1d.weight", gguf.F32, deltaTaps, wide),
			vector(ones, "ssm_norm.weight", deltaHeadDim),
			matrix(b+"ssm_out.weight", s.HiddenSize, inner))
	}
	if l >= s.Layers { // what goes in is made of a token's embedding and the state before it
		list = append(list, matrix(b+"nextn.eh_proj.weight", s.HiddenSize, 2*s.HiddenSize))
		for _, name := range []string{"enorm", "hnorm", "shared_head_norm"} {
			list = append(list, vector(ones, "nextn."+name+".weight", s.HiddenSize))
		}
	}
	if s.Experts > 0 {
		return append(list,
			patternOf(gguf.F32).tensor(b+"ffn_gate_inp.weight", gguf.F32, s.HiddenSize, s.Experts),
			patternOf(gguf.F32).tensor(b+"ffn_gate_inp_shexp.weight", gguf.F32, s.HiddenSize),
			stack(b+"ffn_gate_exps.weight", s.Experts, s.FeedForward, s.HiddenSize),
			stack(b+"ffn_up_exps.weight", s.Experts, s.FeedForward, s.HiddenSize),
			stack(b+"ffn_down_exps.weight", s.Experts, s.HiddenSize, s.FeedForward),
			matrix(b+"ffn_gate_shexp.weight", s.FeedForward, s.HiddenSize),
			matrix(b+"ffn_up_shexp.weight", s.FeedForward, s.HiddenSize),
			matrix(b+"ffn_down_shexp.weight", s.HiddenSize, s.FeedForward))
	}
	return append(list,
		matrix(b+"ffn_gate.weight", s.FeedForward, s.HiddenSize), matrix(b+"ffn_up.weight", s.FeedForward, s.HiddenSize),
		matrix(b+"ffn_down.weight", s.HiddenSize, s.FeedForward))
}
