package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/serve"
)

// A server whose folder of models is empty gets one by /api/pull, makes others of it, answers by them as they were
// made, and has none in the end; a client without the right for that changes nothing.
func TestServeManagesModels(t *testing.T) {
	hub, downloads := hubServer(t)
	dir := t.TempDir()
	env := map[string]string{"HF_ENDPOINT": hub, "HF_TOKEN": "token"}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("boss admin\nguest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := startedIn(t, func(k string) string { return env[k] }, "--models-dir", dir, "--api-key-file", keys,
		"--log-format", "off", "-t", "1")
	key := "guest"
	want := func(method, path, body string, status int, says string) {
		t.Helper()
		if got, text := askAs(t, key, method, url+path, body); got != status || !strings.Contains(text, says) {
			t.Errorf("%s %s %s: %d %s; want %d %s", method, path, body, got, text, status, says)
		}
	}
	changes := [][3]string{
		{"POST", "/api/pull", `{"model":"hf.co/go/pair-GGUF"}`}, {"DELETE", "/api/delete", `{"model":"pair-Q8_0"}`},
		{"POST", "/api/copy", `{"source":"pair-Q8_0","destination":"b"}`},
		{"POST", "/api/create", `{"model":"b","from":"pair-Q8_0"}`},
		{"POST", "/api/generate", `{"model":"pair-Q8_0","keep_alive":0}`},
	}
	for _, c := range changes {
		want(c[0], c[1], c[2], 403, "--allow-manage")
	}
	key = "boss"
	want("GET", "/api/tags", "", 200, `"models":[]`)
	want("POST", "/v1/completions", `{"prompt":"func"}`, 404, "model_not_found")
	want("POST", "/api/pull", `{"model":"llama3"}`, 400, "hf.co/OWNER/NAME")
	want("POST", "/api/pull", `{"model":"hf.co/go/none"}`, 404, `{"error":"go/none: not found`)
	want("POST", "/api/pull", `{"model":"hf.co/go/none","stream":false}`, 404, `{"error":"go/none: not found`)
	want("POST", "/api/pull", `{"model":"hf.co/go/pair-GGUF:Q2_K"}`, 404, "go/pair-GGUF: no such file")
	status, text := askAs(t, key, "POST", url+"/api/pull", `{"model":"hf.co/go/pair-GGUF"}`)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if status != 200 || lines[len(lines)-1] != `{"status":"success"}` ||
		!strings.Contains(text, `{"status":"pulling pair-Q8_0.gguf","total":`) {
		t.Fatalf("%d %s", status, text)
	}
	want("POST", "/api/pull", `{"model":"go/pair-GGUF","stream":false}`, 200, `{"status":"success"}`)
	if *downloads != 1 {
		t.Errorf("%d downloads", *downloads)
	}
	ask := func(model string) string {
		t.Helper()
		_, text := askAs(t, key, "POST", url+"/api/generate",
			`{"model":"`+model+`","prompt":"func (x","raw":true,"stream":false,`+
				`"options":{"temperature":0}}`)
		_, text, _ = strings.Cut(text, `"response":`)
		text, _, _ = strings.Cut(text, `"done"`)
		return text
	}
	want("POST", "/api/create", `{"model":"short","from":"pair-Q8_0.gguf","parameters":{"num_predict":3,"stop":["}"]},`+
		`"system":"Be brief.","template":"{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}","stream":false}`,
		200, `{"status":"success"}`)
	want("POST", "/api/copy", `{"source":"short","destination":"shorter:latest"}`, 200, "")
	want("POST", "/api/show", `{"model":"shorter"}`, 200, `"parameters":"num_predict                    3\nstop`)
	for _, name := range []string{"short", "shorter"} {
		_, text := askAs(t, key, "POST", url+"/api/generate",
			`{"model":"`+name+`","prompt":"func (x","raw":true,"stream":false}`)
		if !strings.Contains(text, `"eval_count":3`) {
			t.Errorf("%s: %s", name, text)
		}
		want("POST", "/apply-template", `{"model":"`+name+`","messages":[{"role":"user","content":"x"}]}`, 200,
			`"prompt":"[system] Be brief.[user] x"`)
	}
	want("GET", "/api/ps", "", 200, `"name":"short"`)
	want("POST", "/api/generate", `{"model":"short","keep_alive":0}`, 200, `"done_reason":"unload"`)
	if _, text := askAs(t, key, "GET", url+"/api/ps", ""); strings.Contains(text, `"name":"short"`) {
		t.Errorf("a model that was unloaded: %s", text)
	}
	whole := ask("hf.co/go/pair-GGUF")
	if whole == "" || whole == ask("short") {
		t.Errorf("the same answer with and without parameters: %s", whole)
	}
	// Each lives without the others.
	want("DELETE", "/api/delete", `{"model":"go/pair-GGUF"}`, 200, "")
	want("DELETE", "/api/delete", `{"model":"go/pair-GGUF"}`, 404, "no model")
	want("DELETE", "/api/delete", `{"name":"short"}`, 200, "")
	want("POST", "/api/generate", `{"model":"shorter","prompt":"func (x","raw":true,"stream":false}`, 200,
		`"eval_count":3`)
	want("DELETE", "/api/delete", `{"model":"shorter"}`, 200, "")
	left, err := os.ReadDir(dir)
	if names := func() (list []string) {
		for _, e := range left {
			list = append(list, e.Name())
		}
		return list
	}(); err != nil || !slices.Equal(names, []string{".hub"}) {
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// What the Hub says of a model has the status of its kind.
func TestPullTellsTheKindOfAnError(t *testing.T) {
	for status, want := range map[int]int{401: 403, 403: 403, 404: 404, 418: 502, 0: 502} {
		hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(hub.Close)
		if status == 0 {
			hub.Close() // nobody listens
		}
		p := &program{env: environment("HF_ENDPOINT=" + hub.URL)}
		x := &store{s: &serving{servedModels: servedModels{folder: modeldir.New(t.TempDir())}}, p: p}
		var e *serve.Error
		if _, err := x.Pull(t.Context(), "hf.co/go/pair", nil); !errors.As(err, &e) || e.Status != want ||
			!strings.HasPrefix(e.Message, "go/pair: ") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// Where HF_HUB_OFFLINE forbids downloads, no client of a server has one made, and none is offered.
func TestNothingIsDownloadedOffline(t *testing.T) {
	p := &program{stdin: strings.NewReader(""), stderr: io.Discard,
		env: environment("HF_HUB_OFFLINE=1 HF_ENDPOINT=http://127.0.0.1:1 HF_HUB_CACHE=" + t.TempDir())}
	x := &store{s: &serving{servedModels: servedModels{folder: modeldir.New(t.TempDir())}}, p: p}
	var e *serve.Error
	if _, err := x.Pull(t.Context(), "hf.co/go/pair-GGUF", nil); !errors.As(err, &e) || e.Status != 403 ||
		!strings.Contains(e.Message, "HF_HUB_OFFLINE") {
		t.Errorf("%v", err)
	}
	if _, err := localPath(t.Context(), p, "hf://owner/name"); err == nil ||
		!strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("-hf owner/name: %v", err)
	}
	if err := newConverse().pick(t.Context(), p); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("%v", err)
	}
}
