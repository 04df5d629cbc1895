package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

func TestBadFiles(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	llama, gpt := randommodel.Llama(), randommodel.GPT2()
	with := func(s randommodel.Shape, change func(*randommodel.Shape)) randommodel.Shape { change(&s); return s }
	set := func(key string, v gguf.Value) randommodel.Shape {
		return with(llama, func(s *randommodel.Shape) { s.KVs = []gguf.KV{{Key: key, Value: v}} })
	}
	dims := func(s randommodel.Shape, name string, d ...int) randommodel.Shape {
		return with(s, func(s *randommodel.Shape) { s.Dims = map[string][]int{name: d} })
	}
	extra := func(s randommodel.Shape, name string) randommodel.Shape {
		return with(s, func(s *randommodel.Shape) { s.More = []string{name} })
	}
	drop := func(s randommodel.Shape, name string) randommodel.Shape {
		return with(s, func(s *randommodel.Shape) { s.Drop = name })
	}
	for _, c := range []struct {
		s    randommodel.Shape
		want error
		name string // what the message names beside the file
	}{
		{set("general.architecture", "unheard-of"), ErrArchitecture, "unheard-of"},
		{set("general.architecture", uint32(3)), gguf.ErrType, "general.architecture"},
		{set("general.architecture", nil), gguf.ErrMissing, "general.architecture"},
		{set("llama.block_count", nil), gguf.ErrMissing, "llama.block_count"},
		{set("llama.block_count", uint32(3)), ErrValue, "llama.block_count"},
		{set("llama.block_count", uint32(1)), ErrValue, "llama.block_count"},
		{set("llama.block_count", uint32(1<<31)), ErrValue, "llama.block_count"},
		{set("llama.nextn_predict_layers", uint32(2)), ErrValue, "llama.nextn_predict_layers"},
		{set("llama.embedding_length", uint32(128)), ErrValue, "llama.embedding_length"},

		{set("llama.block_count", float32(2)), gguf.ErrType, "llama.block_count"},
		{set("llama.attention.head_count", uint32(0)), ErrValue, "llama.attention.head_count"},
		{set("llama.attention.head_count", uint32(5)), ErrValue, "llama.attention.head_count"},
		{set("llama.attention.head_count_kv", uint32(3)), ErrValue, "llama.attention.head_count_kv"},
		{set("llama.attention.head_count_kv", uint32(0)), ErrValue, "llama.attention.head_count_kv"},
		{set("llama.attention.key_length", uint32(32)), ErrShape, "blk.0.attn_q.weight"},
		{set("llama.attention.value_length", uint32(8)), ErrUnsupported, "llama.attention.value_length"},
		{set("llama.rope.dimension_count", uint32(17)), ErrValue, "llama.rope.dimension_count"},
		{set("llama.rope.scaling.type", "dynamic"), ErrUnsupported, "dynamic"},
		{set("llama.rope.freq_base", float32(1e-30)), ErrValue, "llama.rope.freq_base"},
		{set("llama.rope.scaling.factor", float32(1e30)), ErrValue, "llama.rope.scaling.factor"},
		{set("llama.rope.scale_linear", float32(1e-30)), ErrValue, "llama.rope.scale_linear"},
		{set("llama.rope.scaling.attn_factor", float32(0)), ErrValue, "llama.rope.scaling.attn_factor"},
		{set("llama.attention.causal", false), ErrUnsupported, "llama.attention.causal"},
		{set("llama.attention.scale", float32(0.1)), ErrUnsupported, "llama.attention.scale"},
		{set("llama.attn_logit_softcapping", float32(50)), ErrUnsupported, "llama.attn_logit_softcapping"},
		{set("llama.logit_scale", float32(0.5)), ErrUnsupported, "llama.logit_scale"},
		{set("llama.ssm.state_size", uint32(16)), ErrUnsupported, "llama.ssm.state_size"},
		{set("llama.expert_shared_count", uint32(1)), ErrUnsupported, "llama.expert_shared_count"},
		{set("llama.rope.dimension_sections", []int32{8, 4, 4, 0}), ErrUnsupported, "llama.rope.dimension_sections"},
		{with(gpt, func(s *randommodel.Shape) { s.KVs = []gguf.KV{{Key: "gpt2.rope.freq_base", Value: float32(1e4)}} }),
			ErrUnsupported, "gpt2.rope.freq_base"},
		{with(gpt, func(s *randommodel.Shape) {
			s.KVs = []gguf.KV{{Key: "gpt2.attention.sliding_window", Value: uint32(8)}}
		}), ErrUnsupported, "gpt2.attention.sliding_window"},
		{with(gpt, func(s *randommodel.Shape) {
			s.KVs = []gguf.KV{
				{Key: "gpt2.attention.head_count_kv", Value: uint32(1)}}
		}), ErrShape, "blk.0.attn_qkv.weight"},
		{with(gpt, func(s *randommodel.Shape) { s.KVs = []gguf.KV{{Key: "gpt2.attention.key_length", Value: uint32(16)}} }),
			ErrShape, "blk.0.attn_qkv.weight"},
		{extra(llama, "blk.1.attn_q.scale"), ErrShape, "blk.1.attn_q.scale"},
		{extra(llama, "token_embd.scale"), ErrUnsupported, "token_embd.scale"},
		{extra(llama, "blk.1.attn_norm.scale"), ErrUnsupported, "blk.1.attn_norm.scale"},
		{extra(llama, "blk.1.attn_norm.input_scale"), ErrUnsupported, "blk.1.attn_norm.input_scale"},
		{extra(llama, "blk.2.attn_q.input_scale"), ErrValue, "llama.block_count"},
		{extra(llama, "blk.0.attn_q_norm.weight"), ErrUnsupported, "blk.0.attn_q_norm.weight"},
		{extra(llama, "output.bias"), ErrUnsupported, "output.bias"},
		{extra(gpt, "rope_freqs.weight"), ErrUnsupported, "rope_freqs.weight"},
		{extra(gpt, "blk.0.attn_q.bias"), ErrUnsupported, "blk.0.attn_q.bias"},
		{extra(llama, "blk.2.attn_q.weight"), ErrValue, "llama.block_count"},
		{set("llama.rope.freq_base", float32(0)), ErrValue, "llama.rope.freq_base"},
		{set("llama.expert_count", uint32(8)), gguf.ErrMissing, "llama.expert_used_count"},
		{set("llama.attention.layer_norm_rms_epsilon", nil), gguf.ErrMissing, "layer_norm_rms_epsilon"},
		{set("llama.vocab_size", uint32(71)), ErrShape, "token_embd.weight"},
		{drop(llama, "token_embd.weight"), ErrMissing, "token_embd.weight"},
		{drop(llama, "blk.1.ffn_gate.weight"), ErrMissing, "blk.1.ffn_gate.weight"},
		{drop(llama, "output_norm.weight"), ErrMissing, "output_norm.weight"},
		{drop(gpt, "blk.0.attn_output.weight"), ErrMissing, "blk.0.attn_output.weight"},
		{drop(gpt, "position_embd.weight"), ErrMissing, "position_embd.weight"},
		{dims(llama, "blk.0.attn_k.weight", 64, 64), ErrShape, "blk.0.attn_k.weight"},
		{dims(llama, "blk.1.ffn_norm.weight", 32), ErrShape, "blk.1.ffn_norm.weight"},
		{dims(llama, "token_embd.weight", 70, 64), ErrShape, "token_embd.weight"},
		{dims(llama, "token_embd.weight", 64), ErrShape, "token_embd.weight"},
		{dims(gpt, "blk.1.attn_qkv.weight", 64, 64), ErrShape, "blk.1.attn_qkv.weight"},
		{dims(gpt, "position_embd.weight", 64, 100), ErrShape, "position_embd.weight"},
		{with(llama, func(s *randommodel.Shape) { s.Types = map[string]gguf.Type{"blk.1.attn_v.weight": gguf.I8} }),
			ErrWeightType, "I8"},
		{with(llama, func(s *randommodel.Shape) {
			s.Types = map[string]gguf.Type{
				"blk.1.attn_norm.weight": gguf.I32}
		}), ErrWeightType, "I32"},
	} {
		file := c.s.File(t)
		_, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: "bad.gguf"})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		} else if !strings.Contains(err.Error(), "bad.gguf") || !strings.Contains(err.Error(), c.name) {
			t.Errorf("the message does not name bad.gguf and %s: %v", c.name, err)
		}
	}
}

