package synth

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// tiny has every kind of row: 96 is no multiple of 256, 256 is.
func tiny(arch string) Shape {
	s := Shape{Name: "tiny", Architecture: arch, Context: 64, Vocab: 300, HiddenSize: 96, Layers: 2, Heads: 3, KVHeads: 1,
		FeedForward: 256, Tied: arch == "gpt2", RopeBase: 10000}
	switch arch {
	case "gpt2":
		s.KVHeads = s.Heads
	case "qwen3next":
		s.Layers, s.Experts, s.ExpertsUsed = 4, 4, 2
	case "deepseek2":
		s.HeadDim, s.RopeDims, s.Experts, s.ExpertsUsed, s.Dense = latentRank+latentRotate, latentRotate, 4, 2, 512
	}
	return s
}

// Every shape and type is a file that package gguf accepts; the small ones run.
func TestRandom(t *testing.T) {
	types := Types()
	for i, name := range Shapes() {
		s, err := FindShape(name)
		if err != nil {
			t.Fatal(err)
		}
		each := types
		if i > 0 { // the type says nothing about the rest of the file
			each = types[i%len(types):][:1]
		}
		for _, typ := range each {
			f, err := Random(s, typ)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := gguf.Open(f, f.Size(), name); err != nil {
				t.Errorf("%s %s: %v", name, typ, err)
			}
		}
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for j, arch := range []string{"llama", "gpt2", "qwen35", "qwen3next", "deepseek2"} {
		for i, typ := range Types() {
			if (j == 1 || j == 2 || j == 4) && (i+j)%3 > 0 && !testkit.IsLong(t) { // llama has every type
				continue
			}
			if arch == "qwen3next" && i%5 > 0 { // its matrices are qwen35's and experts
				continue
			}
			f, err := Random(tiny(arch), typ)
			if err != nil {
				t.Fatal(err)
			}
			x := logits(t, rt, f, "", []int32{1, 2, 299})
			least, most := x[0], x[0]
			for _, v := range x {
				if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
					t.Fatalf("%s %s: logit %v", arch, typ, v)
				}
				least, most = min(least, v), max(most, v)
			}
			if most-least < 0.1 || most-least > 100 {
				t.Errorf("%s %s: logits from %v to %v", arch, typ, least, most)
			}
		}
	}
}

// TestLongRandom: every type in every architecture.
func TestLongRandom(t *testing.T) {
	testkit.Long(t)
	TestRandom(t)
}

