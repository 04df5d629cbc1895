package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// readAdapter loads an adapter from memory.
func readAdapter(tb testing.TB, m *Model, file []byte, name string) *Adapter {
	tb.Helper()
	a, err := m.ReadAdapter(context.Background(), readHeader(tb, file, name))
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// adapterSet makes a set of adapters and scales, in turn.
func adapterSet(tb testing.TB, list ...any) AdapterSet {
	tb.Helper()
	var scaled []ScaledAdapter
	for i := 0; i < len(list); i += 2 {
		scaled = append(scaled, ScaledAdapter{list[i].(*Adapter), float32(list[i+1].(float64))})
	}
	s, err := NewAdapterSet(scaled...)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// multiplied says which tensors of a model an adapter may change.
func multiplied(m *Model) func(string) bool {
	return func(name string) bool {
		s := m.sites[name] // those of adapters in the model's own file left out
		return s != nil && !s.lookup && !strings.HasSuffix(name, loraA) && !strings.HasSuffix(name, loraB)
	}
}

// adaptedFamilies are models of every way in which a matrix is used: attention with separate and with one matrix,
// biases, windows, experts in one tensor and in two, with gates and shared ones, latent attention in both stored forms,
// recurrent layers, altup, layers' inputs, a narrow embedding, factors.
var adaptedFamilies = []string{"llama31", "gemma2", "gpt2", "phi3-short", "llama-moe", "qwen2moe", "gpt-oss",
	"deepseek2-lite", "deepseek2-old", "qwen35", "falcon-h1", "rwkv7", "gemma3n", "bitnet"}

// TestAdaptersLikeMerged: a model with an adapter of all of its matrices has the logits of the model that the adapter
// was merged into in float64.
func TestAdaptersLikeMerged(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	list := adaptedFamilies
	if testkit.IsLong(t) {
		list = familyModels(t)
	}
	for _, name := range list {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile(testkit.Shared(t, "families/models/"+name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			likeMerged(t, rt, file)
		})
	}
}

// TestLongAdaptersLikeMerged: of every family.
func TestLongAdaptersLikeMerged(t *testing.T) {
	testkit.Long(t)
	TestAdaptersLikeMerged(t)
}

// TestCommittedAdaptersLikeMerged: of the models that a public clone has: a window, experts, ALiBi; and of one with
// gates of latent attention.
func TestCommittedAdaptersLikeMerged(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"gemma2", "llama-moe", "mpt"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("../testdata/families/" + name + ".f16.gguf")
			if err != nil {
				t.Fatal(err)
			}
			likeMerged(t, rt, file)
		})
	}
	t.Run("bailingmoe3", func(t *testing.T) { likeMerged(t, rt, askedModels()["bailingmoe3"].file(t, "bailingmoe3")) })
}

// TestDrawnAdaptersLikeMerged: of models whose passes have parts of their own.
func TestDrawnAdaptersLikeMerged(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"muse-glimmer", "talkie", "graniteswitch"} {
		t.Run(name, func(t *testing.T) { likeMerged(t, rt, askedModels()[name].file(t, name)) })
	}
	t.Run("granite_swa", func(t *testing.T) {
		likeMerged(t, rt, randommodel.Recipes()["granite_swa experts"].File(t))
	})
}

