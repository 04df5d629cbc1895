package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The text of stop that ends an answer is a part of it where that is asked for, whole and streamed.
func TestStopIsShown(t *testing.T) {
	s := newTester(t, nil)
	answer := func(path, more string) string {
		body := `{"prompt":"func main","messages":[{"role":"user","content":"func main"}],"max_tokens":40,"temperature":0`
		field := map[string]string{"/v1/completions": "messages", "/v1/chat/completions": "prompt"}[path]
		o := decode(t, body+"}")
		delete(o, field)
		text := s.post(path, strings.TrimSuffix(string(encode(o)), "}")+more+"}", 200)
		var all string
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimPrefix(line, "data: "); !strings.HasPrefix(line, "{") {
				continue
			}
			c := decode(t, line).get(t, "choices", 0).(map[string]any)
			for _, key := range []string{"message", "delta"} {
				if m, ok := c[key].(map[string]any); ok {
					c["text"] = m["content"]
				}
			}
			part, _ := c["text"].(string)
			all += part
		}
		return all
	}
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		whole := answer(path, "")
		stop := whole[len(whole)/2:][:3]
		at := strings.Index(whole, stop)
		for _, stream := range []string{"", `,"stream":true`} {
			more := fmt.Sprintf(`,"stop":["never",%q]%s`, stop, stream)
			if got := answer(path, more); got != whole[:at] {
				t.Errorf("%s: %q, expected %q", path, got, whole[:at])
			}
			if got := answer(path, more+`,"include_stop_str_in_output":true`); got != whole[:at+3] {
				t.Errorf("%s: %q, expected %q", path, got, whole[:at+3])
			}
		}
	}
}

// A prompt is cut to its last tokens, behind the one that begins texts, and is the same as one that was that short.
func TestPromptIsTruncated(t *testing.T) {
	s := newTester(t, smaller(t))
	long := strings.Repeat("func (r *Ring) Push(n int) { r.n = n }\n", 90)
	ids := func(text string) (list []int32) {
		var o struct{ Tokens []int32 }
		if err := json.Unmarshal([]byte(s.post("/tokenize", `{"add_special":true,"content":`+string(encode(text))+`}`, 200)),
			&o); err != nil {
			t.Fatal(err)
		}
		return o.Tokens
	}
	all := ids(long)
	front := all[:1]
	if slices.Equal(ids("x")[1:], ids("y")[:1]) || ids("x")[0] != ids("y")[0] {
		t.Fatal("the vocabulary begins no texts with a token of its own")
	}
	ask := func(prompt any, more string, status int) object {
		return decode(t, s.post("/v1/completions", `{"prompt":`+string(encode(prompt))+`,"max_tokens":12,"temperature":0`+
			more+`}`, status))
	}
	want := ask(slices.Concat(front, all[len(all)-29:]), "", 200)
	got := ask(long, `,"truncate_prompt_tokens":30`, 200)
	if got.get(t, "usage", "prompt_tokens") != 30.0 ||
		got.get(t, "choices", 0, "text") != want.get(t, "choices", 0, "text") {
		t.Errorf("%v, expected %v", got, want)
	}
	ask(long, "", 400)
	if got := ask(long, `,"truncate_prompt_tokens":-1`, 200); got.get(t, "usage", "prompt_tokens") != 1024.0-12 {
		t.Errorf("%v", got["usage"])
	}
	talk := `{"messages":[{"role":"user","content":` + string(encode(long)) +
		`}],"max_tokens":1,"truncate_prompt_tokens":20}`
	if o := decode(t, s.post("/v1/chat/completions", talk, 200)); o.get(t, "usage", "prompt_tokens") != 20.0 {
		t.Errorf("%v", o["usage"])
	}
}

