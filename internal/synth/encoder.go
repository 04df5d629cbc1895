package synth

import (
	"fmt"

	"github.com/specgo/spec/gguf"
)

// The pooling of encoders, as the key pooling_type has it.
const (
	poolMean = uint32(1)
	poolCLS  = uint32(2)
)

// Of encoders.
const (
	bertTypes     = 2   // kinds of tokens of BERT: those of a first and of a second text
	modernWindow  = 128 // tokens that a windowed layer of ModernBERT sees, 64 on each side
	modernPeriod  = 3   // of its layers, the first of which sees all
	modernLocal   = 10000
	encoderNorm   = float32(1e-12)
	modernEpsilon = float32(1e-5)
)

// encoder reports whether the shape is an encoder's, which has no output matrix.
func (s Shape) encoder() bool { return s.Architecture == "bert" || s.Architecture == "modern-bert" }

// encoderKeys are the metadata of an encoder beside its sizes.
func (s Shape) encoderKeys() []gguf.KV {
	key := func(name string, v gguf.Value) gguf.KV { return gguf.KV{Key: s.Architecture + "." + name, Value: v} }
	pooling, epsilon := poolMean, encoderNorm
	if s.Name == "bge-base" || s.Name == "bge-m3" {
		pooling = poolCLS
	}
	kvs := []gguf.KV{key("attention.causal", false), key("pooling_type", pooling)}
	if s.Architecture == "modern-bert" {
		epsilon = modernEpsilon
		kvs = append(kvs, key("rope.freq_base", s.RopeBase), key("rope.freq_base_swa", float32(modernLocal)),
			key("attention.sliding_window", uint32(modernWindow)),
			key("attention.sliding_window_pattern", uint32(modernPeriod)))
	} else {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.token_type_count", Value: uint32(s.types())})
	}
	return append(kvs, key("attention.layer_norm_epsilon", epsilon))
}

// types is the number of token types: XLM-R has one.
func (s Shape) types() int {
	if s.Name == "bge-m3" {
		return 1
	}
	return bertTypes
}

// encoderTensors are the tensors of an encoder beside its embeddings.
func (s Shape) encoderTensors(matrix func(name string, rows, cols int) source) (list []source) {
	d, modern := s.HiddenSize, s.Architecture == "modern-bert"
	float := func(name string, dims ...int) {
		list = append(list, patternOf(gguf.F32).tensor(name, gguf.F32, dims...))
	}
	norm := func(name string) {
		if list = append(list, ones.tensor(name+".weight", gguf.F32, d)); !modern {
			list = append(list, zeros.tensor(name+".bias", gguf.F32, d))
		}
	}
	linear := func(name string, rows, cols int) {
		if list = append(list, matrix(name+".weight", rows, cols)); !modern {
			list = append(list, zeros.tensor(name+".bias", gguf.F32, rows))
		}
	}
	if norm("token_embd_norm"); modern {
		norm("output_norm")
	} else {
		float("token_types.weight", d, s.types())
		float("position_embd.weight", d, s.Context)
	}
	for l := range s.Layers {
		b := fmt.Sprintf("blk.%d.", l)
		if modern {
			if l > 0 {
				norm(b + "attn_norm")
			}
			linear(b+"attn_qkv", 3*d, d)
			linear(b+"attn_output", d, d)
			norm(b + "ffn_norm")
			linear(b+"ffn_up", 2*s.FeedForward, d)
			linear(b+"ffn_down", d, s.FeedForward)
			continue
		}
		linear(b+"attn_q", d, d)
		linear(b+"attn_k", d, d)
		linear(b+"attn_v", d, d)
		linear(b+"attn_output", d, d)
		norm(b + "attn_output_norm")
		linear(b+"ffn_up", s.FeedForward, d)
		linear(b+"ffn_down", d, s.FeedForward)
		norm(b + "layer_output_norm")
	}
	return list
}
