package spec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// storedParts are the embedded target with its adapters, its draft and its head, opened for a store.
func storedParts(t *testing.T) (p Parts, head *engine.Model) {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	open := func(file interface {
		ReadAt([]byte, int64) (int, error)
		Size() int64
	}, target *engine.Model) *engine.Model {
		m, err := engine.New(t.Context(), rt, file, file.Size(), engine.Options{Target: target,
			Fingerprint: func(ctx context.Context, f *gguf.File) (engine.Fingerprint, error) {
				return engine.ReadFingerprint(ctx, f)
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	p.Target = open(testdata.Target(), nil)
	p.Draft = open(testdata.Draft(), nil)
	p.Adapters = targetAdapters(t, p.Target, 1)
	return p, open(testdata.Head(), p.Target)
}

// Texts of a model that goes on from what another one has stored are those of one without a store: greedy and sampled,
// without drafts, with those of a model and those of a head, with every storage of keys and values and with adapters.
// The prompt is not computed again, unless the salt or the adapters are others.
func TestTextsFromAStoreAreTheSame(t *testing.T) {
	p, head := storedParts(t)
	text := "func (r *Ring) Push(x int) {\n\tif r.n == len(r.buf) {\n\t\tr.grow()\n\t}\n\tr.buf["
	for _, how := range []struct {
		drafter, kv string
		scale       float32
		temperature float32
	}{{"none", "f16", 0, 0}, {"model", "q8_0", 0, 0.8}, {"eagle", "f16", 0, 0}, {"eagle", "q8_0", 2, 0.8},
		{"model", "f32", 2, 0}} {
		parts, dir := p, t.TempDir()
		if how.drafter == "eagle" {
			parts.Draft = head
		}
		r := Request{Prompts: []Prompt{{Text: text}}, MaxTokens: 16, Adapters: []AdapterScale{{0, how.scale}},
			Sampling:    engine.Sampling{Temperature: how.temperature, Seed: 3},
			Speculation: speculative.Choice{Drafter: how.drafter, Schedule: "constant", Max: 3}}
		want := ""
		for run := range 4 {
			folder, err := promptcache.NewFolder(dir, 0)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{KV: how.kv, Stored: &Stored{Store: folder, Failed: func(err error) { t.Error(err) }}}
			what := fmt.Sprintf("%+v, run %d", how, run)
			switch run {
			case 0:
				o.Stored = nil
			case 3:
				r.Salt = "other"
			}
			m, err := New(parts, o)
			if err != nil {
				t.Fatal(err)
			}
			a, err := Collect(m.Generate(t.Context(), r))
			if err != nil {
				t.Fatal(what, err)
			}
			restored := m.Stats().Target.Restored
			m.Close()
			if run == 0 {
				want = a[0].Text
			}
			if a[0].Text != want {
				t.Errorf("%s: %q, want %q", what, a[0].Text, want)
			}
			n, reused := len(p.Target.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true, ParseSpecial: true})),
				a[0].Stats.Reused
			if run == 2 && (reused < n-2 || restored < int64(n-2)) || run != 2 && (reused > 0 || restored > 0) {
				t.Errorf("%s: %d of %d tokens are reused, %d restored", what, reused, n, restored)
			}
		}
	}
	store, err := promptcache.NewFolder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"one at a time": {Parallel: 1}, "nothing kept": {Memory: Memory{Cache: -1}}} {
		o.Stored = &Stored{Store: store}
		if _, err := New(p, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: a store: %v", name, err)
		}
	}
	if _, err := New(p, Options{Stored: &Stored{}}); !errors.Is(err, ErrOptions) {
		t.Errorf("no store: %v", err)
	}
	if p, err := pair(); err != nil {
		t.Fatal(err)
	} else if _, err := New(p, Options{Stored: &Stored{Store: store}}); !errors.Is(err, ErrOptions) {
		t.Errorf("a store for models that cannot be told apart: %v", err)
	}
}

// With PromptsOnly another model goes on from the prompt and not from its answer; without it from both.
func TestAnswersAreStoredUnlessPromptsAloneAre(t *testing.T) {
	p, _ := storedParts(t)
	p.Draft, p.Adapters = nil, nil
	prompt := p.Target.Tokenizer().Encode("func (r *Ring) Push(x int) {\n\tif r.n == len(r.buf) {",
		bpe.EncodeOptions{AddSpecial: true})
	for _, only := range []bool{false, true} {
		folder, err := promptcache.NewFolder(t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		write := func(ids []int32) (written []int32, reused int) {
			m, err := New(p, Options{Stored: &Stored{Store: folder, PromptsOnly: only,
				Failed: func(err error) { t.Error(err) }}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			r := Request{Prompts: []Prompt{{IDs: ids}}, MaxTokens: 16, IgnoreEOS: true}
			for e, err := range m.Generate(t.Context(), r) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Token.ID >= 0 {
					written = append(written, e.Token.ID)
				}
				if e.Stats != nil {
					reused = e.Stats.Reused
				}
			}
			return written, reused
		}
		answer, _ := write(prompt)
		_, reused := write(slices.Concat(prompt, answer))
		if n := len(prompt); only && (reused < n-2 || reused > n) || !only && reused < n+len(answer)-3 {
			t.Errorf("prompts only: %v: %d tokens of a prompt of %d and an answer of %d are reused", only, reused, n,
				len(answer))
		}
	}
}