// The probabilities of a prompt's tokens in vLLM's form are those of echo with logprobs; ranks count the tokens that
// are at least as likely. They change nothing else.
func TestPromptLogprobs(t *testing.T) {
	s := newTester(t, nil)
	const prompt = "func (r *Ring) Push(n int)"
	_, _, want, _ := echoed(t, s, `{"prompt":"`+prompt+`","echo":true,"logprobs":20,"max_tokens":0}`)
	type ranked struct {
		P    float64 `json:"logprob"`
		Rank int     `json:"rank"`
		Text string  `json:"decoded_token"`
	}
	var o struct {
		Choices []struct {
			Text   string
			Prompt []map[string]ranked `json:"prompt_logprobs"`
		}
	}
	for _, n := range []int{0, 1, 20} {
		text := s.post("/v1/completions",
			fmt.Sprintf(`{"prompt":"%s","n":2,"max_tokens":3,"temperature":0,"prompt_logprobs":%d}`,
				prompt, n), 200)
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		for _, c := range o.Choices {
			if len(c.Prompt) != len(want.Tokens) || c.Prompt[0] != nil || strings.Contains(text, "token_logprobs") {
				t.Fatalf("%d tokens of %d: %s", len(c.Prompt), len(want.Tokens), text)
			}
			for i, m := range c.Prompt[1:] {
				at, found := i+1, false
				for _, x := range m {
					found = found || x.Text == want.Tokens[at] && x.P == *want.Each[at]
					higher := 0
					for _, p := range want.Top[at] {
						if p >= x.P {
							higher++
						}
					}
					if x.Rank <= 20 && x.Rank != higher || x.Rank > 20 && higher < 20 {
						t.Errorf("token %d: %+v, and %d of the 20 most likely are so", at, x, higher)
					}
				}
				if !found || len(m) < max(n, 1) || len(m) > n+1 {
					t.Errorf("token %d, %d alternatives: %+v, expected %q %v", at, n, m, want.Tokens[at], *want.Each[at])
				}
			}
		}
	}
	talk := `{"messages":[{"role":"user","content":"x"}],"max_tokens":2,"prompt_logprobs":2`
	chat := decode(t, s.post("/v1/chat/completions", talk+`}`, 200))
	if n := len(chat["prompt_logprobs"].([]any)); float64(n) != chat.get(t, "usage", "prompt_tokens") ||
		chat.get(t, "choices", 0).(map[string]any)["logprobs"] != nil {
		t.Errorf("%v", chat)
	}
	if text := s.post("/v1/chat/completions", talk+`,"stream":true}`, 400); !strings.Contains(text, "prompt_logprobs") {
		t.Error(text)
	}
	one := decode(t, s.post("/v1/chat/completions", talk+`,"logprobs":true,"top_logprobs":1}`, 200))
	if n := len(one.get(t, "choices", 0, "logprobs", "content", 0, "top_logprobs").([]any)); n != 1 {
		t.Errorf("%d alternatives of an answer's token, asked for was 1", n)
	}
}

// Penalties leave the newline as it is where a request says so: with a penalty that bans every other token twice, the
// text goes on with newlines only if they may repeat.
func TestNewlineIsNotPenalized(t *testing.T) {
	s := newTester(t, nil)
	text := func(more string) string {
		return decode(t, s.post("/completion",
			`{"prompt":"}\n\n}\n\n}\n\n","n_predict":24,"temperature":0,"ignore_eos":true,`+
				`"logit_bias":[["\n",40]],"presence_penalty":60,"repeat_last_n":-1`+more+`}`, 200)).get(t, "content").(string)
	}
	if with, without := text(`,"penalize_nl":false`), text(""); strings.Count(with, "\n") <= strings.Count(without, "\n") ||
		text(`,"penalize_nl":true`) != without {
		t.Errorf("with %q, without %q", with, without)
	}
	ollama := func(more string) any {
		return decode(t, s.post("/api/generate", `{"prompt":"}\n","raw":true,"stream":false,"options":{"num_predict":16,`+
			`"temperature":0,"presence_penalty":60`+more+`}}`, 200)).get(t, "response")
	}
	if ollama("") != ollama(`,"penalize_newline":true`) {
		t.Error("penalize_newline true changes the text")
	}
}