func likeMerged(t *testing.T, rt *Runtime, file []byte) {
	m, err := openBytes(t, rt, file, "base.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.kind.is != KindModel {
		t.Skip("no adapters of", m.kind.is)
	}
	adapter := randommodel.Adapter{Seed: 1, Rank: 3, Changes: multiplied(m), Spread: 0.1}.File(t, file)
	const scale = 0.8
	merged, err := openBytes(t, rt, randommodel.Merge(t, file, adapter, scale), "merged.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := randomTokens(min(m.config.Context, 24), m.config.Vocab, 4)
	plain := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
	want := eval(t, newSession(t, merged, SessionOptions{KV: "f32"}), ids, nil, All)
	set := adapterSet(t, readAdapter(t, m, adapter, "lora.gguf"), scale)
	got := eval(t, newSession(t, m, SessionOptions{KV: "f32", Adapters: set}), ids, nil, All)
	off, changed, rms := 0.0, 0.0, 0.0
	for i := range got {
		off = max(off, math.Abs(float64(got[i]-want[i])))
		changed = max(changed, math.Abs(float64(plain[i]-want[i])))
		rms += float64(want[i]) * float64(want[i]) / float64(len(want))
	}
	rms = math.Sqrt(rms)
	t.Logf("off by %.2g of the root mean square; the adapter changes %.2g", off/rms, changed/rms)
	if !(off < 1e-4*rms) {
		t.Errorf("the logits are off by %.2g of their root mean square", off/rms)
	}
	if changed < 0.05*rms {
		t.Errorf("the adapter changes the logits by no more than %.2g of their root mean square", changed/rms)
	}
}

// adapted is a drawn model with two adapters, and two sets of them.
func adapted(t *testing.T, rt *Runtime, file []byte) (m *Model, one, both AdapterSet) {
	t.Helper()
	m, err := openBytes(t, rt, file, "base.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := readAdapter(t, m, randommodel.Adapter{Seed: 1, Changes: multiplied(m)}.File(t, file), "a.gguf")
	b := readAdapter(t, m, randommodel.Adapter{Seed: 2, Rank: 32, Type: gguf.Q8_0, Changes: func(name string) bool {
		s := m.sites[name]
		return s != nil && !s.lookup && s.dims[0]%32 == 0 && strings.Contains(name, "attn")
	}}.File(t, file), "b.gguf")
	return m, adapterSet(t, a, 0.5), adapterSet(t, b, 1.25, a, -0.75)
}

// TestAdaptersOneAnswer: promise P1 for every set of adapters: however the sequence is cut, whatever shares the pass,
// other sets as well, with trees, forks, other kernels and thread counts.
func TestAdaptersOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	quantized := randommodel.Llama()
	quantized.Weights = gguf.Q8_0
	files := map[string][]byte{"llama q8_0": quantized.File(t), "llama f32": randommodel.Llama().File(t)}
	for _, name := range []string{"qwen35", "llama-moe", "gemma2"} {
		file, err := os.ReadFile(testkit.Shared(t, "families/models/"+name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		t.Run(name, func(t *testing.T) {
			file := files[name]
			m, one, both := adapted(t, rt, file)
			ids := randomTokens(min(m.config.Context, 100), m.config.Vocab, 4)
			plain := eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
			for _, set := range []AdapterSet{one, both} {
				want := eval(t, newSession(t, m, SessionOptions{Adapters: set}), ids, nil, All)
				if slices.Equal(want, plain) {
					t.Fatal("the set changes nothing")
				}
				for j, way := range ways {
					if testkit.IsLong(t) || (i+j+set.Len())%4 == 0 { // every way meets a model
						sameBits(t, way.name, way.feed(t, m, SessionOptions{Adapters: set}, ids), want)
					}
				}
			}
			oneAnswerEverywhere(t, file, ids[:50],
				eval(t, newSession(t, m, SessionOptions{Adapters: both}), ids[:50], nil, All))
			b, a := both.At(0).Adapter, both.At(1).Adapter
			severalSets(t, m, ids, []AdapterSet{{}, one, both, one, {}, adapterSet(t, b, 1.25, a, -0.5), both})
		})
	}
}

// TestLongAdaptersOneAnswer: every model fed in every way.
func TestLongAdaptersOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestAdaptersOneAnswer(t)
}

// oneAnswerEverywhere computes the same with every kernel set, on one thread and three.
func oneAnswerEverywhere(t *testing.T, file []byte, ids []int32, want []float32) {
	for i, simd := range asm.Available() {
		rt := newRuntime(t, RuntimeOptions{Threads: 1 + i%2*2, SIMD: simd})
		m, _, both := adapted(t, rt, file)
		sameBits(t, simd, eval(t, newSession(t, m, SessionOptions{Adapters: both}), ids, nil, All), want)
	}
}

// severalSets: sequences of several sets share passes, and each has the logits that it has alone.
func severalSets(t *testing.T, m *Model, ids []int32, sets []AdapterSet) {
	alone, together, b := make([][]float32, len(sets)), make([][]float32, len(sets)), make(Batch, len(sets))
	for i, set := range sets {
		o := SessionOptions{Adapters: set}
		own := ids[i : len(ids)-len(sets)+i]
		alone[i] = eval(t, newSession(t, m, o), own, nil, All)
		b[i] = Segment{Session: newSession(t, m, o), Logits: All}
	}
	for at, n := 0, 1; at < len(ids)-len(sets); at, n = at+n, n+3 {
		n = min(n, len(ids)-len(sets)-at)
		for i := range b {
			b[i].Tokens = ids[i+at : i+at+n]
		}
		for i, r := range forward(t, m, b) {
			together[i] = append(together[i], r.Logits.Data...)
		}
	}
	for i := range sets {
		sameBits(t, fmt.Sprintf("sequence %d", i), together[i], alone[i])
	}
}

// TestAdapterOverflow: where an adapter's numbers overflow, its session's segment fails and no other.
func TestAdapterOverflow(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := randommodel.Llama().File(t)
	m := openDrawn(t, rt, randommodel.Llama(), Options{})
	hot := readAdapter(t, m, randommodel.Adapter{Alpha: math.MaxFloat32}.File(t, file), "hot.gguf")
	mild := adapterSet(t, readAdapter(t, m, randommodel.Adapter{}.File(t, file), "mild.gguf"), 1.0)
	want := eval(t, newSession(t, m, SessionOptions{Adapters: mild}), []int32{1, 2}, nil, All)
	failing, fine := newSession(t, m, SessionOptions{Adapters: adapterSet(t, hot, 100.0)}),
		newSession(t, m, SessionOptions{Adapters: mild})
	out, err := m.Forward(context.Background(), Batch{{Session: failing, Tokens: []int32{1, 2}, Logits: All},
		{Session: fine, Tokens: []int32{1, 2}, Logits: All}})
	if err != nil || !errors.Is(out[0].Err, ErrNotFinite) || !strings.Contains(out[0].Err.Error(), "adapter") ||
		out[1].Err != nil {
		t.Fatal(err, out[0].Err, out[1].Err)
	}
	sameBits(t, "the other", out[1].Logits.Data, want)
}

// TestAdaptersAllocateNothing: a token costs no memory.
func TestAdaptersAllocateNothing(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	m, one, both := adapted(t, rt, randommodel.Llama().File(t))
	b := Batch{}
	for _, set := range []AdapterSet{one, both, one} {
		b = append(b, Segment{Session: newSession(t, m, SessionOptions{Adapters: set}), Tokens: []int32{1}, Logits: All})
	}
	step := func() {
		forward(t, m, b)
		for i := range b {
			if err := b[i].Session.Truncate(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	step()
	if n := testkit.Allocs(10, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAdapterSets: what is refused, and what a set is identified by.
func TestAdapterSets(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := randommodel.Llama().File(t)
	m, one, both := adapted(t, rt, file)
	other := openDrawn(t, rt, randommodel.Llama(), Options{})
	a, b := one.At(0).Adapter, both.At(0).Adapter
	same := readAdapter(t, m, randommodel.Adapter{Seed: 1, Changes: multiplied(m)}.File(t, file), "copy.gguf")
	if a.Fingerprint() != same.Fingerprint() || a.Fingerprint() == b.Fingerprint() {
		t.Error("fingerprints do not follow the contents")
	}
	if again := adapterSet(t, a, 0.5, b, 0.0); again != one || again.Key() != one.Key() || again.Len() != 1 {
		t.Error("the same set is another one")
	}
	keys := map[string]bool{"": true}
	for _, s := range []AdapterSet{one, both, adapterSet(t, a, 0.25), adapterSet(t, b, 0.5),
		adapterSet(t, a, -0.75, b, 1.25)} {
		if keys[s.Key()] {
			t.Errorf("two sets with the key %q", s.Key())
		}
		keys[s.Key()] = true
	}
	foreign := readAdapter(t, other, randommodel.Adapter{}.File(t, file), "foreign.gguf")
	many := make([]ScaledAdapter, MaxAdapters+1)
	for i := range many {
		many[i] = ScaledAdapter{readAdapter(t, m, randommodel.Adapter{Seed: uint64(i)}.File(t, file), "many.gguf"), 1}
	}
	for what, list := range map[string][]ScaledAdapter{
		"in the set twice": {{a, 1}, {a, 2}}, "scale of NaN": {{a, float32(math.NaN())}},
		"scale of +Inf": {{a, float32(math.Inf(1))}}, "is nil": {{nil, 1}}, "another model": {{a, 1}, {foreign, 1}},
		"more than 8": many,
	} {
		if _, err := NewAdapterSet(list...); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := m.NewSession(SessionOptions{Adapters: adapterSet(t, foreign, 1.0)}); !errors.Is(err, ErrUsage) {
		t.Error("a session with an adapter of another model:", err)
	}
}

// TestBadAdapters: files that are refused, by name.
func TestBadAdapters(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	s := randommodel.Llama()
	s.Untied = true
	base := s.File(t)
	m, err := openBytes(t, rt, base, "base.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, out := "blk.0.attn_q.weight", "output.weight"
	key := func(key string, v gguf.Value) randommodel.Adapter {
		return randommodel.Adapter{Keys: map[string]gguf.Value{key: v}}
	}
	dims := func(name string, d ...int) randommodel.Adapter {
		return randommodel.Adapter{Dims: map[string][]int{name: d}}
	}
	only := func(name string) randommodel.Adapter {
		return randommodel.Adapter{Changes: func(n string) bool { return n == name }}
	}
	for _, c := range []struct {
		a    randommodel.Adapter
		want error
		name string
	}{
		{key("general.type", nil), ErrValue, "general.type"},
		{key("general.type", "model"), ErrValue, "general.type"},
		{key("general.architecture", "qwen2"), ErrValue, "general.architecture"},
		{key("adapter.type", nil), gguf.ErrMissing, "adapter.type"},
		{key("adapter.type", "control_vector"), ErrUnsupported, "adapter.type"},
		{key("adapter.lora.alpha", float32(math.NaN())), ErrValue, "adapter.lora.alpha"},
		{key("adapter.lora.alpha", "8"), gguf.ErrType, "adapter.lora.alpha"},
		{key("adapter.lora.dropout", float32(0.1)), ErrUnsupported, "adapter.lora.dropout"},
		{key("adapter.alora.invocation_tokens", []uint32{1, 2}), ErrUnsupported, "adapter.alora.invocation_tokens"},
		{only("token_embd.weight"), ErrUnsupported, "token_embd.weight.lora_a"},
		{only("no such"), ErrMissing, "without tensors"},
		{randommodel.Adapter{Drop: q + ".lora_a"}, ErrMissing, q + ".lora_b"},
		{randommodel.Adapter{Drop: q + ".lora_b"}, ErrMissing, q + ".lora_a"},
		{randommodel.Adapter{More: []string{"blk.0.attn_norm.weight"}}, ErrUnsupported, "blk.0.attn_norm.weight"},
		{randommodel.Adapter{More: []string{"blk.0.attn_norm.weight.lora_a", "blk.0.attn_norm.weight.lora_b"}}, ErrShape,
			"blk.0.attn_norm.weight.lora_a"},
		{randommodel.Adapter{Dims: map[string][]int{"blk.9.attn_q.weight.lora_a": {64, 4},
			"blk.9.attn_q.weight.lora_b": {4, 64}}, More: []string{"blk.9.attn_q.weight.lora_a", "blk.9.attn_q.weight.lora_b"}},
			ErrMissing, "blk.9.attn_q.weight"},
		{dims(q+".lora_a", 65, 4), ErrShape, q + ".lora_a"},
		{dims(q+".lora_a", 64, 5), ErrShape, q + ".lora_a"},
		{dims(q+".lora_a", 64, 4, 2), ErrShape, q + ".lora_a"},
		{dims(q+".lora_b", 4, 63), ErrShape, q + ".lora_b"},
		{dims(q+".lora_b", 4, 64, 1, 1), ErrShape, q + ".lora_a"},
		{randommodel.Adapter{Type: gguf.Type(24)}, ErrWeightType, "lora_a"},
	} {
		_, err := m.ReadAdapter(context.Background(), readHeader(t, c.a.File(t, base), "bad.gguf"))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "bad.gguf") || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		}
	}
	good := readAdapter(t, m, only(out).File(t, base), "output.gguf")
	if i := good.Info(); i.Matrices != 1 || !slices.Equal(i.Ranks, []int{4}) || i.Bytes == 0 || i.Alpha != 4 {
		t.Errorf("%+v", i)
	}
	described, err := DescribeAdapter(readHeader(t, only(out).File(t, base), "output.gguf"))
	if err != nil || fmt.Sprint(described) != fmt.Sprint(good.Info()) {
		t.Errorf("%+v, %v; loaded it is %+v", described, err, good.Info())
	}
	file := only(out).File(t, base)
	if _, err = New(context.Background(), rt, bytes.NewReader(file), int64(len(file)),
		Options{Name: "lora.gguf"}); !errors.
		Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "an adapter (LoRA)") {
		t.Error("an adapter as a model:", err)
	}
}

// TestStreamedAdapters: a model whose matrices are read from disk one by one, or whose experts are, has the same logits
// with an adapter.
func TestStreamedAdapters(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, file := range []string{"../testdata/families/llama-moe.f16.gguf", written(t, randommodel.Llama().File(t))} {
		whole, streamed := both(t, rt, file, Options{})
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ids := randomTokens(40, whole.config.Vocab, 4)
		var want []float32
		for _, m := range []*Model{whole, streamed} {
			a := readAdapter(t, m, randommodel.Adapter{Changes: multiplied(m)}.File(t, raw), "lora.gguf")
			got := eval(t, newSession(t, m, SessionOptions{Adapters: adapterSet(t, a, 1.0)}), ids, nil, All)
			if want == nil {
				want = got
			}
			sameBits(t, m.name, got, want)
		}
	}
}
