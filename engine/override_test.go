package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// Options.Rope and Options.Override compute what the float64 reference does of a file with these keys, are that file to
// its fingerprint, and lengthen the context. Each moves the logits by 100 times the bound.
func TestOverriddenKeys(t *testing.T) {
	const bound = 1e-4
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	shape := randommodel.Llama()
	shape.Context = 32
	plain := shape.File(t)
	open := func(file []byte) *gguf.File {
		f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "plain.gguf")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	fingerprint := func(f *gguf.File) string {
		p, err := ReadFingerprint(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return p.Model
	}
	kv := func(key string, v gguf.Value) gguf.KV { return gguf.KV{Key: "llama." + key, Value: v} }
	ids := randomTokens(30, shape.Vocab, 21)
	base := newReference(t, plain).logits(ids)
	var without []float32
	for _, x := range base {
		without = append(without, float32(x))
	}
	for name, c := range map[string]struct {
		o       Options
		keys    []gguf.KV // of the file that means the same
		context int
	}{
		"yarn": {Options{Rope: Rope{Scaling: "yarn", Scale: 4}}, []gguf.KV{kv("rope.scaling.type", "yarn"),
			kv("rope.scaling.factor", float32(4)), kv("rope.scaling.original_context_length", uint32(32)),
			kv("context_length", uint32(128))}, 128},
		"yarn, its numbers": {Options{Rope: Rope{Scaling: "yarn", Scale: 2, Base: 5000, Original: 16, Attention: 1.2, Fast: 8,
			Slow: 2}}, []gguf.KV{kv("rope.freq_base", float32(5000)), kv("rope.scaling.type", "yarn"),
			kv("rope.scaling.factor", float32(2)), kv("rope.scaling.attn_factor", float32(1.2)),
			kv("rope.scaling.yarn_beta_fast", float32(8)), kv("rope.scaling.yarn_beta_slow", float32(2)),
			kv("rope.scaling.original_context_length", uint32(16))}, 32},
		"linear": {Options{Rope: Rope{Scale: 4}}, []gguf.KV{kv("rope.scaling.factor", float32(4)),
			kv("context_length", uint32(128))}, 128},
		"base": {Options{Rope: Rope{Base: 500}}, []gguf.KV{kv("rope.freq_base", float32(500))}, 32},
		"override": {Options{Override: []gguf.KV{kv("rope.freq_base", 500.0), kv("context_length", int64(99))}},
			[]gguf.KV{kv("rope.freq_base", float32(500)), kv("context_length", uint32(99))}, 99},
	} {
		f := open(plain).With(c.keys)
		r := newReference(t, plain)
		r.f = f
		want := r.logits(ids)
		m, err := New(t.Context(), rt, bytes.NewReader(plain), int64(len(plain)), c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
		if d := difference(t, got, want); !(d < bound) {
			t.Errorf("%s: the logits are off by %.2g of their root mean square", name, d)
		}
		if d := difference(t, without, want); d < 100*bound {
			t.Errorf("%s moves the logits by %.2g only", name, d)
		}
		if n := m.Config().Context; n != c.context {
			t.Errorf("%s: a context of %d tokens, expected %d", name, n, c.context)
		}
		changed, err := c.o.Overridden(open(plain))
		if err != nil || fingerprint(changed) != fingerprint(f) || fingerprint(f) == fingerprint(open(plain)) {
			t.Errorf("%s: another fingerprint than the file's with these keys, or the plain file's: %v", name, err)
		}
		m.Close()
	}
	identity := func(o Options) string {
		o.Fingerprint = func(ctx context.Context, f *gguf.File) (Fingerprint, error) { return ReadFingerprint(ctx, f) }
		m, err := New(t.Context(), rt, bytes.NewReader(plain), int64(len(plain)), o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.fingerprint.Model
	}
	if a, b, c := identity(Options{}), identity(Options{Rope: Rope{Base: 500}}), identity(Options{Override: []gguf.KV{
		kv("rope.freq_base", 500.0)}}); a == b || a == c {
		t.Errorf("what was computed with other keys has the identity of the plain file: %s, %s, %s", a, b, c)
	}
	same := Options{Override: []gguf.KV{kv("context_length", int64(32))}}
	if changed, err := same.Overridden(open(plain)); err != nil || fingerprint(changed) != fingerprint(open(plain)) {
		t.Errorf("the file's own value changes the fingerprint: %v", err)
	}
	scaled := shape
	scaled.KVs = []gguf.KV{kv("rope.scaling.type", "linear"), kv("rope.scaling.factor", float32(4))}
	m := openDrawn(t, rt, scaled, Options{Rope: Rope{Scaling: "none"}})
	got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), ids, nil, All)
	if d := difference(t, got, base); !(d < bound) || m.Config().Context != 32 {
		t.Errorf("scaling none: the logits are off by %.2g", d)
	}
}

// What an override cannot mean is refused by its key.
func TestOverridesRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := randommodel.Llama().File(t)
	one := func(key string, v gguf.Value) Options { return Options{Override: []gguf.KV{{Key: key, Value: v}}} }
	for names, o := range map[string]Options{
		"llama.expert_weights_scale": one("llama.expert_weights_scale", 2.0),
		"llama.no_such_key":          one("llama.no_such_key", int64(1)),
		"general.architecture":       one("general.architecture", "gpt2"),
		"qwen2.context_length":       one("qwen2.context_length", int64(1)),
		"llama.context_length":       one("llama.context_length", "long"),
		"llama.block_count":          one("llama.block_count", int64(-1)),
		"rope.scaling.factor":        {Rope: Rope{Scaling: "yarn", Scale: 1e9}},
		"ntk":                        {Rope: Rope{Scaling: "ntk", Scale: 2}},
		"numbers of yarn":            {Rope: Rope{Scale: 2, Fast: 8}},
	} {
		m, err := New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), o)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), names) || !slices.ContainsFunc([]error{ErrUnsupported, ErrValue},
			func(kind error) bool { return errors.Is(err, kind) }) {
			t.Errorf("%s: %v", names, err)
		}
	}
}

