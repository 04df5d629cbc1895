package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec"
)

// A prompt that is too long is cut where the server's options or a field of the request say so, and the answer says
// that it was.
func TestWhenFull(t *testing.T) {
	small := with(t, func(o *spec.Options) { o.Context = 24 })
	for _, c := range []struct {
		server spec.Full
		field  string
		status int
	}{
		{"", "", 400}, {"drop", "", 200}, {"", `,"when_full":"drop"`, 200}, {"drop", `,"when_full":"stop"`, 400},
		{"drop", `,"n_keep":-1`, 400},
	} {
		s := newTester(t, func(o *Options) { small(o); o.WhenFull = c.server })
		text := s.post("/completion", fmt.Sprintf(`{"prompt":%s,"n_predict":3,"ignore_eos":true%s}`, ids(30), c.field),
			c.status)
		if o := decode(t, text); c.status == 200 && (o["truncated"] != true || o["tokens_evaluated"] != 12.0) {
			t.Errorf("%+v: %s", c, text)
		}
	}
	for path, body := range map[string]string{
		"/api/generate": `"raw":true,"stream":false,"truncate":true,"options":{"num_predict":2}`,
		"/completion":   `"when_full":"drop","n_predict":2`,
	} {
		text := newTester(t, small).post(path, `{"prompt":"`+strings.Repeat("x y ", 30)+`",`+body+`}`, 200)
		if decode(t, text).get(t, "timings", "truncated") != true {
			t.Errorf("%s: %s", path, text)
		}
	}
	s := newTester(t, with(t, func(o *spec.Options) { o.Context = 80 }))
	long := strings.Repeat(`{"role":"user","content":"x"},{"role":"assistant","content":"y"},`, 9)
	for field, cut := range map[string]bool{"": false, long: true} {
		for _, stream := range []string{"false", "true"} {
			text := s.post("/v1/chat/completions", `{"messages":[`+field+`{"role":"user","content":"z"}],"max_tokens":2,`+
				`"when_full":"drop","stream":`+stream+`}`, 200)
			if strings.Contains(text, `"truncated":true`) != cut {
				t.Errorf("a prompt was cut: %v; stream %s: %s", cut, stream, text)
			}
		}
	}
	for field, status := range map[string]int{"": 400, `,"truncation":"disabled"`: 400, `,"truncation":"auto"`: 200} {
		s.post("/v1/responses", `{"input":[`+long+`{"role":"user","content":"z"}],"max_output_tokens":2`+field+`}`, status)
	}
}

// ids are n token ids of a prompt.
func ids(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("5,", n), ",") + "]" }

// A prompt must leave room for a token of the answer: one that fills the context is refused, one that is a token
// shorter is answered until the context is full; nothing reads the last token. A text to embed may fill the context.
func TestPromptThatFillsTheContext(t *testing.T) {
	const context = 24
	s := newTester(t, with(t, func(o *spec.Options) { o.Context = context }))
	for _, n := range []int{context - 2, context - 1} {
		o := decode(t, s.post("/v1/completions", fmt.Sprintf(`{"prompt":%s,"ignore_eos":true}`, ids(n)), 200))
		if got := o.get(
			t, "usage", "completion_tokens",
		); got != float64(context-n+1) || o.get(t, "choices", 0, "finish_reason") != "length" {
			t.Errorf("%d tokens: an answer of %v", n, got)
		}
	}
	for _, n := range []int{context, context + 1} {
		o := decode(t, s.post("/v1/completions", fmt.Sprintf(`{"prompt":%s}`, ids(n)), 400))
		if o.get(t, "error", "code") != "context_length_exceeded" || o.get(
			t, "error", "n_prompt_tokens",
		) != float64(n) || o.get(t, "error", "n_ctx") != float64(context) {
			t.Error(o)
		}
	}
	s.post("/v1/embeddings", fmt.Sprintf(`{"input":%s}`, ids(context)), 200)
	if o := decode(
		t, s.post("/v1/embeddings", fmt.Sprintf(`{"input":%s}`, ids(context+1)), 400),
	); o.get(t, "error", "code") != "context_length_exceeded" {
		t.Error(o)
	}
}

