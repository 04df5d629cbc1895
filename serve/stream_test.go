package serve

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/speculative"
)

// unstable are what differs from run to run, times, ids and what was cached and drafted, and what repeats a request,
// each with what it is replaced by.
var unstable = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`"timings":\{[^}]*\}`), `"timings":{}`},
	{regexp.MustCompile(`"seconds":[0-9.e+-]+`), `"seconds":0`},
	{regexp.MustCompile(`"(created|created_at)":[0-9]+`), `"$1":0`},
	{regexp.MustCompile(`"created_at":"[^"]*"`), `"created_at":""`},
	{regexp.MustCompile(`"truncation":"(auto|disabled)"`), `"truncation":""`},
	{regexp.MustCompile(`(chatcmpl-|cmpl-|resp_|msg_|call_|fc_|rs_)[0-9]+`), `${1}N`},
	{regexp.MustCompile(`"generation_settings":\{[^}]*\}`), `"generation_settings":{}`},
	{regexp.MustCompile(`"(cached_tokens|accepted_prediction_tokens|rejected_prediction_tokens)":[0-9]+`), `"$1":0`},
	{regexp.MustCompile(`"id_slot":-?[0-9]+`), `"id_slot":-1`},
	{regexp.MustCompile(`"(total_duration|prompt_eval_duration|eval_duration)":[0-9]+`), `"$1":0`},
}

// stable replaces what is unstable.
func stable(text string) string {
	for _, r := range unstable {
		text = r.from.ReplaceAllString(text, r.to)
	}
	return text
}

