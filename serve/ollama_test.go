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
