package randommodel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// T5 is a small encoder-decoder model of random weights, written as a GGUF file into memory.
type T5 struct {
	Encoders, Decoders, Width, Heads, HeadDim, FF, Vocab, Buckets int
	Gated, Untied, EveryBias                                      bool
	Weights                                                       gguf.Type
	Seed                                                          uint64

	Scale float32          // of the output matrix; 0: 1
	Drop  string           // this tensor is left out
	More  map[string][]int // these are added, with these dims
	Dims  map[string][]int // these tensors have another shape than they should
	Edit  func(name string, x []float32)
	KVs   []gguf.KV // replaced, added, or left out (nil)
}

// SmallT5 is like T5 1.0: tied, without gates, as many blocks in both stacks; H*d is not D.
func SmallT5() T5 {
	return T5{Encoders: 2, Decoders: 2, Width: 64, Heads: 3, HeadDim: 16, FF: 96, Vocab: 70, Buckets: 32,
		Weights: gguf.F32, Seed: 3}
}

// FlanT5 is like T5 1.1: not tied, gated, with other numbers of blocks and a bias in every block, as UMT5 has.
func FlanT5() T5 {
	return T5{Encoders: 2, Decoders: 3, Width: 64, Heads: 2, HeadDim: 48, FF: 96, Vocab: 70, Buckets: 16, Gated: true,
		Untied: true, EveryBias: true, Weights: gguf.Q8_0, Seed: 4}
}

// File is the GGUF file.
func (s T5) File(tb testing.TB) []byte {
	tb.Helper()
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: "t5." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "t5"}, {Key: "general.name", Value: "random"},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
		key("vocab_size", uint32(s.Vocab)), key("context_length", uint32(512)), key("embedding_length", uint32(s.Width)),
		key("block_count", uint32(s.Encoders)), key("decoder_block_count", uint32(s.Decoders)),
		key("feed_forward_length", uint32(s.FF)),
		key("attention.head_count", uint32(s.Heads)), key("attention.key_length", uint32(s.HeadDim)),
		key("attention.value_length", uint32(s.HeadDim)),
		key("attention.layer_norm_epsilon", float32(1e-6)), key("attention.layer_norm_rms_epsilon", float32(1e-6)),
		key("attention.relative_buckets_count", uint32(s.Buckets)), key("decoder_start_token_id", uint32(0)),
	}
	var tensors []gguf.TensorSource
	add := func(name string, typ gguf.Type, mean, spread float32, dims ...int) {
		if name += ".weight"; name == s.Drop {
			return
		}
		if d := s.Dims[name]; d != nil {
			dims = d
		}
		n, shape := elements(dims)
		if typ.BlockWeights() > 1 && dims[0]%typ.BlockWeights() != 0 {
			typ = gguf.F32
		}
		x := make([]float32, n)
		for i, v := range normals(s.Seed, name, n) {
			x[i] = mean + float32(spread*v)
		}
		if s.Edit != nil {
			s.Edit(name, x)
		}
		tensors = append(tensors, Encoded(name, typ, x, shape))
	}
	matrix := func(name string, rows, cols int, gain float64) {
		add(name, s.Weights, 0, float32(gain/math.Sqrt(float64(cols))), cols, rows)
	}
	norm := func(name string) { add(name, gguf.F32, 1, 0.2, s.Width) }
	attention := func(name string) {
		inner := s.Heads * s.HeadDim
		matrix(name+"_q", inner, s.Width, 0.7) // scores are not divided by sqrt(d)
		matrix(name+"_k", inner, s.Width, 0.7)
		matrix(name+"_v", inner, s.Width, 1.5)
		matrix(name+"_o", s.Width, inner, 1.5)
	}
	add("token_embd", s.Weights, 0, 0.7, s.Width, s.Vocab)
	for _, stack := range []struct {
		name   string
		blocks int
	}{{"enc", s.Encoders}, {"dec", s.Decoders}} {
		for i := range stack.blocks {
			b := fmt.Sprintf("%s.blk.%d.", stack.name, i)
			norm(b + "attn_norm")
			attention(b + "attn")
			if i == 0 || s.EveryBias {
				add(b+"attn_rel_b", gguf.F32, 0, 1, s.Heads, s.Buckets)
			}
			if stack.name == "dec" {
				norm(b + "cross_attn_norm")
				attention(b + "cross_attn")
			}
			norm(b + "ffn_norm")
			if s.Gated {
				matrix(b+"ffn_gate", s.FF, s.Width, 1.5)
			}
			matrix(b+"ffn_up", s.FF, s.Width, 1.5)
			matrix(b+"ffn_down", s.Width, s.FF, 1.5)
		}
		norm(stack.name + ".output_norm")
	}
	if s.Untied {
		matrix("output", s.Vocab, s.Width, 1.5)
	}
	for name, dims := range s.More {
		add(strings.TrimSuffix(name, ".weight"), gguf.F32, 1, 0.1, dims...)
	}
	for _, kv := range s.KVs {
		switch i := slices.IndexFunc(kvs, func(k gguf.KV) bool { return k.Key == kv.Key }); {
		case i < 0:
			kvs = append(kvs, kv)
		case kv.Value == nil:
			kvs = slices.Delete(kvs, i, i+1)
		default:
			kvs[i] = kv
		}
	}
	return Bytes(tb, kvs, tensors)
}
