package engine_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestPredictedBytes: what [engine.Sessions] counts for a sequence of a model, of a draft head or of MTP blocks before
// it is loaded is what one takes that is as long: to the byte without recurrent layers and windows, and no less with
// them.
func TestPredictedBytes(t *testing.T) {
	const tokens = 600
	ctx := t.Context()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	open := func(file []byte, o engine.Options) *engine.Model {
		t.Helper()
		m, err := engine.New(ctx, rt, bytes.NewReader(file), int64(len(file)), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	recipe := func(name string, blocks int) []byte {
		r := randommodel.Recipes()[name]
		r.MTP, r.Keys["context_length"] = blocks, uint32(2*tokens)
		return r.File(t)
	}
	llama := randommodel.Llama()
	llama.Context = 2 * tokens
	target := open(llama.File(t), engine.Options{})
	head := open(randommodel.Eagle{}.File(t), engine.Options{Target: target})
	file := recipe("qwen35", 1)
	hybrid := open(file, engine.Options{})
	block := open(file, engine.Options{Target: hybrid, MTP: true})
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "qwen35")
	if err != nil {
		t.Fatal(err)
	}
	described, err := engine.Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		m      *engine.Model
		states int // numbers of the target's states for a position; 0: none go in
		exact  bool
	}{
		{"llama", target, 0, true},
		{"EAGLE-3 head", head, len(head.TargetLayers()) * target.Config().HiddenSize, true},
		{"MTP block", block, len(hybrid.StatesFor(block)) * hybrid.Config().HiddenSize, true},
		{"qwen35", hybrid, 0, false},
		{"gemma3", open(recipe("gemma3", 0), engine.Options{}), 0, false},
	} {
		n := min(tokens, c.m.Config().Context)
		ids := slices.Repeat([]int32{1, 5, 9, 3}, n/4)
		for _, kv := range []string{"f16", "f32", "q8_0", "q4_0"} {
			s, err := c.m.NewSession(engine.SessionOptions{KV: kv})
			if err != nil {
				t.Fatal(err)
			}
			g := engine.Segment{Tokens: ids, Logits: engine.Last}
			if c.states > 0 {
				g.States, g.FromTarget = make([]float32, len(ids)*c.states), true
			}
			if _, err := s.EvalSegment(ctx, g); err != nil {
				t.Fatal(c.name, err)
			}
			predicted := engine.Sessions{Count: 1, Tokens: n, KV: kv}.Bytes(c.m.Describe())
			if c.m == block { // of the model's own file
				own := engine.Sessions{Count: 1, Tokens: n, KV: kv}
				without := own.Bytes(described)
				own.Heads = true
				if more := own.Bytes(described) - without; more != s.Bytes() {
					t.Errorf("%s, %s: %d bytes, the model's file says %d", c.name, kv, s.Bytes(), more)
				}
			}
			if took := s.Bytes(); took > predicted || c.exact && took != predicted {
				t.Errorf("%s, %s: %d bytes for %d tokens, predicted %d", c.name, kv, took, n, predicted)
			}
			s.Close()
		}
	}
}

// What is counted for a fork, one that is saved and one that drafts is what they take: to the byte for the latter two.
func TestForksTakeWhatIsCounted(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, name := range []string{"gemma3", "qwen35", "falcon-h1", "lfm2 windows"} {
		r := randommodel.Recipes()[name]
		r.Keys["context_length"] = uint32(700)
		file := r.File(t)
		m, err := engine.New(t.Context(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewSession(engine.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var used atomic.Int64
		s.Meter(&used)
		all := randommodel.Tokens(600, m.Config().Vocab, 1)
		for _, end := range []int{20, 300, 512, 600} {
			if _, err := s.Eval(t.Context(), all[s.Len():end], nil, engine.None); err != nil {
				t.Fatal(name, err)
			}
			for _, at := range []int{end, end - 1, end - 70, 0} {
				at := s.Restorable(at)
				took := func(fork func() (*engine.Session, error)) (*engine.Session, int64) {
					before := used.Load()
					f, err := fork()
					if err != nil {
						t.Fatal(name, err)
					}
					return f, used.Load() - before
				}
				f, bytes := took(func() (*engine.Session, error) { return s.ForkAt(at) })
				if most := s.ForkBytes(at); bytes > most {
					t.Errorf("%s: a fork at %d of %d takes %d bytes, counted are %d", name, at, end, bytes, most)
				}
				f.Close()
				f, bytes = took(func() (*engine.Session, error) { return s.SaveAt(at) })
				if most := s.SaveBytes(at); bytes != most {
					t.Errorf("%s: saved at %d of %d it takes %d bytes, counted are %d", name, at, end, bytes, most)
				}
				f.Close()
				var old *engine.Session
				for _, layers := range []int{1, m.Config().Layers} {
					for range 2 {
						most := s.DraftBytes(at, layers, old)
						old, bytes = took(func() (*engine.Session, error) { return s.ExitAt(at, layers, old) })
						if bytes > most || old.Taken() > 0 && most > 0 && bytes != most {
							t.Errorf("%s: a draft at %d of %d, %d layers, takes %d bytes, counted are %d", name, at, end, layers,
								bytes, most)
						}
					}
					old.Close()
					old = nil
				}
			}
		}
		if s.Close(); used.Load() != 0 {
			t.Errorf("%s: %d bytes are left", name, used.Load())
		}
		m.Close()
	}
}
