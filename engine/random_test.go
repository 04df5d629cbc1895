package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// shape is a small model of random weights, written as a GGUF file into memory. Tests change what they
// want to see go wrong.
type shape struct {
	arch                                         string
	layers, width, heads, kv, ff, vocab, context int
	weights                                      gguf.Type
	untied, biases, factors                      bool    // options of llama
	headDim                                      int     // 0: width/heads
	ropeDims                                     int     // 0: the head's size
	scaling                                      float32 // linear; 0: none
	seed                                         uint64

	drop     string                       // this tensor is left out
	more     []string                     // these vectors are added
	dropAlso []string                     // and those whose names end so
	scale    map[string]float32           // these tensors are multiplied
	edit     map[string]func(x []float32) // these tensors are changed
	types    map[string]gguf.Type
	dims     map[string][]int // these tensors have another shape than they should
	kvs      []gguf.KV        // replaced or added
}

func smallLlama() shape {
	return shape{arch: "llama", layers: 2, width: 64, heads: 4, kv: 2, ff: 96, vocab: 70, context: 512, weights: gguf.F32, seed: 1}
}

func smallGPT2() shape {
	return shape{arch: "gpt2", layers: 2, width: 64, heads: 2, kv: 2, ff: 96, vocab: 70, context: 512, weights: gguf.F32, seed: 2}
}

// file is the GGUF file.
func (s shape) file(tb testing.TB) []byte {
	tb.Helper()
	key := func(k string, v gguf.Value) gguf.KV { return gguf.KV{Key: s.arch + "." + k, Value: v} }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: s.arch},
		{Key: "general.name", Value: "random"},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
		key("vocab_size", uint32(s.vocab)),
		key("context_length", uint32(s.context)),
		key("embedding_length", uint32(s.width)),
		key("block_count", uint32(s.layers)),
		key("attention.head_count", uint32(s.heads)),
		key("feed_forward_length", uint32(s.ff)),
	}
	var tensors []gguf.TensorSource
	add := func(name string, typ gguf.Type, mean, spread float32, cols int, rows ...int) {
		if name == s.drop || slices.ContainsFunc(s.dropAlso, func(end string) bool { return strings.HasSuffix(name, end) }) {
			return
		}
		all := append([]int{cols}, rows...)
		if d := s.dims[name]; d != nil {
			all = d
		}
		if typ.BlockWeights() > 1 && all[0]%typ.BlockWeights() != 0 {
			typ = gguf.F32
		}
		n, dims := elements(all)
		rng, x := tensorRand(s.seed, name), make([]float32, n)
		for i := range x {
			x[i] = mean + spread*float32(rng.NormFloat64())
			if f := s.scale[name]; f != 0 {
				x[i] *= f
			}
		}
		if edit := s.edit[name]; edit != nil {
			edit(x)
		}
		if other, ok := s.types[name]; ok {
			typ = other
		}
		tensors = append(tensors, encodedTensor(name, typ, x, dims))
	}
	matrix := func(name string, rows, cols int) {
		add(name, s.weights, 0, 1.5/float32(math.Sqrt(float64(cols))), cols, rows)
	}
	hd := s.width / s.heads
	if s.headDim != 0 {
		hd = s.headDim
		kvs = append(kvs, key("attention.key_length", uint32(hd)), key("attention.value_length", uint32(hd)))
	}
	add("token_embd.weight", s.weights, 0, 0.7, s.width, s.vocab)
	switch s.arch {
	case "gpt2":
		kvs = append(kvs, key("attention.layer_norm_epsilon", float32(1e-5)))
		add("position_embd.weight", gguf.F32, 0, 0.3, s.width, s.context)
		norm := func(name string) {
			add(name+".weight", gguf.F32, 1, 0.2, s.width)
			add(name+".bias", gguf.F32, 0, 0.2, s.width)
		}
		for i := range s.layers {
			b := fmt.Sprintf("blk.%d.", i)
			norm(b + "attn_norm")
			matrix(b+"attn_qkv.weight", 3*s.width, s.width)
			add(b+"attn_qkv.bias", gguf.F32, 0, 0.2, 3*s.width)
			matrix(b+"attn_output.weight", s.width, s.width)
			add(b+"attn_output.bias", gguf.F32, 0, 0.2, s.width)
			norm(b + "ffn_norm")
			matrix(b+"ffn_up.weight", s.ff, s.width)
			add(b+"ffn_up.bias", gguf.F32, 0, 0.2, s.ff)
			matrix(b+"ffn_down.weight", s.width, s.ff)
			add(b+"ffn_down.bias", gguf.F32, 0, 0.2, s.width)
		}
		norm("output_norm")
		if s.untied {
			matrix("output.weight", s.vocab, s.width)
		}
	default:
		kvs = append(kvs, key("attention.head_count_kv", uint32(s.kv)), key("attention.layer_norm_rms_epsilon", float32(1e-5)), key("rope.freq_base", float32(10000)))
		if s.ropeDims == 0 {
			s.ropeDims = hd
		}
		kvs = append(kvs, key("rope.dimension_count", uint32(s.ropeDims)))
		if s.scaling != 0 {
			kvs = append(kvs, key("rope.scaling.type", "linear"), key("rope.scaling.factor", s.scaling))
		}
		if s.factors {
			add("rope_freqs.weight", gguf.F32, 2, 0.3, s.ropeDims/2)
		}
		for i := range s.layers {
			b := fmt.Sprintf("blk.%d.", i)
			add(b+"attn_norm.weight", gguf.F32, 1, 0.2, s.width)
			matrix(b+"attn_q.weight", s.heads*hd, s.width)
			matrix(b+"attn_k.weight", s.kv*hd, s.width)
			matrix(b+"attn_v.weight", s.kv*hd, s.width)
			matrix(b+"attn_output.weight", s.width, s.heads*hd)
			if s.biases {
				add(b+"attn_q.bias", gguf.F32, 0, 0.2, s.heads*hd)
				add(b+"attn_k.bias", gguf.F32, 0, 0.2, s.kv*hd)
				add(b+"attn_v.bias", gguf.F32, 0, 0.2, s.kv*hd)
				add(b+"attn_output.bias", gguf.F32, 0, 0.2, s.width)
				add(b+"ffn_gate.bias", gguf.F32, 0, 0.2, s.ff)
				add(b+"ffn_up.bias", gguf.F32, 0, 0.2, s.ff)
				add(b+"ffn_down.bias", gguf.F32, 0, 0.2, s.width)
			}
			add(b+"ffn_norm.weight", gguf.F32, 1, 0.2, s.width)
			matrix(b+"ffn_gate.weight", s.ff, s.width)
			matrix(b+"ffn_up.weight", s.ff, s.width)
			matrix(b+"ffn_down.weight", s.width, s.ff)
		}
		add("output_norm.weight", gguf.F32, 1, 0.2, s.width)
		if s.untied {
			matrix("output.weight", s.vocab, s.width)
		}
	}
	for _, name := range s.more {
		add(name, gguf.F32, 1, 0.1, s.width)
	}
	for _, kv := range s.kvs {
		if i := slices.IndexFunc(kvs, func(k gguf.KV) bool { return k.Key == kv.Key }); i >= 0 && kv.Value == nil {
			kvs = slices.Delete(kvs, i, i+1)
		} else if i >= 0 {
			kvs[i] = kv
		} else {
			kvs = append(kvs, kv)
		}
	}
	return fileBytes(tb, kvs, tensors)
}

