package serve

import (
	"reflect"
	"strings"
	"testing"
)

// Log-probabilities in Ollama's API are those of OpenAI's, whole and streamed, and absent unless asked for.
func TestOllamaLogprobs(t *testing.T) {
	s := newTester(t, nil)
	const asked = `,"logprobs":true,"top_logprobs":2`
	const chat = `{"messages":[{"role":"user","content":"func"}]`
	want := decode(t, s.post("/v1/chat/completions", chat+`,"max_tokens":8,"temperature":0`+asked+`}`, 200)).get(t,
		"choices", 0, "logprobs", "content")
	for _, stream := range []string{"false", "true"} {
		options := `,"stream":` + stream + `,"options":{"num_predict":8,"temperature":0}`
		body := s.post("/api/chat", chat+options+asked+`}`, 200)
		got := []any{}
		for line := range strings.Lines(body) {
			if list, ok := decode(t, line)["logprobs"].([]any); ok {
				got = append(got, list...)
			}
		}
		if len(got) != 8 || !reflect.DeepEqual(any(got), want) {
			t.Errorf("stream %s: %v, not %v", stream, got, want)
		}
		if body := s.post("/api/chat", chat+options+`}`, 200); strings.Contains(body, "logprobs") {
			t.Errorf("not asked for: %s", body)
		}
		if body := s.post("/api/generate", `{"prompt":"func"`+options+asked+`}`, 200); strings.Count(body,
			`"top_logprobs":[{`) != 8 {
			t.Errorf("/api/generate: %s", body)
		}
	}
}

// With Options.Ollama a server looks like Ollama's: the line at /, which needs no key, names with their tag, by which
// models can be asked for, and the name of the request in the answer. The page is at /index.html.
func TestOllamaHabits(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Models, o.Ollama, o.Page = []Entry{entry(t, "go"), entry(t, "other:8b")}, true, true
		o.Keys = []Key{{Secret: "k"}}
	})
	get := func(path string) string {
		t.Helper()
		status, text, _ := s.do("GET", path, "", "X-Api-Key", "k")
		if status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
		return text
	}
	for _, method := range []string{"GET", "HEAD"} {
		if status, text, h := s.do(method, "/", ""); status != 200 || method == "GET" && text != "Ollama is running" ||
			!strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
			t.Errorf("%s /: %d %q %v", method, status, text, h)
		}
	}
	if text := get("/index.html"); !strings.Contains(text, "<!doctype html>") {
		t.Errorf("the page: %s", text)
	}
	for _, path := range []string{"/api/tags", "/v1/models"} {
		if text := get(path); !strings.Contains(text, `"go:latest"`) || !strings.Contains(text, `"other:8b"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	get("/v1/models/go:latest")
	for _, name := range []string{"go", "go:latest"} {
		_, text, _ := s.do("POST", "/api/generate", `{"model":"`+name+`","prompt":"func","stream":false,`+
			`"options":{"num_predict":1}}`, "X-Api-Key", "k")
		if got := decode(t, text).get(t, "model"); got != name {
			t.Errorf("%s: the answer is of %v", name, got)
		}
	}
	if text := get("/api/ps"); !strings.Contains(text, `"name":"go:latest"`) {
		t.Errorf("/api/ps: %s", text)
	}
	plain := newTester(t, nil)
	if text := plain.page("/api/tags") + plain.page("/"); strings.Contains(text, "latest") ||
		strings.Contains(text, "Ollama is") {
		t.Errorf("without it: %s", text)
	}
}

// A request without messages or a prompt asks for nothing but that the model is loaded.
func TestOllamaLoads(t *testing.T) {
	s := newTester(t, nil)
	for _, path := range []string{"/api/chat", "/api/generate"} {
		if o := decode(t, s.post(path, `{"model":"go"}`, 200)); o["done_reason"] != "load" || o["done"] != true {
			t.Errorf("%s: %v", path, o)
		}
	}
}