// A key that the model does not read is refused also where its weights go through a panel file, which is not written.
func TestOverridesOfPanelFilesRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	dir := t.TempDir()
	file := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(file, randommodel.Llama().File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), rt, file, Options{Cache: dir, KeepPanels: true,
		Override: []gguf.KV{{Key: "llama.no_such_key", Value: int64(1)}}})
	if err == nil {
		m.Close()
	}
	if list, _ := PanelFiles(dir); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "no_such_key") ||
		len(list) > 0 {
		t.Errorf("%v, %v", err, list)
	}
}

// TestPlanCountsOverriddenKeys: a plan counts the sessions of the model that the options make of the file: those of a
// longer context, and of a file that cannot be loaded without them.
func TestPlanCountsOverriddenKeys(t *testing.T) {
	shape := randommodel.Llama()
	shape.Context = 512
	plan := func(tokens int, o Options, kvs ...gguf.KV) int64 {
		t.Helper()
		file := shape.File(t)
		f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "plain.gguf")
		if err != nil {
			t.Fatal(err)
		}
		p, err := PlanMemory(f.With(kvs), o, Sessions{Count: 1, Tokens: tokens, KV: "f16"})
		if err != nil {
			t.Fatal(err)
		}
		return p.Sessions
	}
	want := 4 * plan(512, Options{})
	if got := plan(2048, Options{Rope: Rope{Scaling: "yarn", Scale: 4}}); got != want {
		t.Errorf("a context four times as long: %d bytes, expected %d", got, want)
	}
	context := gguf.KV{Key: "llama.context_length", Value: int64(2048)}
	if got := plan(2048, Options{Override: []gguf.KV{context}}); got != want {
		t.Errorf("an overridden context: %d bytes, expected %d", got, want)
	}
	scaling := gguf.KV{Key: "llama.rope.scaling.type", Value: "linear"}
	if got := plan(2048, Options{Override: []gguf.KV{context, scaling}},
		gguf.KV{Key: scaling.Key, Value: "other"}); got != want {
		t.Errorf("a file that is refused as it is: %d bytes, expected %d", got, want)
	}
}