func (s shape) open(tb testing.TB, rt *Runtime, o Options) *Model {
	tb.Helper()
	if o.Name == "" {
		o.Name = "random.gguf"
	}
	m, err := openBytes(tb, rt, s.file(tb), o.Name, o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func newRuntime(tb testing.TB, o RuntimeOptions) *Runtime {
	tb.Helper()
	rt, err := NewRuntime(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(rt.Close)
	return rt
}

func newSession(tb testing.TB, m *Model, o SessionOptions) *Session {
	tb.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	if input, ok := testInputs.Load(m); ok {
		encode(tb, s, input.([]int32))
	}
	return s
}

// testInputs are the encoder's inputs that newSession gives to the sessions of a model: tests of decoders then test those of
// encoder-decoder models too.
var testInputs sync.Map // of *Model: []int32

// eval feeds tokens and copies the logits.
func eval(tb testing.TB, s *Session, tokens, parents []int32, want Rows) []float32 {
	tb.Helper()
	out, err := s.Eval(context.Background(), tokens, parents, want)
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Clone(out.Data)
}

// forward feeds a batch; every segment must succeed.
func forward(tb testing.TB, m *Model, b Batch) []Result {
	tb.Helper()
	out, err := m.Forward(context.Background(), b)
	if err != nil {
		tb.Fatal(err)
	}
	for i, r := range out {
		if r.Err != nil {
			tb.Fatalf("segment %d: %v", i, r.Err)
		}
	}
	return out
}

// randomTokens is n random tokens.
func randomTokens(n, vocab int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(rng.IntN(vocab))
	}
	return ids
}

// sameBits compares logits bit for bit.
func sameBits(tb testing.TB, what string, got, want []float32) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%s: %d logits, expected %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			tb.Fatalf("%s: logit %d of %d is %v, expected %v", what, i, len(got), got[i], want[i])
		}
	}
}

// greatest is the id of the greatest logit, the lower one on a tie.
func greatest(x []float32) int32 { return int32(tensor.ArgMax(x)) }
