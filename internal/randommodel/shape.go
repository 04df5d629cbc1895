package randommodel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// Shape is a small model of random weights, written as a GGUF file into memory. Tests change what they
// want to see go wrong.
type Shape struct {
	Arch                                         string
	Layers, Width, Heads, KV, FF, Vocab, Context int
	Weights                                      gguf.Type
	Untied, Biases, Factors                      bool    // options of llama
	HeadDim                                      int     // 0: width/heads
	RopeDims                                     int     // 0: the head's size
	Scaling                                      float32 // linear; 0: none
	Seed                                         uint64

	Drop     string                       // this tensor is left out
	More     []string                     // these vectors are added
	DropAlso []string                     // and those whose names end so
	Scale    map[string]float32           // these tensors are multiplied
	Edit     map[string]func(x []float32) // these tensors are changed
	Types    map[string]gguf.Type
	Dims     map[string][]int // these tensors have another shape than they should
	KVs      []gguf.KV        // replaced or added
}

// Llama is a small llama.
func Llama() Shape {
	return Shape{Arch: "llama", Layers: 2, Width: 64, Heads: 4, KV: 2, FF: 96, Vocab: 70, Context: 512, Weights: gguf.F32,
		Seed: 1}
}

// GPT2 is a small GPT-2.
func GPT2() Shape {
	return Shape{Arch: "gpt2", Layers: 2, Width: 64, Heads: 2, KV: 2, FF: 96, Vocab: 70, Context: 512, Weights: gguf.F32,
		Seed: 2}
}

