package serve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// withHead offers the embedded target with its draft head.
func withHead(t testing.TB, change ...func(*spec.Options)) Entry {
	t.Helper()
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	head, err := engine.New(context.Background(), p.target.Runtime(), testdata.Head(), testdata.Head().Size(),
		engine.Options{Name: "head", Target: p.target})
	if err != nil {
		t.Fatal(err)
	}
	return entryOf("go", spec.Parts{Target: p.target, Draft: head, Close: head.Close}, func(o *spec.Options) {
		o.Speculation.Schedule = "constant"
		for _, f := range change {
			f(o)
		}
	})
}

// Requests with a draft head give plain decoding's text, alone and several at once, whose heads' passes are shared;
// also where the memory for the heads' keys and values does not suffice for all of them. Drafters that do not fit the
// head are refused by name.
func TestHeads(t *testing.T) {
	prompts := []string{"func (b *Buffer) Read(", "for i := range n {\n",
		"package main\n\nimport (\n\t\"fmt\"\n", "// Copy returns"}
	ask := func(s *tester, prompt, drafter string, temperature float64, status int) object {
		body := string(encode(map[string]any{"prompt": prompt, "max_tokens": 40, "temperature": temperature, "seed": 3,
			"speculation": map[string]any{"drafter": drafter}}))
		return decode(t, s.post("/v1/completions", body, status))
	}
	text := func(o object) string { return o.get(t, "choices", 0, "text").(string) }
	want := map[string]string{}
	plain := newTester(t, func(o *Options) { o.Models = []Entry{withHead(t)} })
	for _, temperature := range []float64{0, 0.8} {
		for _, p := range prompts {
			want[fmt.Sprint(p, temperature)] = text(ask(plain, p, "none", temperature, 200))
		}
	}
	for _, kv := range []int64{0, 3 << 20} { // of the target and the head each; the targets' do not fit all
		head := withHead(t, func(o *spec.Options) { o.Memory.KV, o.Memory.DraftKV = kv, kv })
		s := newTester(t, func(o *Options) { o.Models, o.Parallel = []Entry{head}, 4 })
		for _, drafter := range []string{"tree", "splice", "model", "eagle", "eagle-tree"} {
			var wait sync.WaitGroup
			for i, p := range prompts {
				wait.Go(func() {
					temperature := []float64{0, 0.8}[i%2]
					o := ask(s, p, drafter, temperature, 200)
					if got := text(o); got != want[fmt.Sprint(p, temperature)] {
						t.Errorf("%q, drafter %q, temperature %v: %q, plain %q", p, drafter, temperature, got,
							want[fmt.Sprint(p, temperature)])
					}
					if n, ok := o.get(t, "timings", "draft_n_accepted").(float64); !ok || n < 10 {
						t.Errorf("drafter %q: %v drafted tokens are accepted", drafter, n)
					}
				})
			}
			wait.Wait()
		}
		m, release, err := s.models.acquire(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if st := m.Stats().Draft; st.Segments <= st.Passes {
			t.Errorf("%d passes of the head for %d segments: none is shared", st.Passes, st.Segments)
		}
		if got := strings.Join(m.drafters(),
			" "); got != "tree splice model eagle eagle-tree ngram suffix self self-splice early-exit none" {
			t.Errorf("offered: %s", got)
		}
		release()
		for _, drafter := range []string{"mtp", "reencode", "intersect"} {
			if o := ask(s, prompts[0], drafter, 0, 400); !strings.Contains(fmt.Sprint(o), drafter) {
				t.Errorf("%s: %v", drafter, o)
			}
		}
	}
	s := newTester(t, nil)
	if o := ask(s, prompts[0], "eagle", 0, 400); !strings.Contains(fmt.Sprint(o), "head") {
		t.Errorf("no head: %v", o)
	}
}

// The next turn of a text computes the new tokens alone with a draft head as without one, and says so.
func TestServedHeadsReusePrompts(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Models = []Entry{withHead(t)} })
	for _, drafter := range []string{"none", "eagle"} {
		prompt := "// " + drafter + " copies bytes from src to dst.\nfunc CopyBuffer(dst Writer, src Reader) error " +
			"{\n\tfor {\n"
		for turn, had := 0, 0; turn < 3; turn++ {
			body := map[string]any{"prompt": prompt, "max_tokens": 20, "speculation": map[string]any{"drafter": drafter}}
			o := decode(t, s.post("/v1/completions", string(encode(body)), 200))
			cached := int(o.get(t, "timings", "cache_n").(float64))
			n := cached + int(o.get(t, "timings", "prompt_n").(float64))
			if cached > n || turn > 0 && cached < had-2 {
				t.Errorf("%s, turn %d: %d of %d tokens were not computed, the text had %d", drafter, turn, cached, n, had)
			}
			had = n + int(o.get(t, "timings", "predicted_n").(float64)) - 1 // the last one was not fed
			prompt += o.get(t, "choices", 0, "text").(string) + "\n"
		}
	}
}

// A model's own MTP block drafts in the server; the model has recurrent layers.
func TestServedMTP(t *testing.T) {
	file := testkit.Shared(t, "families/models/qwen35.gguf")
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s := newTester(t, func(o *Options) {
		o.Models = []Entry{{Name: "m", Load: func(ctx context.Context) (*spec.Model, error) {
			target, err := engine.Open(ctx, rt, file, engine.Options{})
			if err != nil {
				return nil, err
			}
			head, err := engine.Open(ctx, rt, file, engine.Options{Target: target, MTP: true})
			if err != nil {
				return nil, err
			}
			return spec.New(spec.Parts{Target: target, Draft: head},
				spec.Options{StateBytes: 1, Speculation: speculative.Choice{Schedule: "constant"}})
		}}}
	})
	texts := map[string]string{}
	for _, drafter := range []string{"none", "mtp", "tree"} {
		var wait sync.WaitGroup
		for i := range 3 {
			wait.Go(func() {
				body := fmt.Sprintf(
					`{"prompt":"func %d","max_tokens":60,"temperature":0.7,"seed":%d,"speculation":{"drafter":"%s"}}`, i, i, drafter)
				o := decode(t, s.post("/v1/completions", body, 200))
				got := o.get(t, "choices", 0, "text").(string)
				mu.Lock()
				defer mu.Unlock()
				if key := fmt.Sprint(i); texts[key] == "" {
					texts[key] = got
				} else if texts[key] != got {
					t.Errorf("%s: %q, plain %q", drafter, got, texts[key])
				}
				if n := o.get(t, "timings", "draft_n"); drafter != "none" && n.(float64) == 0 {
					t.Errorf("%s: nothing is drafted", drafter)
				}
			})
		}
		wait.Wait()
	}
}

var mu sync.Mutex