// TestIgnored: keys that say nothing, and those that are ignored on purpose, change no bit.
func TestIgnored(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := randomTokens(20, 70, 1)
	want := eval(t, newSession(t, openDrawn(t, rt, randommodel.Llama(), Options{}), SessionOptions{}), ids, nil, All)
	for key, v := range map[string]gguf.Value{
		"rope.scaling.finetuned": true, "rope.scaling.original_context_length": uint32(256), "rope.scaling.type": "none",
		"rope.scaling.factor":      float32(0),
		"rope.scaling.attn_factor": float32(1), "attention.causal": true, "attention.sliding_window": uint32(8),
		"expert_count": uint32(0), "expert_used_count": uint32(0),
		"attention.scale": float32(0), "logit_scale": float32(1), "residual_scale": float32(0),
		"attention.max_alibi_bias": float32(0), "final_logit_softcapping": float32(0),
		"attention.layer_norm_epsilon": float32(3), "nextn_predict_layers": uint32(0), "use_parallel_residual": false,
		"tensor_data_layout": "Meta AI original pth",
	} {
		v2 := randommodel.Llama()
		v2.KVs = []gguf.KV{{Key: "llama." + key, Value: v}}
		sameBits(t, key, eval(t, newSession(t, openDrawn(t, rt, v2, Options{}), SessionOptions{}), ids, nil, All), want)
	}
}

