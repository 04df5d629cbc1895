package randommodel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Qwen4exp is a random model of Qwen 3.8 Flash Next: 5 layers with 3 streams, of which the second and the fourth have
// attention to 2 of the blocks of 4 positions, and the third n-grams.
type Qwen4exp struct {
	MTP     bool // with an MTP block
	Context int  // 0: 512
}

const (
	qwen4expLayers = 5
	qwen4expRatio  = 4 // positions of a block
)

// Keys are those of the file, without the prefix.
func (q Qwen4exp) Keys() map[string]gguf.Value {
	keys := map[string]gguf.Value{
		"context_length": uint32(512), "embedding_length": uint32(Width), "block_count": uint32(qwen4expLayers),
		"attention.head_count": uint32(Heads), "attention.head_count_kv": uint32(2), "vocab_size": uint32(Vocab),
		"attention.layer_norm_rms_epsilon": float32(1e-6), "rope.dimension_count": uint32(Dim / 2),
		"rope.dimension_sections": []int32{2, 1, 1, 0}, "full_attention_interval": uint32(2),
		"ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(96), "ssm.state_size": uint32(16),
		"ssm.time_step_rank": uint32(6), "ssm.group_count": uint32(2),
		"expert_count": uint32(8), "expert_used_count": uint32(3), "expert_feed_forward_length": uint32(32),
		"expert_shared_feed_forward_length": uint32(24),
		"hyper_connection.count":            uint32(3), "hyper_connection.low_rank": uint32(20),
		"attention.indexer.head_count": uint32(4), "attention.indexer.key_length": uint32(12),
		"attention.indexer.top_k": uint32(2 * qwen4expRatio), "attention.compress_ratios": []uint32{0, qwen4expRatio, 0,
			qwen4expRatio, 0},
		"ple.layers": []uint32{2}, "ple.ngram_size": uint32(3), "ple.heads_per_ngram": uint32(2),
		"ple.conv_kernel": uint32(3), "ple.eos_token_id": uint32(21), "ple.image_token_id": uint32(40),
		"embedding_length_per_layer_input": uint32(16),
		"ple.layer_multipliers":            []uint64{23703573157769, 20109073645365, 8052911324071},
		"ple.head_vocab_sizes":             []uint64{101, 103, 107, 109}, "ple.head_offsets": []uint64{0, 101, 204, 311},
	}
	if q.Context > 0 {
		keys["context_length"] = uint32(q.Context)
	}
	if q.MTP {
		keys["block_count"], keys["nextn_predict_layers"] = uint32(qwen4expLayers+1), uint32(1)
		keys["attention.compress_ratios"] = []uint32{0, qwen4expRatio, 0, qwen4expRatio, 0, 0}
	}
	return keys
}

// File is the GGUF file.
func (q Qwen4exp) File(tb testing.TB) []byte {
	tb.Helper()
	const all, rank, experts, inner, shared, heads, values, index = 3 * Width, 20, 8, 32, 24, Heads * Dim, 96, 12
	var list []gguf.TensorSource
	add := func(name string, dims ...int) { // columns first
		mean, spread := 0.0, 1.3/math.Sqrt(float64(dims[0]))
		switch {
		case strings.HasSuffix(name, "norm.weight"):
			mean, spread = 1, 0.3
		case strings.HasSuffix(name, ".bias"):
			spread = 0.3
		case strings.HasSuffix(name, "ssm_a"):
			mean, spread = -0.5, 0.1
		case name == "token_embd.weight" || strings.Contains(name, "conv1d"):
			spread = 0.7
		case strings.HasSuffix(name, "eh_proj.weight"):
			spread = 0.1
		case len(dims) == 1:
			spread = 1
		}
		list = append(list, Tensor(9, name, mean, spread, dims...))
	}
	mixer := func(name string) {
		add(name+"norm.weight", all)
		add(name+"down.weight", all, rank)
		add(name+"up.weight", rank, all)
	}
	add("token_embd.weight", Width, Vocab)
	add("per_layer_token_embd.weight", 16, 420)
	mixer("output_hc_")
	layers := qwen4expLayers
	if q.MTP {
		layers++
	}
	for i := range layers {
		b := fmt.Sprintf("blk.%d.", i)
		for _, part := range []string{"hc_attn_", "hc_ffn_"} {
			mixer(b + part)
			add(b+part+"inject.weight", all, 3)
		}
		add(b+"ffn_gate_inp.weight", Width, experts)
		add(b+"ffn_gate_exps.weight", Width, inner, experts)
		add(b+"ffn_up_exps.weight", Width, inner, experts)
		add(b+"ffn_down_exps.weight", inner, Width, experts)
		add(b+"ffn_gate_inp_shexp.weight", Width, 1)
		add(b+"ffn_gate_shexp.weight", Width, shared)
		add(b+"ffn_up_shexp.weight", Width, shared)
		add(b+"ffn_down_shexp.weight", shared, Width)
		if i%2 == 1 {
			add(b+"attn_q.weight", Width, 2*heads)
			add(b+"attn_k.weight", Width, 2*Dim)
			add(b+"attn_v.weight", Width, 2*Dim)
			add(b+"attn_output.weight", heads, Width)
			add(b+"attn_q_norm.weight", Dim)
			add(b+"attn_k_norm.weight", Dim)
			add(b+"indexer.q_proj.weight", Width, 4*index)
			add(b+"indexer.k_proj.weight", Width, index)
			add(b+"indexer.q_norm.weight", index)
			add(b+"indexer.k_norm.weight", index)
		} else {
			add(b+"attn_qkv.weight", Width, 160)
			add(b+"attn_gate.weight", Width, values)
			add(b+"ssm_alpha.weight", Width, 6)
			add(b+"ssm_beta.weight", Width, 6)
			add(b+"ssm_conv1d.weight", 4, 160)
			add(b+"ssm_a", 6)
			add(b+"ssm_dt.bias", 6)
			add(b+"ssm_norm.weight", 16)
			add(b+"ssm_out.weight", values, Width)
		}
		if i == 2 {
			add(b+"ple_key.weight", 64, all)
			add(b+"ple_value.weight", 64, Width)
			add(b+"ple_conv1d.weight", 3, all)
			for _, part := range []string{"key", "query", "conv"} {
				add(b+"ple_norm_"+part+".weight", all)
			}
		}
		if i == qwen4expLayers {
			mixer(b + "nextn.hc_head_")
			add(b+"nextn.enorm.weight", Width)
			add(b+"nextn.hnorm.weight", all)
			add(b+"nextn.eh_proj.weight", 2*Width, Width)
		}
	}
	slices.SortFunc(list, func(a, b gguf.TensorSource) int { return cmp.Compare(a.Name, b.Name) })
	keys := q.Keys()
	kvs := []gguf.KV{{Key: "general.architecture", Value: "qwen4exp"}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		kvs = append(kvs, gguf.KV{Key: "qwen4exp." + k, Value: keys[k]})
	}
	return Bytes(tb, kvs, list)
}
