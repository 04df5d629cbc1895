package serve

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
)

// letters offers an encoder-decoder model of letters, with a context of 20 tokens. limit: of its prompts.
func letters(t testing.TB, template string, limit int) Entry {
	t.Helper()
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	file := randommodel.LettersT5().File(t)
	m, err := engine.New(context.Background(), p.target.Runtime(), bytes.NewReader(file), int64(len(file)),
		engine.Options{Name: "letters"})
	if err != nil {
		t.Fatal(err)
	}
	return entryOf("letters", spec.Parts{Target: m, Close: m.Close}, func(o *spec.Options) {
		o.Context, o.Template, o.Speculation.Drafter = 20, template, "suffix"
		o.Limits.Input = limit
	})
}

// Every way to ask for a completion gives an encoder-decoder model's encoder the prompt, counts its tokens as the
// prompt's, and answers with the text that the model writes alone: several answers, several prompts, streams, and
// requests side by side. The answer ends where it fills the context.
func TestEncoderDecoder(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Models, o.Parallel = []Entry{letters(t, "", 40)}, 4 })
	const more = `"temperature":0.9,"seed":3,"ignore_eos":true`
	ask := func(prompt string) object {
		return decode(t, s.post("/v1/completions", `{"prompt":"`+prompt+`","max_tokens":8,`+more+`}`, 200))
	}
	text := func(o object, i int) string { return o.get(t, "choices", i, "text").(string) }
	one, two := ask("a word"), ask("some other words")
	if text(one, 0) == text(two, 0) || one.get(t, "usage", "prompt_tokens") != 6.0 ||
		one.get(t, "usage", "completion_tokens") != 8.0 || two.get(t, "usage", "prompt_tokens") != 15.0 {
		t.Fatalf("%v\n%v", one, two)
	}
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			prompt, want := "a word", one
			if i%2 > 0 {
				prompt, want = "some other words", two
			}
			if got := text(ask(prompt), 0); got != text(want, 0) {
				t.Errorf("beside others %q, expected %q", got, text(want, 0))
			}
		})
	}
	wait.Wait()
	o := decode(t, s.post("/v1/completions", `{"prompt":["a word","some other words"],"n":2,"max_tokens":8,`+more+`}`,
		200))
	for i, want := range []object{one, nil, two, nil} { // the others have another seed
		if want != nil && text(o, i) != text(want, 0) {
			t.Errorf("answer %d: %q, expected %q", i, text(o, i), text(want, 0))
		}
	}
	if n := o.get(t, "usage", "prompt_tokens"); n != 21.0 {
		t.Errorf("%v prompt tokens, expected 6 and 15", n)
	}
	streamed := ""
	for _, e := range events(t,
		s.post("/v1/completions", `{"prompt":"a word","stream":true,"max_tokens":8,`+more+`}`, 200)) {
		if e != "[DONE]" {
			streamed += text(decode(t, e), 0)
		}
	}
	if streamed != text(one, 0) {
		t.Errorf("a stream of %q, expected %q", streamed, text(one, 0))
	}
	o = decode(t, s.post("/completion", `{"prompt":"a word","n_predict":8,`+more+`}`, 200))
	if o.get(t, "content") != text(one, 0) || o.get(t, "tokens_evaluated") != 6.0 || o.get(t, "prompt") != " a word</s>" &&
		o.get(t, "prompt") != "a word</s>" {
		t.Errorf("/completion: %v", o)
	}
	for _, raw := range []string{"true", "false"} {
		o = decode(t, s.post("/api/generate", `{"prompt":"a word","stream":false,"raw":`+raw+`,"options":{"num_predict":8,`+
			`"temperature":0.9,"seed":3}}`, 200))
		if got := o.get(t, "response").(string); got == "" || !strings.HasPrefix(text(one, 0), got) ||
			o.get(t, "prompt_eval_count") != 6.0 { // it may end it
			t.Errorf("/api/generate, raw %s: %v", raw, o)
		}
	}
	o = decode(t, s.post("/v1/completions", `{"prompt":"a word",`+more+`}`, 200))
	if o.get(t, "choices", 0, "finish_reason") != "length" || o.get(t, "usage", "completion_tokens") != 20.0 {
		t.Errorf("a full context: %v", o)
	}
	long := s.post("/v1/completions", `{"prompt":"`+strings.Repeat("a", 41)+`"}`, 400)
	if !strings.Contains(long, "context_length_exceeded") || !strings.Contains(long, "40 at most") {
		t.Error(long)
	}
	echo := decode(t, s.post("/v1/completions", `{"prompt":"a word","echo":true,"max_tokens":8,`+more+`}`, 200))
	if text(echo, 0) != "a word"+text(one, 0) {
		t.Errorf("an echo: %q", text(echo, 0))
	}
	if got := s.post("/v1/completions", `{"prompt":"a word","echo":true,"logprobs":1,"max_tokens":8}`, 400); !strings.Contains(
		got, "encoder") {
		t.Error(got)
	}
}

// What such a model cannot is refused by its name, and not told to be there.
func TestEncoderDecoderHasNoVectors(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Models = []Entry{letters(t, "", 0)} })
	for path, field := range map[string]string{"/v1/embeddings": "input", "/api/embed": "input", "/embedding": "content",
		"/embed": "inputs"} {
		if got := s.post(path, `{"`+field+`":"a word"}`, 400); !strings.Contains(got, "encoder-decoder model") {
			t.Errorf("%s: %s", path, got)
		}
	}
	o := decode(t, s.post("/api/show", `{"model":"letters"}`, 200))
	if got := fmt.Sprint(o["capabilities"]); got != "[completion]" {
		t.Errorf("capabilities %s", got)
	}
}

// Conversations need a template, and the refusal says what does not.
func TestEncoderDecoderChat(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"a word"}],"max_tokens":8,"temperature":0}`
	s := newTester(t, func(o *Options) { o.Models = []Entry{letters(t, "", 0)} })
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		if _, got, _ := s.do("POST", path, body); !strings.Contains(got, "encoder-decoder model without a chat template") {
			t.Errorf("%s: %s", path, got)
		}
	}
	want := decode(t, s.post("/v1/completions", `{"prompt":"a word","max_tokens":8,"temperature":0}`, 200))
	s = newTester(t, func(o *Options) { o.Models = []Entry{letters(t, "{{ messages[-1].content }}", 0)} })
	got := decode(t, s.post("/v1/chat/completions", body, 200))
	if text := got.get(t, "choices", 0, "message", "content"); text != want.get(t, "choices", 0, "text") ||
		got.get(t, "usage", "prompt_tokens") != 6.0 {
		t.Errorf("%v, expected %v", got, want)
	}
}

// A caller that leaves while its text is encoded ends that work, and the others go on.
func TestEncoderDecoderThatNobodyWaitsFor(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Models = []Entry{letters(t, "", 0)} })
	ctx, leave := context.WithCancel(t.Context())
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":8}`, strings.Repeat("a word ", 20_000)) // 100,001 tokens: minutes
	done := make(chan int, 1)
	go func() {
		status, _ := s.Do(ctx, "/v1/completions", []byte(body))
		done <- status
	}()
	m, release, err := s.models.acquire(t.Context(), "letters")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for m.Stats().Target.Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	<-done
	s.post("/v1/completions", `{"prompt":"a word","max_tokens":8}`, 200)
}
