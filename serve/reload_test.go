package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
)

// While an answer is computed keys and models are replaced: the answer is complete, a key that stays is the same
// client, a key that goes is refused, and a model that is listed as before is not loaded again. What is wrong changes
// nothing.
func TestReload(t *testing.T) {
	loads, closed := 0, make(chan bool, 1)
	counted := func(name string, closed func()) Entry {
		e := entryClosed(t, name, closed, func(*spec.Options) { loads++ })
		return e
	}
	old, kept := counted("old", func() { closed <- true }), counted("kept", nil)
	keys := []Key{{Secret: "stays", Weight: 2}, {Secret: "goes"}}
	s := newTester(t, func(o *Options) { o.Keys, o.Models = keys, []Entry{old, kept} })
	ask := func(key, model string, want int) string {
		t.Helper()
		status, text, _ := s.do("POST", "/v1/completions", `{"model":"`+model+`","prompt":"func","max_tokens":4}`,
			"X-Api-Key", key)
		if status != want {
			t.Errorf("key %s, model %s: %d %s", key, model, status, text)
		}
		return text
	}
	ask("goes", "kept", 200)
	stays := (*s.clients.Load())[0]
	m, release, err := s.models.acquire(t.Context(), "old") // as a stream under way
	if err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		keys   []Key
		models []Entry
	}{
		"no keys": {nil, []Entry{kept}}, "no models": {keys, nil}, "two models": {keys, []Entry{kept, kept}},
		"an empty key":  {[]Key{{}}, []Entry{kept}},
		"blanks around": {[]Key{{Secret: "a\n"}}, []Entry{kept}}, "a line end": {[]Key{{Secret: "a\nb"}}, []Entry{kept}},
	} {
		if err := s.Reload(c.keys, c.models); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		ask("goes", "kept", 200)
	}
	if err := s.Reload([]Key{{Secret: "new"}, keys[0]}, []Entry{counted("fresh", nil), kept}); err != nil {
		t.Fatal(err)
	}
	if (*s.clients.Load())[1] != stays {
		t.Error("a key that stays has another share")
	}
	ask("goes", "kept", 401)
	ask("stays", "old", 404)
	ask("new", "kept", 200)
	ask("new", "fresh", 200)
	if ask("new", "", 200); loads != 3 {
		t.Errorf("%d loads, want 3", loads)
	}
	if len(closed) > 0 || m.Tokenizer() == nil {
		t.Error("a model in use was closed")
	}
	release()
	<-closed
	kept.Setup = "another draft model"
	if err := s.Reload(keys, []Entry{kept}); err != nil {
		t.Fatal(err)
	}
	if ask("stays", "kept", 200); loads != 4 {
		t.Errorf("%d loads, want another of the model that is set up otherwise", loads)
	}
}

// What requests are answered with, and by which names, changes without the model being loaded again.
func TestParametersChangeWithoutALoad(t *testing.T) {
	loads := 0
	e := entryClosed(t, "go", nil, func(*spec.Options) { loads++ })
	e.Parameters = json.RawMessage(`{"num_predict":3}`)
	s := newTester(t, func(o *Options) { o.Models = []Entry{e, entry(t, "other")} })
	ask := func(name string) any {
		t.Helper()
		return decode(t, s.post("/v1/completions", `{"model":"`+name+`","prompt":"func","ignore_eos":true}`, 200)).
			get(t, "usage", "completion_tokens")
	}
	if n := ask("go"); n != 3.0 {
		t.Errorf("%v tokens", n)
	}
	e.Parameters, e.System, e.Aliases = json.RawMessage(`{"num_predict":2}`), "Be brief.", []string{"gopher"}
	if err := s.Reload(nil, []Entry{e, entry(t, "other")}); err != nil {
		t.Fatal(err)
	}
	if n := ask("gopher"); n != 2.0 || loads != 1 {
		t.Errorf("%v tokens, %d loads", n, loads)
	}
	if show := decode(t, s.post("/api/show", `{"model":"go"}`, 200)); show["system"] != "Be brief." ||
		!strings.Contains(show["parameters"].(string), "2") {
		t.Errorf("%v", show)
	}
}

// A request for which a model is loaded is answered by the one that takes its place meanwhile, whether the first one
// can still be loaded or not; one whose model is gone learns that.
func TestModelsAreReplacedWhileTheyLoad(t *testing.T) {
	for _, c := range []struct {
		name   string // of the model that is there then
		broken error
		want   int
	}{{"go", nil, 200}, {"go", errors.New("cut short"), 200}, {"other", nil, 404}} {
		loading, on := make(chan bool), make(chan bool)
		slow := entry(t, "go")
		load := slow.Load
		slow.Load = func(ctx context.Context) (*spec.Model, error) {
			loading <- true
			if <-on; c.broken != nil {
				return nil, c.broken
			}
			return load(ctx)
		}
		s := newTester(t, func(o *Options) { o.Models = []Entry{slow} })
		done := make(chan int)
		go func() {
			status, _, _ := s.do("POST", "/v1/completions", `{"model":"any","prompt":"func","max_tokens":1}`)
			done <- status
		}()
		<-loading
		next := entry(t, c.name)
		next.Setup = "of another file"
		if err := s.Reload(nil, []Entry{next}); err != nil {
			t.Fatal(err)
		}
		close(on)
		if status := <-done; status != c.want {
			t.Errorf("%s, %v: %d, want %d", c.name, c.broken, status, c.want)
		}
	}
}