// TestPredictionBlocks: blocks that predict tokens further ahead are no layers of the model, whatever their tensors
// are.
func TestPredictionBlocks(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	ids := randomTokens(20, 70, 1)
	want := eval(t, newSession(t, openDrawn(t, rt, randommodel.Llama(), Options{}), SessionOptions{}), ids, nil, All)
	v := randommodel.Llama()
	v.KVs = []gguf.KV{{Key: "llama.block_count", Value: uint32(3)}, {Key: "llama.nextn_predict_layers", Value: uint32(1)}}
	v.More = []string{"blk.2.nextn.eh_proj.weight", "blk.2.attn_norm.weight"}
	m := openDrawn(t, rt, v, Options{})
	sameBits(t, "with a prediction block", eval(t, newSession(t, m, SessionOptions{}), ids, nil, All), want)
	if m.Config().Layers != 2 {
		t.Errorf("%d layers", m.Config().Layers)
	}
}

// TestDamagedWeights: weights that are not finite are reported with the tensor's name.
func TestDamagedWeights(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	inf := float32(math.Inf(1))
	for _, name := range []string{"blk.1.ffn_norm.weight", "output_norm.weight", "rope_freqs.weight",
		"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "token_embd.weight"} {
		v := randommodel.Llama()
		v.Factors = true
		v.Scale = map[string]float32{name: inf}
		file := v.File(t)
		_, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: "bad.gguf"})
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "bad.gguf") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cutReader has n bytes; the rest of its file is lost.
type cutReader struct {
	r io.ReaderAt
	n int64
}

func (c cutReader) ReadAt(b []byte, off int64) (int, error) {
	if rest := max(0, c.n-off); rest < int64(len(b)) {
		n, err := c.r.ReadAt(b[:rest], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return c.r.ReadAt(b, off)
}

// TestShortReads: a norm or a bias that cannot be read whole is an error, not zeros.
func TestShortReads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := randommodel.GPT2().File(t)
	f := readHeader(t, file, "")
	for _, tensor := range f.Tensors {
		r := cutReader{bytes.NewReader(file), tensor.Offset + tensor.Size - 4}
		_, err := New(context.Background(), rt, r, int64(len(file)), Options{Name: "short.gguf"})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "short.gguf") {
			t.Errorf("the end of %s is lost: %v", tensor.Name, err)
		}
	}
}

