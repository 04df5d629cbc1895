package serve

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/testdata"
)

// A request's adapters count in every form; /lora-adapters lists them, and sets what others have.
func TestAdapters(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	base, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	file := randommodel.Adapter{Seed: 3, Spread: 0.3,
		Keys: map[string]gguf.Value{"adapter.lora.task_name": "rank"}}.File(t,
		base)
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "lora.gguf")
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.target.ReadAdapter(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	s := newTester(t, func(o *Options) {
		o.AllowManage, o.SlotFiles.Dir = true, t.TempDir()
		o.Models = []Entry{entryOf("go", spec.Parts{Target: p.target, Draft: p.draft,
			Adapters: []engine.ScaledAdapter{{Adapter: a, Scale: 1}}}, func(*spec.Options) {})}
	})
	listed := func(scale string) {
		t.Helper()
		want := fmt.Sprintf(`[{"id":0,"path":"lora.gguf","scale":%s,"task_name":"rank","prompt_prefix":""}]`, scale)
		if got := strings.TrimSpace(s.page("/lora-adapters")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	ask := func(lora string) any {
		t.Helper()
		return decode(t, s.post("/completion", `{"prompt":"func (r *Ring) Push(","n_predict":12,"temperature":0`+lora+`}`,
			200))["content"]
	}
	listed("1")
	adapted, plain, half := ask(""), ask(`,"lora":[]`), ask(`,"lora":[{"id":0,"scale":0.5}]`)
	if adapted == plain || ask(`,"lora":[{"id":0,"scale":1}]`) != adapted || ask(`,"lora":[{"id":0,"scale":0}]`) != plain {
		t.Errorf("%q with the adapter, %q without", adapted, plain)
	}
	s.post("/lora-adapters", `[{"id":0,"scale":0.5}]`, 200)
	listed("0.5")
	if got := ask(""); got != half {
		t.Errorf("%q, want %q", got, half)
	}
	s.post("/lora-adapters", `[]`, 200)
	listed("0")
	if got := ask(""); got != plain {
		t.Errorf("%q, want %q", got, plain)
	}
	for _, bad := range []string{`{}`, `[{"id":1,"scale":1}]`, `[{"id":0}]`, `[1]`,
		`[{"id":0,"scale":1},{"id":0,"scale":1}]`} {
		if text := s.post("/lora-adapters", bad, 400); !strings.Contains(text, "lora") {
			t.Errorf("%s: %s", bad, text)
		}
	}
	listed("0")
	// A model that is loaded again has the scales that were set.
	s.post("/lora-adapters", `[{"id":0,"scale":0.5}]`, 200)
	s.post("/api/generate", `{"model":"go","keep_alive":0}`, 200)
	if len(s.models.resident()) > 0 {
		t.Error("the model is not unloaded")
	}
	listed("0.5")
	if got := ask(""); got != half {
		t.Errorf("loaded again: %q, want %q", got, half)
	}
	// What a slot holds under other adapters is not what another one has computed.
	s.ask(slotPrompt, `,"id_slot":0,"lora":[]`)
	s.ask(slotPrompt, `,"id_slot":1`)
	s.slot(0, "erase", "", 200)
	if x := s.ask(slotPrompt, `,"id_slot":2,"lora":[]`); x.number(t, "timings", "cache_n") != 0 {
		t.Errorf("after it was erased: %v", x)
	}
	if x := s.ask(slotPrompt, `,"id_slot":3`); x.number(t, "timings", "cache_n") == 0 {
		t.Errorf("what another slot holds is gone: %v", x)
	}
}
