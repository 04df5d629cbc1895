package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// ids are n token ids of a prompt.
func ids(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("5,", n), ",") + "]" }

// A prompt must leave room for a token of the answer: one that fills the context is refused, one that is a token
// shorter is answered until the context is full; nothing reads the last token. A text to embed may fill the context.
func TestPromptThatFillsTheContext(t *testing.T) {
	const context = 24
	s := newTester(t, func(o *Options) { o.Context = context })
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
	s := newTester(t, func(o *Options) {
		load := o.Models[0].Load
		o.Models[0].Load = func(ctx context.Context) (*Model, error) {
			m, err := load(ctx)
			m.Stops = []string{"never this", half}
			return m, err
		}
	})
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

// With ignore_eos no token ends an answer, in conversations and continued texts; without it the vocabulary's ends do,
// and nothing else.
func TestIgnoreEOSEndsNothing(t *testing.T) {
	s := newTester(t, nil)
	s.post("/v1/completions", small, 200)
	m := s.models.resident()[0]
	if len(m.ends) == 0 {
		t.Fatal("a vocabulary without ends")
	}
	for _, body := range []string{`{"messages":[{"role":"user","content":"x"}]@}`, `{"prompt":"x"@}`} {
		for _, ignored := range []bool{false, true} {
			form := formChat
			if strings.Contains(body, "prompt") {
				form = formCompletion
			}
			r, e := s.parse(
				form, s.anyone, []byte(strings.Replace(body, "@", fmt.Sprintf(`,"ignore_eos":%v`, ignored), 1)),
			)
			if e != nil {
				t.Fatal(e)
			}
			p, err := m.plan(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			end := p.isEnd()
			for _, id := range m.ends {
				if end(id) == ignored {
					t.Errorf("%s, ignore_eos %v: token %d ends %v", body, ignored, id, end(id))
				}
			}
			if o := p.decoderOptions(&p.tasks[0]); o.EOG(m.ends[0]) == ignored || end(5) {
				t.Errorf("%s, ignore_eos %v: the decoder ends otherwise, or at any token", body, ignored)
			}
		}
	}
}