// File is the GGUF file.
func (s Shape) File(tb testing.TB) []byte {
	tb.Helper()
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: s.Arch + "." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: s.Arch},
		{Key: "general.name", Value: "random"},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
		key("vocab_size", uint32(s.Vocab)),
		key("context_length", uint32(s.Context)),
		key("embedding_length", uint32(s.Width)),
		key("block_count", uint32(s.Layers)),
		key("attention.head_count", uint32(s.Heads)),
		key("feed_forward_length", uint32(s.FF)),
	}
	var tensors []gguf.TensorSource
	add := func(name string, typ gguf.Type, mean, spread float32, cols int, rows ...int) {
		if name == s.Drop || slices.ContainsFunc(s.DropAlso, func(end string) bool { return strings.HasSuffix(name, end) }) {
			return
		}
		all := append([]int{cols}, rows...)
		if d := s.Dims[name]; d != nil {
			all = d
		}
		if typ.BlockWeights() > 1 && all[0]%typ.BlockWeights() != 0 {
			typ = gguf.F32
		}
		n, dims := elements(all)
		x := make([]float32, n)
		for i, v := range normals(s.Seed, name, n) {
			x[i] = mean + float32(spread*v)
			if f := s.Scale[name]; f != 0 {
				x[i] *= f
			}
		}
		if edit := s.Edit[name]; edit != nil {
			edit(x)
		}
		if other, ok := s.Types[name]; ok {
			typ = other
		}
		tensors = append(tensors, Encoded(name, typ, x, dims))
	}
	matrix := func(name string, rows, cols int) {
		add(name, s.Weights, 0, 1.5/float32(math.Sqrt(float64(cols))), cols, rows)
	}
	hd := s.Width / s.Heads
	if s.HeadDim != 0 {
		hd = s.HeadDim
		kvs = append(kvs, key("attention.key_length", uint32(hd)), key("attention.value_length", uint32(hd)))
	}
	add("token_embd.weight", s.Weights, 0, 0.7, s.Width, s.Vocab)
	switch s.Arch {
	case "gpt2":
		kvs = append(kvs, key("attention.layer_norm_epsilon", float32(1e-5)))
		add("position_embd.weight", gguf.F32, 0, 0.3, s.Width, s.Context)
		norm := func(name string) {
			add(name+".weight", gguf.F32, 1, 0.2, s.Width)
			add(name+".bias", gguf.F32, 0, 0.2, s.Width)
		}
		for i := range s.Layers {
			b := fmt.Sprintf("blk.%d.", i)
			norm(b + "attn_norm")
			matrix(b+"attn_qkv.weight", 3*s.Width, s.Width)
			add(b+"attn_qkv.bias", gguf.F32, 0, 0.2, 3*s.Width)
			matrix(b+"attn_output.weight", s.Width, s.Width)
			add(b+"attn_output.bias", gguf.F32, 0, 0.2, s.Width)
			norm(b + "ffn_norm")
			matrix(b+"ffn_up.weight", s.FF, s.Width)
			add(b+"ffn_up.bias", gguf.F32, 0, 0.2, s.FF)
			matrix(b+"ffn_down.weight", s.Width, s.FF)
			add(b+"ffn_down.bias", gguf.F32, 0, 0.2, s.Width)
		}
		norm("output_norm")
		if s.Untied {
			matrix("output.weight", s.Vocab, s.Width)
		}
	default:
		kvs = append(kvs, key("attention.head_count_kv", uint32(s.KV)),
			key("attention.layer_norm_rms_epsilon", float32(1e-5)), key("rope.freq_base", float32(10000)))
		if s.RopeDims == 0 {
			s.RopeDims = hd
		}
		kvs = append(kvs, key("rope.dimension_count", uint32(s.RopeDims)))
		if s.Scaling != 0 {
			kvs = append(kvs, key("rope.scaling.type", "linear"), key("rope.scaling.factor", s.Scaling))
		}
		if s.Factors {
			add("rope_freqs.weight", gguf.F32, 2, 0.3, s.RopeDims/2)
		}
		for i := range s.Layers {
			b := fmt.Sprintf("blk.%d.", i)
			add(b+"attn_norm.weight", gguf.F32, 1, 0.2, s.Width)
			matrix(b+"attn_q.weight", s.Heads*hd, s.Width)
			matrix(b+"attn_k.weight", s.KV*hd, s.Width)
			matrix(b+"attn_v.weight", s.KV*hd, s.Width)
			matrix(b+"attn_output.weight", s.Width, s.Heads*hd)
			if s.Biases {
				add(b+"attn_q.bias", gguf.F32, 0, 0.2, s.Heads*hd)
				add(b+"attn_k.bias", gguf.F32, 0, 0.2, s.KV*hd)
				add(b+"attn_v.bias", gguf.F32, 0, 0.2, s.KV*hd)
				add(b+"attn_output.bias", gguf.F32, 0, 0.2, s.Width)
				add(b+"ffn_gate.bias", gguf.F32, 0, 0.2, s.FF)
				add(b+"ffn_up.bias", gguf.F32, 0, 0.2, s.FF)
				add(b+"ffn_down.bias", gguf.F32, 0, 0.2, s.Width)
			}
			add(b+"ffn_norm.weight", gguf.F32, 1, 0.2, s.Width)
			matrix(b+"ffn_gate.weight", s.FF, s.Width)
			matrix(b+"ffn_up.weight", s.FF, s.Width)
			matrix(b+"ffn_down.weight", s.Width, s.FF)
		}
		add("output_norm.weight", gguf.F32, 1, 0.2, s.Width)
		if s.Untied {
			matrix("output.weight", s.Vocab, s.Width)
		}
	}
	for _, name := range s.More {
		add(name, gguf.F32, 1, 0.1, s.Width)
	}
	for _, kv := range s.KVs {
		if i := slices.IndexFunc(kvs, func(k gguf.KV) bool { return k.Key == kv.Key }); i >= 0 && kv.Value == nil {
			kvs = slices.Delete(kvs, i, i+1)
		} else if i >= 0 {
			kvs[i] = kv
		} else {
			kvs = append(kvs, kv)
		}
	}
	return Bytes(tb, kvs, tensors)
}
