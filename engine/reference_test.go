package engine

import (
	"bytes"
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/testdata"
)

// difference is the greatest difference of two lists of logits, in units of the root mean square of the second.
func difference(tb testing.TB, got []float32, want []float64) float64 {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d logits, expected %d", len(got), len(want))
	}
	worst, squares := 0.0, 0.0
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - v); !(d <= worst) {
			worst = d
		}
		squares += v * v
	}
	return worst / math.Sqrt(squares/float64(len(want)))
}

// TestReference: every option of an architecture against the reference. An option that hardly changes the logits would
// prove nothing: it must move them by 100 times the bound.
func TestReference(t *testing.T) {
	const bound = 1e-4
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	key := func(key string, v gguf.Value) func(*randommodel.Shape) {
		return func(s *randommodel.Shape) { s.KVs = append(s.KVs, gguf.KV{Key: s.Arch + "." + key, Value: v}) }
	}
	all := func(changes ...func(*randommodel.Shape)) func(*randommodel.Shape) {
		return func(s *randommodel.Shape) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	yarn := func(changes ...func(*randommodel.Shape)) func(*randommodel.Shape) {
		return all(append(changes, key("rope.scaling.type", "yarn"), key("rope.scaling.factor", float32(4)),
			key("rope.scaling.original_context_length", uint32(64)))...)
	}
	only := func(bias string) func(*randommodel.Shape) { // the biases of one matrix
		return func(s *randommodel.Shape) {
			s.Biases = true
			for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
				if name != bias {
					s.DropAlso = append(s.DropAlso, name+".bias")
				}
			}
		}
	}
	type change = func(*randommodel.Shape)
	llama := map[string]change{
		"untied":                func(s *randommodel.Shape) { s.Untied = true },
		"q bias":                only("attn_q"),
		"k bias":                only("attn_k"),
		"v bias":                only("attn_v"),
		"o bias":                only("attn_output"),
		"gate bias":             only("ffn_gate"),
		"up bias":               only("ffn_up"),
		"down bias":             only("ffn_down"),
		"all biases":            func(s *randommodel.Shape) { s.Biases = true },
		"freq_base":             key("rope.freq_base", float32(500)),
		"epsilon":               key("attention.layer_norm_rms_epsilon", float32(0.1)),
		"factors":               func(s *randommodel.Shape) { s.Factors = true },
		"linear":                func(s *randommodel.Shape) { s.Scaling = 4 },
		"factor without a type": key("rope.scaling.factor", float32(4)),
		"scale_linear":          key("rope.scale_linear", float32(4)),
		"attn_factor":           key("rope.scaling.attn_factor", float32(1.3)),
		"YaRN":                  yarn(),
		"YaRN's magnitude":      yarn(key(yarnMagnitude, float32(1.5))),
		"YaRN's bounds": yarn(key("rope.scaling.yarn_beta_fast", float32(4)),
			key("rope.scaling.yarn_beta_slow", float32(2))),
		"no scaling":             all(key("rope.scaling.type", "none"), key("rope.scaling.factor", float32(4))),
		"factors, linear, part":  func(s *randommodel.Shape) { s.Factors, s.Scaling, s.RopeDims = true, 2, 8 },
		"part of a head":         func(s *randommodel.Shape) { s.RopeDims = 8 },
		"heads of another size":  func(s *randommodel.Shape) { s.HeadDim = 24 },
		"one KV head":            func(s *randommodel.Shape) { s.KV = 1 },
		"as many KV heads":       func(s *randommodel.Shape) { s.KV = s.Heads },
		"no head_count_kv":       all(key("attention.head_count_kv", nil), func(s *randommodel.Shape) { s.KV = s.Heads }),
		"one head, three layers": func(s *randommodel.Shape) { s.Heads, s.KV, s.Layers = 1, 1, 3 },
	}
	gpt2 := map[string]change{
		"epsilon":     key("attention.layer_norm_epsilon", float32(0.1)),
		"untied":      func(s *randommodel.Shape) { s.Untied = true },
		"eight heads": func(s *randommodel.Shape) { s.Heads, s.KV = 8, 8 },
	}
	for _, bias := range []string{"attn_norm.bias", "attn_qkv.bias", "attn_output.bias", "ffn_norm.bias",
		"ffn_up.bias", "ffn_down.bias"} {
		gpt2[bias] = func(s *randommodel.Shape) { s.Scale = map[string]float32{"blk.1." + bias: -1} }
	}
	for _, arch := range []struct {
		base    randommodel.Shape
		options map[string]change
	}{{randommodel.Llama(), llama}, {randommodel.GPT2(), gpt2}} {
		ids := randomTokens(40, arch.base.Vocab, 21)
		arch.options["plain"] = func(*randommodel.Shape) {}
		var plain []float32
		for _, x := range newReference(t, arch.base.File(t)).logits(ids) {
			plain = append(plain, float32(x))
		}
		for name, change := range arch.options {
			v := arch.base
			change(&v)
			file := v.File(t)
			want := newReference(t, file).logits(ids)
			s := newSession(t, openDrawn(t, rt, v, Options{}), SessionOptions{KV: "f32"})
			d := difference(t, eval(t, s, ids, nil, All), want)
			if !(d < bound) {
				t.Errorf("%s, %s: the logits are off by %.2g of their root mean square", v.Arch, name, d)
			}
			if name != "plain" && !strings.HasPrefix(name, "no ") {
				if moved := difference(t, plain, want); moved < 100*bound {
					t.Errorf("%s, %s: the option moves the logits by %.2g only: it proves nothing", v.Arch, name, moved)
				}
			}
		}
	}
}

// TestReferencePair: the embedded models, their weights taken as the file has them, against the reference.
func TestReferencePair(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for name, open := range map[string]func() *strings.Reader{"go-target": testdata.Target, "go-draft": testdata.Draft} {
		file, err := io.ReadAll(open())
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Weights: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		ids := m.Tokenizer().Encode("func (b *Buffer)", bpe.EncodeOptions{AddSpecial: true})
		got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
		if d := difference(t, got, newReference(t, file).logits(ids)); !(d < 1e-4) {
			t.Errorf("%s: the logits are off by %.2g of their root mean square", name, d)
		}
		m.Close()
	}
}
