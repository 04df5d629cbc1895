package convert

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// peft writes a folder with an adapter of rank 2 for the matrices of a source, and returns it and what each matrix
// becomes when factor B A is added.
func peft(t *testing.T, base *source, config map[string]any, factor float64) (*source, map[string]func(int) float32) {
	s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{}, values: map[string]func(int) float32{}}
	merged := map[string]func(int) float32{}
	a := func(i int) float32 { return float32(math.Sin(float64(i+1))) / 4 }
	b := func(i int) float32 { return float32(math.Cos(float64(3*i+1))) / 4 }
	for name, shape := range base.tensors {
		if merged[name] = base.values[name]; len(shape) < 2 || !strings.Contains(name, "_proj") {
			continue
		}
		stem := "base_model.model." + strings.TrimSuffix(name, ".weight")
		s.tensors[stem+".lora_A.weight"], s.values[stem+".lora_A.weight"] = []int{2, shape[1]}, a
		s.tensors[stem+".lora_B.weight"], s.values[stem+".lora_B.weight"] = []int{shape[0], 2}, b
		cols := shape[1]
		merged[name] = func(i int) float32 {
			row, col, sum := i/cols, i%cols, 0.0
			for k := range 2 {
				sum += float64(b(row*2+k)) * float64(a(k*cols+col))
			}
			return float32(float64(base.values[name](i)) + factor*sum)
		}
	}
	s.file(AdapterConfig, config)
	s.weights()
	s.adapterWeights()
	return s, merged
}

