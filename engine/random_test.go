package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
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
	return randommodel.Shape{
		Arch:     s.arch,
		Layers:   s.layers,
		Width:    s.width,
		Heads:    s.heads,
		KV:       s.kv,
		FF:       s.ff,
		Vocab:    s.vocab,
		Context:  s.context,
		Weights:  s.weights,
		Untied:   s.untied,
		Biases:   s.biases,
		Factors:  s.factors,
		HeadDim:  s.headDim,
		RopeDims: s.ropeDims,
		Scaling:  s.scaling,
		Seed:     s.seed,
		Drop:     s.drop,
		More:     s.more,
		DropAlso: s.dropAlso,
		Scale:    s.scale,
		Edit:     s.edit,
		Types:    s.types,
		Dims:     s.dims,
		KVs:      s.kvs,
	}.File(tb)
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