// TestCutFiles: every file that is too short is refused, as is one whose reader fails.
func TestCutFiles(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := randommodel.GPT2().File(t)
	for n := 0; n < len(file); n += 1 + len(file)/50 {
		if _, err := New(context.Background(), rt, bytes.NewReader(file[:n]),
			int64(n), Options{Name: "cut.gguf"}); err == nil || !strings.Contains(err.Error(), "cut.gguf") {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		if n < 4000 { // the header is needed to get as far as the weights
			continue
		}
		if _, err := New(context.Background(), rt, bytes.NewReader(file[:n]), int64(len(file)),
			Options{Name: "shrunk.gguf"}); err == nil || !strings.Contains(err.Error(), "shrunk.gguf") {
			t.Fatalf("shrunk to %d of %d bytes: %v", n, len(file), err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(ctx, rt, bytes.NewReader(file), int64(len(file)), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOpenRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty.gguf": "", "picture.png": "\x89PNG\r\n\x1a\n0000000000000000000000000000"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), rt, path, Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "missing.gguf"), dir} {
		if _, err := Open(context.Background(), rt, path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	path := filepath.Join(dir, "good.gguf")
	if err := os.WriteFile(path, randommodel.Llama().File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), rt, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if _, err := Open(context.Background(), rt, path, Options{Weights: "q8_1"}); !errors.Is(err, ErrWeightType) {
		t.Errorf("weights q8_1: %v", err)
	}
}

// TestWeights: converting while loading gives the model that a file of that type is.
func TestWeights(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, v := range []randommodel.Shape{randommodel.Llama(), randommodel.GPT2()} {
		v.FF = 100 // rows of ffn_down are no whole blocks: it stays f32
		ids := randomTokens(20, v.Vocab, 3)
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0} {
			name := strings.ToLower(typ.String())
			stored := v
			stored.Weights = typ
			a, b := openDrawn(t, rt, stored, Options{}), openDrawn(t, rt, v, Options{Weights: name})
			sameBits(t, v.Arch+" "+name, eval(t, newSession(t, b, SessionOptions{}), ids, nil, All),
				eval(t, newSession(t, a, SessionOptions{}), ids, nil, All))
			if a.WeightTypes() != b.WeightTypes() || a.Bytes() != b.Bytes() || a.Parameters() != b.Parameters() {
				t.Errorf("%s %s: %s, %d bytes, %d parameters; in a file %s, %d, %d", v.Arch, name, b.WeightTypes(), b.Bytes(),
					b.Parameters(), a.WeightTypes(), a.Bytes(), a.Parameters())
			}
			want := name
			if typ.BlockWeights() > 1 {
				if want = name + ", f32"; a.WeightTypes() == "f32, "+name {
					want = "f32, " + name
				}
			}
			if a.WeightTypes() != want {
				t.Errorf("%s %s: the types are %q", v.Arch, name, a.WeightTypes())
			}
		}
	}
}

// TestWeightsK: matrices whose rows are no multiple of 256 get another type instead.
func TestWeightsK(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	v := randommodel.Llama() // rows of 64 and, in ffn_down, of ff
	ids := randomTokens(20, v.Vocab, 3)
	for name, instead := range map[string]string{"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"} {
		a, b := openDrawn(t, rt, v, Options{Weights: name}), openDrawn(t, rt, v, Options{Weights: instead})
		sameBits(t, name, eval(t, newSession(t, a, SessionOptions{}), ids, nil, All),
			eval(t, newSession(t, b, SessionOptions{}), ids, nil, All))
		if a.WeightTypes() != instead {
			t.Errorf("%s: the types are %q", name, a.WeightTypes())
		}
		mixed := v
		mixed.FF = 512
		m := openDrawn(t, rt, mixed, Options{Weights: name})
		if types := m.WeightTypes(); types != instead+", "+name && types != name+", "+instead {
			t.Errorf("%s and rows of 512: the types are %q", name, types)
		}
		eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	}
}

func TestConfig(t *testing.T) {
	v := randommodel.Llama()
	v.Untied = true
	var dones []int64
	var whole int64
	m := openDrawn(t, newRuntime(t, RuntimeOptions{Threads: 1}), v,
		Options{Progress: func(done, total int64) { dones, whole = append(dones, done), total }})
	want := Config{Architecture: "llama", Name: "random", Context: 512, Vocab: 70, Layers: 2, HiddenSize: 64,
		StateSize: 64, Heads: 4, KVHeads: 2, HeadDim: 16, FeedForward: 96, Epsilon: 1e-5, RopeDims: 16, RopeBase: 10000}
	if m.Config() != want {
		t.Errorf("%+v\nexpected %+v", m.Config(), want)
	}
	perLayer := 2*64 + 2*64*64 + 2*32*64 + 3*96*64
	if n := int64(2*70*64 + 64 + 2*perLayer); m.Parameters() != n {
		t.Errorf("%d parameters, expected %d", m.Parameters(), n)
	}
	if m.Tokenizer() != nil {
		t.Error("a tokenizer from no_vocab")
	}
	for i, d := range dones {
		if i > 0 && d < dones[i-1] || d > whole {
			t.Fatalf("progress %d of %d", dones, whole)
		}
	}
	if len(dones) == 0 || dones[len(dones)-1] != whole {
		t.Errorf("progress ends at %d of %d", dones, whole)
	}
}

// TestFits: with 32-bit addresses, a file of more than 2 GB is refused before anything is allocated.
func TestFits(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	matrix := func(rows uint64) gguf.Tensor {
		return gguf.Tensor{Type: gguf.Q8_0, Dims: []uint64{1 << 16, rows}, Size: int64(rows) << 16 / 32 * 34}
	}
	for _, c := range []struct {
		weights string
		tensors []gguf.Tensor
		ok      bool
	}{
		{"", []gguf.Tensor{matrix(10 << 10), matrix(20 << 10)}, true}, // 1.99 GiB
		{"", []gguf.Tensor{matrix(10 << 10), matrix(21 << 10)}, false},
		{"f32", []gguf.Tensor{matrix(7 << 10)}, true},
		{"f32", []gguf.Tensor{matrix(9 << 10)}, false},
		{"", []gguf.Tensor{{Size: 1 << 62}, {Size: 1 << 62}}, false},
	} {
		f := &gguf.File{Name: "great.gguf", Tensors: c.tensors}
		l, err := newLoader(context.Background(), rt, f, Options{Weights: c.weights}, "llama")
		if want := c.ok || !addresses32; want != (err == nil) {
			t.Errorf("%v in %q: here %v", c.tensors, c.weights, err)
		}
		if err = l.fits(1 << 31); c.ok != (err == nil) || err != nil &&
			(!errors.Is(err, tensor.ErrMemory) || !strings.Contains(err.Error(), "great.gguf")) {
			t.Errorf("%v in %q: %v", c.tensors, c.weights, err)
		}
	}
}

// TestAtMostIsMore: what decides whether a model is looked at closer under a limit is no less than its matrices take
// packed: of types whose panels are larger than their rows, and of those that stand in for another one.
func TestAtMostIsMore(t *testing.T) {
	for _, c := range []struct {
		from    gguf.Type
		to      string
		cols    int
		becomes string
	}{{gguf.IQ3_S, "", 2048, "iq3_s"}, {gguf.Q4_0, "q6_k", 96, "q8_0"}, {gguf.Q4_0, "q6_k", 256, "q6_k"},
		{gguf.F16, "", 100, "f16"}} {
		const rows = 1000
		becomes, err := tensor.ParseType(c.becomes)
		if err != nil {
			t.Fatal(err)
		}
		f := headerOf(t, []gguf.KV{{Key: "general.architecture", Value: "llama"}}, []gguf.TensorSource{
			{Name: "blk.0.attn_q.weight", Type: c.from, Dims: []uint64{uint64(c.cols), rows}}}, "most.gguf")
		l, err := newLoader(context.Background(), nil, f, Options{Weights: c.to}, "llama")
		if err != nil {
			t.Fatal(err)
		}
		packed := shape{becomes, rows, c.cols}.bytes()
		if most := l.atMost() - scratchMargin; most < packed {
			t.Errorf("%v as %s, %d columns: at most %d bytes, they take %d", c.from, c.becomes, c.cols, most, packed)
		}
	}
}