// A shape has as many parameters as the published model.
func TestParameters(t *testing.T) {
	for name, want := range map[string]uint64{
		"llama-1b": 1235814400, "llama-3.2-1b": 1235814400, "llama-3.2-3b": 3212749824, "llama-8b": 8030261248,
		"smollm2-135m": 134515008, "smollm2-360m": 361821120,
		"smollm2-1.7b": 1711376384, "tinyllama-1.1b": 1100048384, "mistral-7b": 7248023552, "gpt2-124m": 124439808,
		"qwen3-0.6b": 596049920, "qwen3-1.7b": 1720574976, "qwen3-4b": 4022468096, "gemma-3-1b": 999885952,
		"phi-4-mini":    3836021760,
		"qwen3-30b-a3b": 30532122624,
		"qwen3.5-0.8b":  752393024, // without the vision tower and the MTP block
		// The block has 20452864: attention, a feed-forward, and the matrix that joins its two inputs.
		"qwen3.5-0.8b-mtp": 772845888, "deepseek-v2-lite": 15706484224,
		// Without the pooler of D*D+D, and of bge-m3 two positions that no token has.
		"minilm-l6": 22713216 - 384*385, "bge-base": 109482240 - 768*769, "bge-m3": 567754752 - 1024*1025 - 2*1024,
		"modernbert-base": 149014272,
	} {
		s, err := FindShape(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Random(s, "f16")
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(r, r.Size(), name)
		if err != nil {
			t.Fatal(err)
		}
		got := uint64(0)
		for _, x := range f.Tensors {
			got += x.Elements()
		}
		if got != want {
			t.Errorf("%s: %d parameters, published %d", name, got, want)
		}
	}
}

// TestRandomMTP: the MTP block of a random model drafts.
func TestRandomMTP(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s := tiny("qwen35")
	s.Layers, s.MTP = 4, 1
	f, err := Random(s, "iq2_xs")
	if err != nil {
		t.Fatal(err)
	}
	target, err := engine.New(t.Context(), rt, f, f.Size(), engine.Options{Name: "target"})
	if err != nil {
		t.Fatal(err)
	}
	head, err := engine.New(t.Context(), rt, f, f.Size(), engine.Options{Name: "head", MTP: true, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	one, err := head.NewSession(engine.SessionOptions{Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	r, err := one.EvalSegment(t.Context(), engine.Segment{Tokens: []int32{5}, States: make([]float32, s.HiddenSize),
		FromTarget: true, Logits: engine.Last})
	if err != nil || !target.HasMTP() || slices.Max(r.Logits.Row(0)) == 0 {
		t.Errorf("%v, %v: %v", err, target.HasMTP(), r.Logits)
	}
}

// logits are all rows for a chain of tokens.
func logits(t *testing.T, rt *engine.Runtime, f *File, weights string, tokens []int32) []float32 {
	t.Helper()
	out, err := session(t, rt, f, weights).Eval(t.Context(), tokens, nil, engine.All)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(out.Data)
}

// A random encoder makes vectors, which differ from text to text.
func TestRandomEncoders(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, name := range []string{"minilm-l6", "bge-base", "bge-m3", "modernbert-base"} {
		s, err := FindShape(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Context, s.Vocab, s.HiddenSize, s.Layers, s.Heads, s.KVHeads, s.FeedForward = 64, 300, 96, 4, 3, 3, 256
		f, err := Random(s, "q8_0")
		if err != nil {
			t.Fatal(err)
		}
		m, err := engine.New(t.Context(), rt, f, f.Size(), engine.Options{Name: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer m.Close()
		texts := [][]int32{{1, 2, 299}, {1, 3, 299}}
		v, err := m.Embed(t.Context(), texts, engine.EmbedOptions{Pooling: engine.PoolDefault, Normalize: true})
		if err != nil {
			t.Fatal(err)
		}
		cosine := 0.0
		for i, x := range v[0].Data {
			cosine += float64(x) * float64(v[1].Data[i])
		}
		if how, said := m.Pooling(); math.IsNaN(cosine) || math.Abs(cosine) > 0.9999 || !said ||
			(how == engine.PoolCLS) != (name == "bge-base" || name == "bge-m3") {
			t.Errorf("%s: cosine %v of two texts, pooling %v", name, cosine, how)
		}
	}
}

// Reading in pieces gives what reading whole gives.
func TestReadAt(t *testing.T) {
	for _, typ := range Types() {
		f, err := Random(tiny("gpt2"), typ)
		if err != nil {
			t.Fatal(err)
		}
		testPieces(t, f)
	}
}

func testPieces(t *testing.T, f *File) {
	t.Helper()
	whole := make([]byte, f.Size())
	if n, err := f.ReadAt(whole, 0); int64(n) != f.Size() || err != nil {
		t.Fatal(n, err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		off := rng.Int64N(f.Size())
		p := make([]byte, rng.IntN(3000))
		n, err := f.ReadAt(p, off)
		if want := int(min(int64(len(p)), f.Size()-off)); n != want || (n < len(p)) != (err == io.EOF) {
			t.Fatalf("%d of %d bytes at %d of %d: %v", n, len(p), off, f.Size(), err)
		}
		if !bytes.Equal(p[:n], whole[off:off+int64(n)]) {
			t.Fatalf("%d bytes at %d differ", n, off)
		}
	}
	if n, err := f.ReadAt(make([]byte, 1), f.Size()); n != 0 || err != io.EOF {
		t.Error(n, err)
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset")
	}
}

func TestRandomRefuses(t *testing.T) {
	if _, err := FindShape("llama-9b"); err == nil {
		t.Error("an unknown shape")
	}
	if _, err := Random(tiny("llama"), "q3_x"); err == nil {
		t.Error("an unknown type")
	}
	if _, err := Random(tiny("mamba"), "q8_0"); err == nil {
		t.Error("an unknown architecture")
	}
	odd := tiny("llama")
	odd.Heads = 7
	if _, err := Random(odd, "q8_0"); err == nil {
		t.Error("heads that do not divide the width")
	}
}

func BenchmarkFill(b *testing.B) {
	p := make([]byte, 1<<20)
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.Q6_K, gguf.F16} {
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for i := 0; b.Loop(); i++ {
				patternOf(typ).fill(p, int64(i)<<20, 1)
			}
		})
	}
}

// A header of tens of gigabytes takes no time.
func TestHeaderIsCheap(t *testing.T) {
	s, err := FindShape("llama-8b")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := Random(s, "f32"); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("%v", d)
	}
}