// The bytes of streams, with times and ids replaced.
func TestStreamBytes(t *testing.T) {
	s := newTester(t, nil)
	const head = `{"id":"chatcmpl-N","object":"chat.completion.chunk","created":0,"model":"go",` +
		`"system_fingerprint":"b2-spec","choices":[`
	const cut = `{"id":"cmpl-N","object":"text_completion","created":0,"model":"go","system_fingerprint":"b2-spec",` +
		`"choices":[`
	for name, c := range map[string]struct{ path, body, want string }{
		"chat": {"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"func (r *Ring) Push("}],"max_tokens":3,"stream":true,` +
				`"stream_options":{"include_usage":true}}`,
			"data: " + head +
				`{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}],` +
				`"usage":null}` + "\n\n" +
				"data: " + head +
				`{"index":0,"delta":{"content":"\n//"},"logprobs":null,"finish_reason":null}],"usage":null}` +
				"\n\n" +
				"data: " + head +
				`{"index":0,"delta":{"content":" A"},"logprobs":null,"finish_reason":null}],"usage":null}` +
				"\n\n" +
				"data: " + head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}` +
				"\n\n" +
				"data: " + head +
				`],"usage":{"prompt_tokens":39,"completion_tokens":3,"total_tokens":42,` +
				`"prompt_tokens_details":{"cached_tokens":0},` +
				`"completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":0,` +
				`"rejected_prediction_tokens":0}},"timings":{}}` + "\n\n" +
				"data: [DONE]\n\n"},
		"completion": {"/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":3,"stream":true}`,
			"data: " + cut + `{"text":"c","index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n" +
				"data: " + cut + `{"text":" *","index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n" +
				"data: " + cut + `{"text":"uint","index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n" +
				"data: " + cut + `{"text":"","index":0,"logprobs":null,"finish_reason":"length"}],"timings":{}}` +
				"\n\n" +
				"data: [DONE]\n\n"},
		"completion with usage": {"/v1/completions",
			`{"prompt":"func (r *Ring) Push(","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`,
			"data: " + cut + `{"text":"c","index":0,"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n" +
				"data: " + cut + `{"text":"","index":0,"logprobs":null,"finish_reason":"length"}],"usage":null}` +
				"\n\n" +
				"data: " + cut +
				`],"usage":{"prompt_tokens":11,"completion_tokens":1,"total_tokens":12,` +
				`"prompt_tokens_details":{"cached_tokens":0},` +
				`"completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":0,` +
				`"rejected_prediction_tokens":0}},"timings":{}}` + "\n\n" +
				"data: [DONE]\n\n"},
	} {
		status, text, h := s.do("POST", c.path, c.body)
		if got := stable(text); got != c.want || status != 200 ||
			h.Get("Content-Type") != "text/event-stream; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", name, status, h, got, c.want)
		}
	}
}

// Every stream of a field's table tells who wrote its tokens, or refuses to by the name of the field.
func TestTraceIsToldOrRefused(t *testing.T) {
	s := newTester(t, nil)
	withInfill(t, s)
	for i, name := range formNames {
		form := forms(1) << i
		if form&(formText|formResponses|formMessages|formOllama) == 0 {
			continue
		}
		ask := bodyWith(form, "speculation", `{"trace":true}`)
		if got := s.post(name, ask, 400); !strings.Contains(got, "speculation.trace: ") {
			t.Errorf("%s, without a stream: %s", name, got)
		}
		ask = strings.Replace(ask, `"stream":false`, `"stream":true`, 1)
		if !strings.Contains(ask, `"stream":true`) {
			ask = strings.TrimSuffix(ask, "}") + `,"stream":true}`
		}
		if form&(formResponses|formMessages) != 0 {
			if got := s.post(name, ask, 400); !strings.Contains(got, "speculation.trace: ") {
				t.Errorf("%s: %s", name, got)
			}
		} else if got := s.post(name, ask, 200); !strings.Contains(got, `"speculation":{"tokens":[`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A chunk says who wrote its tokens, and the tokens are the text.
func TestTrace(t *testing.T) {
	s := newTester(t, nil)
	for drafter, want := range map[string]speculative.Source{
		"model": speculative.SourceDraft, "suffix": speculative.SourceLookup, "ngram": speculative.SourceLookup,
		"none": speculative.SourceTarget, "tree": speculative.SourceDraft,
	} {
		body := `{"prompt":"for i := 0; i < n; i++ {\n\tfor i := 0; i < n; i++ {\n\tfor i := 0;","max_tokens":40,` +
			`"temperature":0,"stream":true,"timings_per_token":true,` +
			`"speculation":{"trace":true,"drafter":"` + drafter + `","schedule":"constant","max":4}}`
		seen := map[string]int{}
		text, traced, drafted, accepted, last := "", "", 0.0, 0.0, object(nil)
		list := events(t, s.post("/v1/completions", body, 200))
		for _, e := range list[:len(list)-1] {
			o := decode(t, e)
			last = o
			text += o.get(t, "choices", 0, "text").(string)
			if o["speculation"] == nil {
				continue
			}
			if o.get(t, "timings", "predicted_n").(float64) < 1 {
				t.Error("no timings with a token")
			}
			if took := o.get(t, "timings", "predicted_ms").(float64); took < 0 { // also with the last one
				t.Errorf("%s: a token after %v ms", drafter, took)
			}
			for _, tok := range o.get(t, "speculation", "tokens").([]any) {
				seen[tok.(map[string]any)["source"].(string)]++
				traced += tok.(map[string]any)["text"].(string)
			}
			for _, r := range o.get(t, "speculation", "rounds").([]any) {
				drafted += r.(map[string]any)["n_draft"].(float64)
				accepted += r.(map[string]any)["n_accept"].(float64)
			}
		}
		if text != traced {
			t.Errorf("%s: the tokens are %q, the text %q", drafter, traced, text)
		}
		if seen[string(want)] == 0 || drafter == "none" && len(seen) > 1 {
			t.Errorf("%s: sources %v", drafter, seen)
		}
		if n := last.get(t, "timings", "draft_n"); n != drafted {
			t.Errorf("%s: rounds drafted %v tokens, timings say %v", drafter, drafted, n)
		}
		if n := last.get(t, "timings", "draft_n_accepted"); n.(float64) > accepted {
			t.Errorf("%s: rounds accepted %v tokens, timings say %v", drafter, accepted, n)
		}
	}
}

// A client that does not read ends its own request, and nothing else: the decoder does not wait for it.
func TestSlowReader(t *testing.T) {
	s := newTester(t, func(o *Options) { o.StreamBuffer = 4; o.Parallel = 1 })
	s.post("/v1/completions", `{"prompt":"func","max_tokens":1}`, 200)
	m := s.models.resident()[0]
	r := s.newRequest()
	r.prompts, r.maxTokens = []spec.Prompt{{Text: "func"}}, 200
	j, err := s.prepare(t.Context(), endpoints[1], r, true, &record{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	for _, err = range j.events(t.Context()) { // the decoder fills the buffer meanwhile, and must not wait
		s.wait(func() bool { return m.Stats().Target.Sessions == 0 })
	}
	if err != spec.ErrSlowReader {
		t.Errorf("error %v", err)
	}
	j.close()
	s.post("/v1/completions", `{"prompt":"func","max_tokens":3}`, 200)
}

// n answers have the seeds that follow each other, in the stream and whole.
func TestChoices(t *testing.T) {
	s := newTester(t, nil)
	const body = `{"prompt":"func ","max_tokens":12,"temperature":1,"seed":@SEED,"n":@N@MORE}`
	ask := func(seed, n, more string) string {
		return s.post("/v1/completions", strings.NewReplacer("@SEED", seed, "@N", n, "@MORE", more).Replace(body), 200)
	}
	o := decode(t, ask("7", "6", ""))
	texts := map[any]bool{}
	for i := range 6 {
		c := o.get(t, "choices", i).(map[string]any)
		one := decode(t, ask(strconv.Itoa(7+i), "1", ""))
		if want := one.get(t, "choices", 0, "text"); c["text"] != want || c["index"] != float64(i) {
			t.Errorf("answer %d is %q, with its own seed %q", i, c["text"], want)
		}
		texts[c["text"]] = true
	}
	if len(texts) < 3 {
		t.Errorf("the answers are alike: %v", texts)
	}
	streamed := make([]string, 6)
	list := events(t, ask("7", "6", `,"stream":true`))
	for _, e := range list[:len(list)-1] {
		c := decode(t, e).get(t, "choices", 0).(map[string]any)
		streamed[int(c["index"].(float64))] += c["text"].(string)
	}
	for i, text := range streamed {
		if text != o.get(t, "choices", i, "text") {
			t.Errorf("answer %d streamed is %q", i, text)
		}
	}
	// Several prompts: the answers of each in a row.
	o = decode(
		t,
		s.post("/v1/completions", `{"prompt":["func (r *Ring) Push(",[1,2,3]],"max_tokens":3,"n":2,"echo":true}`, 200),
	)
	if len(o["choices"].([]any)) != 4 || o.get(t, "choices", 1, "text") != "func (r *Ring) Push(c *uint" {
		t.Errorf("%v", o["choices"])
	}
	if n := o.get(t, "usage", "completion_tokens"); n != 12.0 {
		t.Errorf("usage %v", o["usage"])
	}
}

// A stream tells how far its prompt is: what was there already, then more, to the end; a stream that does not ask, and
// a whole answer, tell nothing.
func TestPromptProgress(t *testing.T) {
	s := newTester(t, nil)
	prompt := string(encode(strings.Repeat("func (r *Ring) Push(x int) {\n", 40)))
	for i, body := range []string{`"n_predict":2`, `"n_predict":2,"seed":1`} {
		text := s.post("/completion", `{"prompt":`+prompt+`,"stream":true,"return_progress":true,`+body+`}`, 200)
		var list []progress
		for line := range strings.Lines(text) {
			var x nativeAnswer
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &x) == nil && x.Progress != nil {
				list = append(list, *x.Progress)
				if x.Tokens == nil { // clients go through them
					t.Errorf("no list of tokens: %s", line)
				}
			}
		}
		if len(list) < 2 {
			t.Fatalf("%d: %s", i, text)
		}
		for j, p := range list {
			if p.Total != list[0].Total || p.Cached != list[0].Processed || j > 0 && p.Processed <= list[j-1].Processed {
				t.Errorf("%d: %+v", i, list)
			}
		}
		if last := list[len(list)-1]; last.Processed != last.Total || (last.Cached > 0) != (i > 0) {
			t.Errorf("%d: %+v", i, list)
		}
	}
	for _, more := range []string{`"return_progress":true`, `"stream":true`} {
		if text := s.post("/completion", `{"prompt":"x","n_predict":1,`+more+`}`, 200); strings.Contains(text, "prompt_progress") {
			t.Error(text)
		}
	}
	text := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"stream":true,"return_progress":true}`, 200)
	if !strings.Contains(text, `"prompt_progress":{"total":`) {
		t.Error(text)
	}
}
