package serve

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec"
)

// A message, whole and as a stream: the same text, the events in the order that Anthropic's clients expect.
func TestMessages(t *testing.T) {
	s := newTester(t, nil)
	body := `{"model":"go","max_tokens":12,"temperature":0,"system":"Go.","messages":[{"role":"user","content":"func main"}]`
	whole := decode(t, s.post("/v1/messages", body+"}", 200))
	text, _ := whole.get(t, "content", 0, "text").(string)
	if text == "" || whole.get(t, "type") != "message" || whole.get(t, "stop_reason") != "max_tokens" ||
		whole.get(t, "usage", "output_tokens") != 12.0 {
		t.Errorf("%v", whole)
	}
	var kinds []string
	streamed := ""
	for _, line := range strings.Split(s.post("/v1/messages", body+`,"stream":true}`, 200), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				kinds = append(kinds, name)
			}
			continue
		}
		var e struct {
			Type  string
			Delta struct{ Text string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Type != kinds[len(kinds)-1] {
			t.Errorf("%s: %v", data, err)
		}
		if streamed += e.Delta.Text; len(kinds) > 1 && e.Type == "content_block_delta" && kinds[len(kinds)-2] == e.Type {
			kinds = kinds[:len(kinds)-1]
		}
	}
	if got := strings.Join(kinds, " "); got != "message_start content_block_start content_block_delta content_block_stop "+
		"message_delta message_stop" || streamed != text {
		t.Errorf("%s: %q, whole %q", got, streamed, text)
	}
	n := decode(t, s.post("/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"func main"}]}`, 200))
	more := decode(t, s.post("/v1/messages/count_tokens", body+"}", 200))
	if a, b := n.get(t, "input_tokens").(float64), more.get(t, "input_tokens").(float64); a < 1 || b <= a {
		t.Errorf("%v tokens, with a system message %v", a, b)
	}
}

// What Claude Code sends beside a conversation is taken: edits of the conversation, of which the answer says that none
// was applied, and how tools are told and their arguments streamed.
func TestMessagesOfClaudeCode(t *testing.T) {
	s := newTester(t, nil)
	const body = `{"max_tokens":3,"messages":[{"role":"user","content":"func main"}],"context_management":{"edits":` +
		`[{"type":"clear_thinking_20251015","keep":"all"}]},"tools":[{"name":"f","input_schema":{"type":"object"},` +
		`"defer_loading":false,"eager_input_streaming":true,"cache_control":{"type":"ephemeral"}}]`
	const none = `"context_management":{"applied_edits":[]}`
	if text := s.post("/v1/messages", body+`}`, 200); !strings.Contains(text, none) {
		t.Error(text)
	}
	for line := range strings.Lines(s.post("/v1/messages", body+`,"stream":true}`, 200)) {
		if strings.HasPrefix(line, "data: ") && strings.Contains(line, `"message_delta"`) != strings.Contains(line, none) {
			t.Error(line)
		}
	}
	s.post("/v1/messages/count_tokens", body+`}`, 200)
}

// Examples of a tool's input are told behind its description, and the result of a search for tools names those that it
// has found, which must be there.
func TestMessagesOfToolSearch(t *testing.T) {
	s := newTester(t, nil)
	q := s.newRequest()
	body := func(content string) string {
		return `{"max_tokens":3,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use",` +
			`"id":"1","name":"f","input":{},"caller":{"type":"direct"}}]},{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"1","content":` + content + `}]}],"tools":[{"name":"f","description":"D","input_schema":` +
			`{"type":"object"}},{"name":"g","input_schema":{"type":"object"},"defer_loading":true,` +
			`"input_examples":[{"a": [1, 2]},{}]},{"name":"h","description":"H","input_schema":{"type":"object"},` +
			`"input_examples":[{"b":"x y"}]}]}`
	}
	const found = `[{"type":"text","text":"see"},{"type":"tool_reference","tool_name":"g"},` +
		`{"type":"tool_reference","tool_name":"h","cache_control":{"type":"ephemeral"}},{"type":"text","text":"or"},` +
		`{"type":"text","text":" more"}]`
	s.post("/v1/messages", body(found), 200)
	if err := s.read(t.Context(), formMessages, q, []byte(body(found)), true); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"D", "Examples of the input:\n{\"a\":[1,2]}\n{}",
		"H\n\nExamples of the input:\n{\"b\":\"x y\"}"} {
		if got := q.tools[i].Description; got != want || q.tools[i].JSON != nil {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := q.messages[2].Content, "see\ng\nh\nor more"; got != want || q.messages[2].Role != "tool" {
		t.Errorf("%q, want %q", got, want)
	}
	for content, want := range map[string]string{
		`[{"type":"tool_reference","tool_name":"k"}]`:            `messages[2].content[0].content[0].tool_name: there is no tool`,
		`[{"type":"tool_reference"}]`:                            `must have type and tool_name`,
		`[{"type":"tool_reference","tool_name":"g","text":"x"}]`: `must have type and tool_name`,
		`[{"type":"text","tool_name":"g","text":"x"}]`:           `must have type and text`,
	} {
		if text := s.post("/v1/messages", body(content), 400); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", content, text, want)
		}
	}
	s.post("/v1/messages", `{"max_tokens":3,"system":[{"type":"tool_reference","tool_name":"g"}],"messages":[]}`, 400)
}

// Errors have types of Anthropic's list, by which its clients tell them apart.
func TestMessagesErrors(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.BodyBytes = 8 << 10 })
	kind := func(body string, status int) any {
		return decode(t, s.post("/v1/messages", body, status)).get(t, "error", "type")
	}
	talk := func(text string) string {
		return `{"max_tokens":3,"messages":[{"role":"user","content":"` + text + `"}]}`
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{{`{}`, 400, "invalid_request_error"}, {talk(strings.Repeat("x y ", 1000)), 400, "invalid_request_error"},
		{talk(strings.Repeat("x y ", 4000)), 413, "request_too_large"}} {
		if got := kind(c.body, c.status); got != c.want {
			t.Errorf("%d: %v, want %s", c.status, got, c.want)
		}
	}
	for status, want := range map[int]string{499: "api_error", 500: "api_error", 503: "overloaded_error",
		504: "api_error"} {
		text := string(encode(anthropicError(&Error{Status: status, Type: typeServer})))
		if got := decode(t, text).get(t, "error", "type"); got != want {
			t.Errorf("%d: %v, want %s", status, got, want)
		}
	}
}

// The texts that end an answer are told, and are no part of it.
func TestMessagesStopSequence(t *testing.T) {
	s := newTester(t, nil)
	ask := func(more string) object {
		return decode(t, s.post("/v1/messages", `{"max_tokens":30,"temperature":0,"messages":[{"role":"user",`+
			`"content":"func main"}]`+more+`}`, 200))
	}
	text, _ := ask("").get(t, "content", 0, "text").(string)
	word := text[len(text)/2 : len(text)/2+3]
	quoted, _ := json.Marshal(word)
	got := ask(`,"stop_sequences":["never",` + string(quoted) + `]`)
	if got.get(t, "stop_reason") != "stop_sequence" || got.get(t, "stop_sequence") != word ||
		got.get(t, "content", 0, "text") != text[:strings.Index(text, word)] {
		t.Errorf("%q in %q: %v", word, text, got)
	}
}

// An answer goes on with what the assistant has begun to say: its prompt ends with it.
func TestAnswerGoesOn(t *testing.T) {
	s := newTester(t, smaller(t))
	const talk = `"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"func Begin("}]`
	prompt, _ := decode(t, s.post("/apply-template", `{`+talk+`}`, 200)).get(t, "prompt").(string)
	if !strings.HasSuffix(prompt, "func Begin(") {
		t.Errorf("the prompt ends with %q", prompt[max(0, len(prompt)-40):])
	}
	again, _ := decode(t, s.post("/apply-template", `{`+talk+`,"continue_final_message":false}`, 200)).get(t,
		"prompt").(string)
	if strings.HasSuffix(again, "func Begin(") || !strings.Contains(again, "func Begin(") {
		t.Errorf("without: %q", again)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/api/chat"} {
		s.post(path, `{"model":"go",`+talk+map[bool]string{true: `}`, false: `,"max_tokens":4}`}[path == "/api/chat"], 200)
	}
	text := s.post("/v1/chat/completions",
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},`+
			`{"role":"assistant","content":"c"}]}`, 400)
	if !strings.Contains(text, "two messages of the assistant") {
		t.Error(text)
	}
}

// A budget of thinking ends reasoning where it can, and refuses no request where it cannot.
func TestMessagesThinkingBudget(t *testing.T) {
	const talk = `{"model":"go","max_tokens":40,"messages":[{"role":"user","content":"x"}]`
	const budget = `,"thinking":{"type":"enabled","budget_tokens":2}`
	for _, x := range []struct {
		name, template, more string
		bounded              bool
	}{
		{"a budget", thinking, budget, true},
		{"no budget", thinking, `,"thinking":{"type":"adaptive"}`, false},
		{"a template without reasoning", hermes, budget, false},
		{"calls have a grammar", thinking, budget + `,"tools":[{"name":"f","input_schema":{"type":"object"}}],` +
			`"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, false},
	} {
		s := newTester(t, with(t, func(o *spec.Options) { o.Template = x.template }))
		task := s.task(formMessages, talk+x.more+`}`)
		if bounded := task.Sampling(0).Constraint != nil; bounded != x.bounded {
			t.Errorf("%s: bounded: %v", x.name, bounded)
		}
	}
}