// The stop texts of a model's template end the answers of conversations, beside the request's own, and of nothing
// else.
func TestStopsOfTheTemplate(t *testing.T) {
	plain := decode(
		t,
		newTester(t, nil).post(
			"/v1/chat/completions", `{"messages":[{"role":"user","content":"func main"}],"max_tokens":30}`, 200,
		),
	).
		get(t, "choices", 0, "message", "content").(string)
	half, third := plain[len(plain)/2:len(plain)/2+3], plain[len(plain)/3:len(plain)/3+3]
	s := newTester(t, with(t, func(o *spec.Options) { o.Stops = []string{"never this", half} }))
	ask := func(more string) string {
		return decode(
			t,
			s.post(
				"/v1/chat/completions", `{"messages":[{"role":"user","content":"func main"}],"max_tokens":30`+more+`}`,
				200,
			),
		).
			get(t, "choices", 0, "message", "content").(string)
	}
	if got, want := ask(""), plain[:strings.Index(plain, half)]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	first := min(strings.Index(plain, half), strings.Index(plain, third))
	if got := ask(string(`,"stop":` + string(encode(third)))); got != plain[:first] {
		t.Errorf("with a stop text of its own %q, want %q", got, plain[:first])
	}
	prompt := decode(
		t, s.post("/apply-template", `{"messages":[{"role":"user","content":"func main"}]}`, 200),
	).get(t, "prompt").(string)
	o := decode(t, s.post("/v1/completions", string(encode(map[string]any{"prompt": prompt, "max_tokens": 30})), 200))
	if got := o.get(t, "choices", 0, "text").(string); !strings.Contains(got, half) {
		t.Errorf("a continued text ends at the template's stop text: %q", got)
	}
}

// The field clock is the time that the template reads, in every form that has it; without it that is the model's.
func TestClockIsTheRequests(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template = "{{ strftime_now('%Y-%m-%d') }}{% for m in messages %}{{ m.content }}{% endfor %}"
		o.Clock = func() time.Time { return time.Date(2001, 1, 2, 0, 0, 0, 0, time.UTC) }
	}))
	for clock, want := range map[string]string{``: "2001-01-02x", `,"clock":"1999-12-31T23:59:59-05:00"`: "1999-12-31x"} {
		body := `{"messages":[{"role":"user","content":"x"}]` + clock + `}`
		if got := decode(t, s.post("/apply-template", body, 200)).get(t, "prompt"); got != want {
			t.Errorf("%s: %q, want %q", clock, got, want)
		}
	}
	count := func(clock string) any {
		return decode(t, s.post("/v1/responses", `{"input":"x","temperature":0,"max_output_tokens":1`+clock+`}`, 200)).get(
			t, "usage", "input_tokens")
	}
	s = newTester(t, with(t, func(o *spec.Options) {
		o.Template = "{% if strftime_now('%Y') == '1999' %}another{% endif %}{{ messages[0].content }}"
	}))
	if a, b := count(``), count(`,"clock":"1999-12-31T00:00:00Z"`); a == b {
		t.Errorf("/v1/responses: the prompt has %v tokens with either clock", a)
	}
}

// A seed of 0 that the server's options give is one, and a request that asks for another each time gets that.
func TestSeedOfZero(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Seeded = true })
	for body, drawn := range map[string]bool{
		`{"prompt":"x"}`: false, `{"prompt":"x","seed":0}`: false, `{"prompt":"x","seed":-1}`: true,
	} {
		r, err := s.parse(t.Context(), formCompletion, s.anyone, []byte(body), false)
		if err != nil {
			t.Fatal(err)
		}
		if seed := r.settled(nil).Seed; (seed != 0) != drawn {
			t.Errorf("%s: seed %d", body, seed)
		}
	}
	if props := decode(t, s.page("/props")); props.get(t, "default_generation_settings", "params", "seed") != 0.0 {
		t.Error(props)
	}
}
