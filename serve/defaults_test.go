package serve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
)

// A constraint of the server is that of requests which have none, offer no tools and do not say that there is none.
func TestDefaultConstraint(t *testing.T) {
	const only = `root ::= "zq"`
	s := newTester(t, func(o *Options) {
		o.Constraint = spec.Constraint{Kind: spec.GBNF, Source: []byte(only), Field: "--grammar"}
	})
	const message = `"messages":[{"role":"user","content":"x"}]`
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	for _, x := range []struct {
		path, body, want string // "": another text than that of the server's grammar
	}{
		{"/completion", `{"prompt":"x","n_predict":4}`, "zq"},
		{"/v1/chat/completions", `{` + message + `,"max_tokens":4}`, "zq"},
		{"/v1/responses", `{"input":"x","max_output_tokens":4}`, "zq"},
		{"/v1/messages", `{` + message + `,"max_tokens":4}`, "zq"},
		{"/api/generate", `{"prompt":"x","stream":false,"options":{"num_predict":4}}`, "zq"},
		{"/completion", `{"prompt":"x","n_predict":4,"grammar":"root ::= \"own\""}`, "own"},
		{"/completion", `{"prompt":"x","n_predict":4,"json_schema":{"const":7}}`, `"content":"7"`},
		{"/completion", `{"prompt":"x","n_predict":4,"grammar":""}`, ""},
		{"/v1/chat/completions", `{` + message + `,"max_tokens":4,"response_format":{"type":"text"}}`, ""},
		{"/v1/chat/completions", `{` + message + tools + `,"max_tokens":4}`, ""},
		{"/v1/chat/completions", `{` + message + tools + `,"max_tokens":4,"tool_choice":"none"}`, "zq"},
	} {
		text := s.post(x.path, x.body, 200)
		if ok := strings.Contains(text, "zq"); ok != (x.want == "zq") || !strings.Contains(text, x.want) {
			t.Errorf("%s %s: %s, want %q", x.path, x.body, text, x.want)
		}
	}
	broken := spec.Constraint{Kind: spec.GBNF, Source: []byte("root ::= ("), Field: "--grammar"}
	_, err := New(Options{Models: s.o.Models, Constraint: broken})
	if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "--grammar") {
		t.Errorf("a grammar that is none: %v", err)
	}
}

// Biases and bans, end-of-text tokens that are never chosen, and the norm of vectors are the server's where a request
// does not say.
func TestDefaultsOfAnswers(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Sampling.LogitBias, o.Sampling.Banned = map[int32]float32{5: 1}, []int32{7}
		o.IgnoreEOS, o.Norm = true, spec.NormL1
	})
	for body, want := range map[string]string{
		``:                                     "map[5:1] [7] true",
		`,"logit_bias":{"9":2}`:                "map[9:2] [] true",
		`,"logit_bias":[]`:                     "map[] [] true",
		`,"logit_bias":[[3,false]]`:            "map[] [3] true",
		`,"ignore_eos":false`:                  "map[5:1] [7] false",
		`,"ignore_eos":false,"logit_bias":{}`:  "map[] [] false",
		`,"logit_bias":[[3,1]],"min_tokens":0`: "map[3:1] [] true",
	} {
		r, err := s.parse(t.Context(), formNative, s.anyone, []byte(`{"prompt":"x"`+body+`}`), true)
		if err != nil {
			t.Fatal(err)
		}
		m, release, err := s.models.acquire(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		q, e := s.translate(m, r)
		release()
		if e != nil {
			t.Fatal(e)
		}
		if got := fmt.Sprint(q.Sampling.LogitBias, " ", q.Sampling.Banned, " ", q.IgnoreEOS); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	length := func(path, body string, power float64, at ...any) float64 {
		sum := 0.0
		for _, x := range decode(t, s.post(path, body, 200)).get(t, at...).([]any) {
			sum += math.Pow(math.Abs(x.(float64)), power)
		}
		return sum
	}
	for _, x := range []float64{
		length("/v1/embeddings", `{"input":"x"}`, 1, "data", 0, "embedding"),
		length("/api/embed", `{"input":"x"}`, 1, "embeddings", 0),
		length("/v1/embeddings", `{"input":"x","embd_normalize":2}`, 2, "data", 0, "embedding"),
	} {
		if math.Abs(x-1) > 1e-4 {
			t.Errorf("a vector's length is %v", x)
		}
	}
	if slices.Contains(s.o.Sampling.Banned, 3) {
		t.Error("a request's ban is the server's")
	}
}
