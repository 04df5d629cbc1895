package randommodel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Assistant is a small random draft head for gemma4 targets of the recipes' shape: two blocks with a window and one
// without.
type Assistant struct {
	Keys        map[string]gguf.Value // replaced, added; nil values are left out
	Without     string                // a tensor
	More        string                // a tensor [AssistantWidth]
	Width       int                   // of the target; 0: Width
	Vocab       int                   // 0: Vocab
	Heads       []uint32              // of the target's keys and values, for each block; nil: 2, 1, 2
	Dim         int                   // of heads in blocks with a window; 0: Dim
	RopeFactors float64               // mean of rope_freqs
}

// Sizes of an [Assistant].
const AssistantWidth, AssistantInner, AssistantBlocks = 48, 80, 3

// File is the GGUF file.
func (a Assistant) File(tb testing.TB) []byte {
	tb.Helper()
	t, v, dim, kv := Width, Vocab, Dim, a.Heads
	if a.Width != 0 {
		t = a.Width
	}
	if a.Vocab != 0 {
		v = a.Vocab
	}
	if a.Dim != 0 {
		dim = a.Dim
	}
	if kv == nil {
		kv = []uint32{2, 1, 2}
	}
	keys := map[string]gguf.Value{
		"context_length": uint32(2000), "embedding_length": uint32(AssistantWidth), "embedding_length_out": uint32(t),
		"block_count":          uint32(AssistantBlocks),
		"nextn_predict_layers": uint32(AssistantBlocks), "feed_forward_length": uint32(AssistantInner),
		"attention.head_count": uint32(Heads), "attention.head_count_kv": kv,
		"attention.layer_norm_rms_epsilon": float32(1e-6), "attention.key_length": uint32(2 * dim),
		"attention.value_length":   uint32(2 * dim),
		"attention.key_length_swa": uint32(dim), "attention.value_length_swa": uint32(dim),
		"attention.sliding_window":         uint32(9),
		"attention.sliding_window_pattern": []bool{true, false, true}, "attention.shared_kv_layers": uint32(AssistantBlocks),
		"vocab_size":     uint32(v),
		"rope.freq_base": float32(1e5), "rope.freq_base_swa": float32(10000), "rope.dimension_count": uint32(2 * dim),
		"rope.dimension_count_swa":         uint32(dim),
		"embedding_length_per_layer_input": uint32(0),
	}
	maps.Copy(keys, a.Keys)
	kvs := []gguf.KV{{Key: "general.architecture", Value: "gemma4-assistant"}}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if keys[k] != nil {
			kvs = append(kvs, gguf.KV{Key: "gemma4-assistant" + "." + k, Value: keys[k]})
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		if name == a.Without {
			return
		}
		tensors = append(tensors, Tensor(11, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) { add(name+".weight", 0, 1.3/math.Sqrt(float64(cols)), cols, rows) }
	norm := func(name string, n int) { add(name+".weight", 1, 0.3, n) }
	add("token_embd.weight", 0, 0.7, AssistantWidth, v)
	matrix("nextn.pre_projection", AssistantWidth, 2*t)
	matrix("nextn.post_projection", t, AssistantWidth)
	norm("output_norm", AssistantWidth)
	factors := a.RopeFactors
	if factors == 0 {
		factors = 2
	}
	add("rope_freqs.weight", factors, 0.4, dim)
	for i := range AssistantBlocks {
		b, d := fmt.Sprintf("blk.%d.", i), dim
		if i == 1 {
			d = 2 * dim
		}
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			norm(b+name, AssistantWidth)
		}
		norm(b+"attn_q_norm", d)
		matrix(b+"attn_q", Heads*d, AssistantWidth)
		matrix(b+"attn_output", AssistantWidth, Heads*d)
		matrix(b+"ffn_gate", AssistantInner, AssistantWidth)
		matrix(b+"ffn_up", AssistantInner, AssistantWidth)
		matrix(b+"ffn_down", AssistantWidth, AssistantInner)
		add(b+"layer_output_scale.weight", 0.8, 0.1, 1)
	}
	if a.More != "" {
		add(a.More, 0, 1, AssistantWidth)
	}
	return Bytes(tb, kvs, tensors)
}