// A model that comes into the store by itself is found by its name and by lists, one that has gone is no longer
// offered, and models of the command line stay.
func TestModelsThatComeByThemselves(t *testing.T) {
	s, f := managed(t, nil)
	names := func(path, list, field string) (all string) {
		for _, m := range decode(t, s.page(path))[list].([]any) {
			all += m.(map[string]any)[field].(string) + " "
		}
		return all
	}
	if got := names("/v1/models", "data", "id"); got != "go kept " {
		t.Errorf("%q", got)
	}
	f.has = append(f.has[:0:0], entry(t, "came"))
	status, _, _ := s.do("POST", "/v1/completions", `{"model":"came","prompt":"func","max_tokens":1}`)
	if status != 404 {
		t.Errorf("%d: the store was asked twice within %v", status, refreshTime)
	}
	s.looked.Store(&zeroTime)
	s.post("/v1/completions", `{"model":"came","prompt":"func","max_tokens":1}`, 200)
	s.looked.Store(&zeroTime)
	if got := names("/api/tags", "models", "name"); got != "go came " {
		t.Errorf("%q", got)
	}
	f.err = errBusy()
	s.looked.Store(&zeroTime)
	if got := names("/v1/models", "data", "id"); got != "go came " {
		t.Errorf("%q after an error of the store", got)
	}
}

// An endpoint that this server does not have is no fault of the server: that it is refused is logged at info.
func TestRefusedEndpointsAreLoggedAtInfo(t *testing.T) {
	var log bytes.Buffer
	s := newTester(t, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	s.do("POST", "/v1/files", "{}")
	s.web.Close()
	if line := decode(t, log.String()); line["status"] != 501.0 || line["level"] != "INFO" {
		t.Error(line)
	}
}

// What machines ask again and again is logged at the level debug, also when it fails; other requests at info.
func TestProbesAreLoggedAtDebug(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelInfo:  {"/v1/models"},
		slog.LevelDebug: {"/livez", "/readyz", "/metrics", "/v1/models"},
	} {
		var log bytes.Buffer
		s := newTester(t, func(o *Options) {
			o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level}))
		})
		s.Drain()
		var got []string
		for _, path := range []string{"/livez", "/readyz", "/metrics", "/v1/models"} {
			s.do("GET", path, "")
		}
		s.web.Close()
		for line := range strings.Lines(log.String()) {
			if path, ok := decode(t, line)["path"].(string); ok {
				got = append(got, path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("level %v: %q, want %q", level, got, want)
		}
	}
}

// Lists tell the context of a model in memory, and a digest that is another one where a model's files are.
func TestListsTellContextAndDigest(t *testing.T) {
	s, f := managed(t, nil)
	get := func(path, list string, at int) map[string]any {
		t.Helper()
		return decode(t, s.page(path))[list].([]any)[at].(map[string]any)
	}
	if m := get("/v1/models", "data", 0); m["context_length"] != nil {
		t.Errorf("of a model that is not in memory: %v", m)
	}
	s.models.mu.Lock()
	s.models.slots[0].Context = func() int { return 77 }
	s.models.mu.Unlock()
	if m := get("/v1/models", "data", 0); m["context_length"] != 77.0 || m["max_model_len"] != 77.0 {
		t.Errorf("of a model whose file says it: %v", m)
	}
	s.post("/v1/completions", `{"model":"go","prompt":"func","max_tokens":1}`, 200)
	m, release, err := s.models.acquire(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	want := float64(m.Context())
	if m := get("/v1/models", "data", 0); m["context_length"] != want || m["max_model_len"] != want {
		t.Errorf("%v, want %v", m, want)
	}
	before := get("/api/tags", "models", 1)["digest"].(string)
	if again := get("/api/tags", "models", 1)["digest"]; len(before) != 64 || again != before {
		t.Errorf("%q, then %q", before, again)
	}
	f.has[0].Bytes++
	if err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	if after := get("/api/tags", "models", 1)["digest"]; after == before {
		t.Error("other files, the same digest")
	}
}

// Where there is one model, whose any name is, a request for another that has come into the store meanwhile is that
// one's, with its own parameters; one that has come can be copied and deleted too.
func TestModelsThatComeBesideTheOnlyOne(t *testing.T) {
	s, f := managed(t, func(o *Options) {
		o.Models = o.Models[1:]
		o.Models[0].Parameters, o.AllowManage = json.RawMessage(`{"num_predict":3}`), true
	})
	f.has[0] = s.o.Models[0]
	ask := func(name string) (model, tokens any) {
		t.Helper()
		o := decode(t, s.post("/v1/completions", `{"model":"`+name+`","prompt":"func","ignore_eos":true}`, 200))
		return o.get(t, "model"), o.get(t, "usage", "completion_tokens")
	}
	if model, tokens := ask("any"); model != "kept" || tokens != 3.0 {
		t.Errorf("any name is that of %v, %v tokens", model, tokens)
	}
	came := entry(t, "came")
	came.Parameters = json.RawMessage(`{"num_predict":2}`)
	f.has = append(f.has[:0:0], f.has[0], came)
	s.looked.Store(&zeroTime)
	if model, tokens := ask("came"); model != "came" || tokens != 2.0 {
		t.Errorf("answered by %v, %v tokens", model, tokens)
	}
	f.has = append(f.has, entry(t, "later"))
	s.looked.Store(&zeroTime)
	s.post("/api/copy", `{"source":"later","destination":"twin"}`, 200)
	f.has = append(f.has, entry(t, "last"))
	s.looked.Store(&zeroTime)
	if status, text, _ := s.do("DELETE", "/api/delete", `{"model":"last"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