// adapterWeights gives model.safetensors the name of an adapter's file.
func (s *source) adapterWeights() {
	s.t.Helper()
	err := os.Rename(filepath.Join(s.dir, "model.safetensors"), filepath.Join(s.dir, "adapter_model.safetensors"))
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestAdapter: an adapter that is converted changes a converted model as PEFT merges it, with either kind of scaling.
func TestAdapter(t *testing.T) {
	base, config := llamaSource(t, "LlamaForCausalLM")
	for name := range base.tensors {
		base.values[name] = func(i int) float32 { return float32(math.Sin(float64(i*len(name)))) / 2 }
	}
	base.file("config.json", config)
	base.weights()
	_, plain := converted(t, base.dir, Options{Type: "f32"})
	for _, c := range []struct {
		rslora bool
		factor float64
	}{{false, 3.0 / 2}, {true, 3 / math.Sqrt2}} {
		adapter, values := peft(t, base, map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 3, "use_rslora": c.rslora,
			"bias": "none", "lora_dropout": 0.1, "modules_to_save": nil, "rank_pattern": map[string]any{}}, c.factor)
		m, err := OpenAdapter(adapter.dir, base.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		_, low := inMemory(t, m, Options{Type: "f32"})
		whole := &source{t: t, dir: base.dir, tensors: base.tensors, values: values}
		whole.weights()
		_, merged := converted(t, base.dir, Options{Type: "f32"})
		base.weights()
		for typ, want := range map[string]gguf.Type{"f32": gguf.F32, "bf16": gguf.BF16, "q8_0": gguf.F16} {
			f, _ := inMemory(t, m, Options{Type: typ}) // rows of 2 and of 8 are no blocks
			for _, factor := range f.Tensors {
				if factor.Type != want {
					t.Errorf("%s: %v, want %v", typ, factor, want)
				}
			}
		}
		got, want, without := logits(t, plain, low), logits(t, merged, nil), logits(t, plain, nil)
		off, changed := 0.0, 0.0
		for i := range got {
			off = max(off, math.Abs(float64(got[i]-want[i])))
			changed = max(changed, math.Abs(float64(without[i]-want[i])))
		}
		if off > 1e-5 || changed < 1e-2 {
			t.Errorf("rslora %v: off by %v, changed by %v", c.rslora, off, changed)
		}
	}
}

// logits are those of a text, with an adapter if there is one.
func logits(t *testing.T, file, adapter []byte) []float32 {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	m, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := engine.SessionOptions{KV: "f32"}
	if adapter != nil {
		f, err := gguf.Open(bytes.NewReader(adapter), int64(len(adapter)), "adapter")
		if err != nil {
			t.Fatal(err)
		}
		a, err := m.ReadAdapter(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if o.Adapters, err = engine.NewAdapterSet(engine.ScaledAdapter{Adapter: a, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Eval(t.Context(), []int32{5, 9, 70, 1}, nil, engine.All)
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), out.Data...)
}

// TestAdapterRefused: what an adapter's folder may not say, by name.
func TestAdapterRefused(t *testing.T) {
	base, config := llamaSource(t, "LlamaForCausalLM")
	base.file("config.json", config)
	for name := range base.tensors {
		base.values[name] = func(int) float32 { return 1 }
	}
	for key, v := range map[string]any{"peft_type": "IA3", "use_dora": true, "bias": "all",
		"modules_to_save": []string{"x"},
		"alpha_pattern":   map[string]any{"x": 2}, "lora_alpha": 0, "r": nil, "new_key": 1} {
		c := map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 3}
		c[key] = v
		adapter, _ := peft(t, base, c, 1)
		if _, err := OpenAdapter(adapter.dir, base.dir); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	// What factors begin with, and whether it is taken from the base model's weights.
	for v, good := range map[any]bool{true: true, false: true, nil: true, "gaussian": true, "eva": true,
		"orthogonal": true, "pissa": false, "pissa_niter_4": false, "olora": false, "corda": false, "loftq": false,
		1: false} {
		adapter, _ := peft(t, base, map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 3, "init_lora_weights": v}, 1)
		m, err := OpenAdapter(adapter.dir, base.dir)
		if err == nil {
			m.Close()
		}
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "init_lora_weights") {
			t.Errorf("init_lora_weights %v: %v", v, err)
		}
	}
	// alpha is divided by the rank of config.json in PEFT, and by that of the factors in GGUF.
	adapter, _ := peft(t, base, map[string]any{"peft_type": "LORA", "r": 4, "lora_alpha": 3}, 1)
	if _, err := OpenAdapter(adapter.dir, base.dir); err == nil || !strings.Contains(err.Error(), "rank 4") {
		t.Errorf("factors of another rank: %v", err)
	}
	for name, shape := range map[string][]int{"base_model.model.model.layers.0.self_attn.x_proj.lora_A.weight": {2, 8},
		"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": {2, 9},
		"base_model.model.model.embed_tokens.lora_A.weight":              {2, 260}} {
		adapter, _ := peft(t, base, map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 3}, 1)
		adapter.tensors[name] = shape
		adapter.weights()
		adapter.adapterWeights()
		if _, err := OpenAdapter(adapter.dir, base.dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdapterOfBarePrefix: the tensors of an adapter have the names of the whole model's, also in families whose
// weights are saved without the head under shorter names.
func TestAdapterOfBarePrefix(t *testing.T) {
	_, opt := small(t, "OPTForCausalLM")
	gpt2 := map[string]any{"architectures": []string{"GPT2LMHeadModel"}, "n_embd": 8, "n_layer": 1, "n_head": 4,
		"n_positions": 16, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "vocab_size": 260}
	for _, c := range []struct {
		config     map[string]any
		from, name string
		rows, cols int
	}{
		{opt, "model.decoder.layers.0.fc1", "blk.0.ffn_up.weight", 12, 8},
		{gpt2, "transformer.h.0.attn.c_attn", "blk.0.attn_qkv.weight", 24, 8}, // of Conv1D, whose factors lie as all do
	} {
		base := &source{t: t, dir: t.TempDir()}
		base.file("config.json", c.config)
		a, b := "base_model.model."+c.from+".lora_A.weight", "base_model.model."+c.from+".lora_B.weight"
		s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{a: {2, c.cols}, b: {c.rows, 2}}}
		s.file(AdapterConfig, map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 3, "fan_in_fan_out": true})
		s.weights()
		s.adapterWeights()
		m, err := OpenAdapter(s.dir, base.dir)
		if err != nil {
			t.Errorf("%s: %v", c.from, err)
			continue
		}
		if len(m.targets) != 2 || m.targets[0].name != c.name+".lora_a" || m.targets[1].name != c.name+".lora_b" {
			t.Errorf("%s: %+v", c.from, m.targets)
		}
		m.Close()
	}
}