// Biases of texts are biases of their tokens.
func TestBiasOfText(t *testing.T) {
	s := newTester(t, nil)
	const body = `{"prompt":"func main","max_tokens":8,"temperature":0,"logit_bias":`
	ids := decode(t, s.post("/tokenize", `{"content":"return"}`, 200)).get(t, "tokens").([]any)
	id, _ := json.Marshal(ids[0])
	text := decode(t, s.post("/v1/completions", body+`{"return":100}}`, 200)).get(t, "choices", 0, "text")
	same := decode(t, s.post("/v1/completions", body+`{"`+string(id)+`":100}}`, 200)).get(t, "choices", 0, "text")
	if len(ids) == 1 && (text != same || !strings.Contains(text.(string), "return")) {
		t.Errorf("%q and %q", text, same)
	}
	pairs := decode(t, s.post("/v1/completions", body+`[["return",100]]}`, 200)).get(t, "choices", 0, "text")
	if pairs != text {
		t.Errorf("as pairs %q, as an object %q", pairs, text)
	}
}

// What constrains a whole answer is not put on the end of one: nothing is continued unasked, and asked for it is
// refused by name.
func TestConstrainedAnswersBeginAnew(t *testing.T) {
	s := newTester(t, nil)
	const talk = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"max_tokens":2`
	const tool = `,"tools":[{"type":"function","function":{"name":"f","strict":true}}]`
	for field, more := range map[string]string{
		"response_format": `,"response_format":{"type":"json_object"}`, "tools": tool,
		"grammar": `,"grammar":"root ::= \"x\""`,
	} {
		s.post("/v1/chat/completions", talk+more+`}`, 200)
		e := decode(t, s.post("/v1/chat/completions", talk+more+`,"continue_final_message":true}`, 400))
		if e.get(t, "error", "param") != field {
			t.Errorf("%s: %v", field, e)
		}
	}
	// Strict tools that no answer may call constrain nothing.
	count := func(more string) any {
		return decode(t, s.post("/v1/chat/completions/input_tokens", talk+more+`}`, 200)).get(t, "input_tokens")
	}
	if got, want := count(tool+`,"tool_choice":"none"`), count(""); got != want {
		t.Errorf("a prompt of %v tokens with tools that are not offered, %v without", got, want)
	}
}

// Of biases of one token the last one counts, however often it is asked.
func TestLastBiasCounts(t *testing.T) {
	s := newTester(t, nil)
	for range 8 {
		o := decode(t, s.post("/v1/completions", `{"prompt":"x","max_tokens":1,"logprobs":1,`+
			`"logit_bias":[["return",-100],["return",100],["returns",0],["return",50]]}`, 200))
		if got := o.get(t, "choices", 0, "text"); got != "return" {
			t.Fatalf("%q", got)
		}
	}
}

// Clients of Anthropic's API get lists of models in its form, in pages.
func TestAnthropicModels(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Models = []Entry{entry(t, "a"), entry(t, "b"), entry(t, "c")} })
	get := func(path string, want int) object {
		t.Helper()
		status, text, _ := s.do("GET", path, "", "Anthropic-Version", "2023-06-01")
		if status != want {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return decode(t, text)
	}
	one := object{"type": "model", "id": "b", "display_name": "b", "created_at": "2023-11-14T22:13:20Z"}
	if got := get("/v1/models/b", 200); !reflect.DeepEqual(got, one) {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		query, ids string
		more       bool
	}{
		{"", "abc", false}, {"?limit=2", "ab", true}, {"?limit=3", "abc", false}, {"?limit=1&after_id=a", "b", true},
		{"?after_id=b", "c", false}, {"?limit=1&before_id=c", "b", true}, {"?before_id=b", "a", false},
		{"?after_id=c", "", false}, {"?after_id=b&before_id=a", "", false},
	} {
		got, ids := get("/v1/models"+c.query, 200), ""
		for _, m := range got["data"].([]any) {
			ids += m.(map[string]any)["id"].(string)
		}
		var first, last any
		if ids != "" {
			first, last = ids[:1], ids[len(ids)-1:]
		}
		if ids != c.ids || got["has_more"] != c.more || got["first_id"] != first || got["last_id"] != last {
			t.Errorf("%s: %v", c.query, got)
		}
	}
	for _, path := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after_id=d", "?before_id="} {
		if got := get("/v1/models"+path, 400); got.get(t, "error", "type") != "invalid_request_error" {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := get("/v1/models/d", 404); got["type"] != "error" || got.get(t, "error", "type") != "not_found_error" {
		t.Errorf("%v", got)
	}
}
