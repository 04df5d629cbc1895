package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

const weather = `[{"type":"function","function":{"name":"clock","parameters":{"type":"object",` +
	`"properties":{"zone":{"enum":["utc","local"]}},"required":["zone"]}}},` +
	`{"type":"function","function":{"name":"weather","parameters":{"type":"object",` +
	`"properties":{"place":{"type":"string","maxLength":6},"days":{"type":"integer","minimum":1,"maximum":9}},` +
	`"required":["place","days"]}}}]`

// A required call is one, by its schema, in every form, streamed and whole.
func TestRequiredCall(t *testing.T) {
	s := newTester(t, smaller(t))
	const head = `{"messages":[{"role":"user","content":"func"}],"max_tokens":120,"temperature":1,"seed":%,` +
		`"parallel_tool_calls":false,"tools":` + weather
	names := map[string]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6"} {
		if len(names) == 2 && seed > "2" {
			break
		}
		body := strings.Replace(head, "%", seed, 1)
		o := decode(t, s.post("/v1/chat/completions", body+`,"tool_choice":"required"}`, 200))
		if o.get(t, "choices", 0, "finish_reason") != "tool_calls" {
			t.Fatalf("%v", o)
		}
		m := object(o.get(t, "choices", 0, "message").(map[string]any))
		name, arguments := m.get(t, "tool_calls", 0, "function", "name").(string),
			m.get(t, "tool_calls", 0, "function", "arguments").(string)
		names[name] = true
		var got map[string]any
		if err := json.Unmarshal([]byte(arguments), &got); err != nil || m["content"] != nil ||
			m.get(t, "tool_calls", 0, "type") != "function" || m.get(t, "tool_calls", 0, "id") == "" {
			t.Errorf("%v: %v", err, m)
		}
		switch {
		case name == "clock" && (got["zone"] == "utc" || got["zone"] == "local"):
		case name == "weather" && got["days"].(float64) >= 1 && got["days"].(float64) <= 9:
		default:
			t.Errorf("%s %s", name, arguments)
		}
		// The stream brings the same call in pieces.
		streamedName, streamed, finish := "", "", ""
		list := events(t, s.post("/v1/chat/completions", body+`,"tool_choice":"required","stream":true}`, 200))
		for _, e := range list[:len(list)-1] {
			c := decode(t, e).get(t, "choices", 0).(map[string]any)
			if f, ok := c["finish_reason"].(string); ok {
				finish = f
			}
			calls, _ := c["delta"].(map[string]any)["tool_calls"].([]any)
			for _, call := range calls {
				f := call.(map[string]any)["function"].(map[string]any)
				if n, ok := f["name"].(string); ok {
					streamedName += n
				}
				streamed += f["arguments"].(string)
			}
		}
		if streamedName != name || streamed != arguments || finish != "tool_calls" {
			t.Errorf("streamed %s(%s), %s; whole %s(%s)", streamedName, streamed, finish, name, arguments)
		}
	}
	if len(names) < 2 {
		t.Errorf("of two functions only %v are called", names)
	}
	body := strings.Replace(head, "%", "1", 1)
	if o := decode(t, s.post("/v1/chat/completions",
		body+`,"tool_choice":{"type":"function","function":{"name":"weather"}}}`, 200)); o.get(
		t, "choices", 0, "message", "tool_calls", 0, "function", "name") != "weather" {
		t.Errorf("%v", o)
	}
	// The other forms.
	flat := `{"input":"func","max_output_tokens":120,"parallel_tool_calls":false,"tools":[{"type":"function",` +
		`"name":"clock","parameters":{"type":"object","properties":{"zone":{"enum":["utc"]}},"required":["zone"]}}]`
	o := decode(t, s.post("/v1/responses", flat+`,"tool_choice":"required"}`, 200))
	if o.get(t, "output", 0, "type") != "function_call" || o.get(t, "output", 0, "name") != "clock" ||
		o.get(t, "output", 0, "arguments") != `{"zone": "utc"}` || o.get(t, "status") != "completed" {
		t.Errorf("%v", o)
	}
	text := s.post("/v1/responses", flat+`,"stream":true,"tool_choice":{"type":"function","name":"clock"}}`, 200)
	arguments, number := "", 0.0
	for _, e := range events(t, text) {
		o := decode(t, e)
		if o.get(t, "sequence_number") != number {
			t.Errorf("event %v has the number %v", number, o["sequence_number"])
		}
		number++
		if o["type"] == "response.function_call_arguments.delta" {
			arguments += o.get(t, "delta").(string)
		}
		if o["type"] == "response.function_call_arguments.done" && o.get(t, "arguments") != arguments {
			t.Errorf("%s and %v", arguments, o)
		}
	}
	if arguments != `{"zone": "utc"}` || !strings.Contains(text, "event: response.completed\n") {
		t.Errorf("%s\n%s", arguments, text)
	}
}

// scripted is a sequence whose logits make every text begin with the same tokens.
type scripted struct {
	spec.Sequence
	ids   []int32
	first int // length of the prompt
}

func (s *scripted) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	out, err := s.Sequence.Eval(ctx, tokens, parents, want)
	if err != nil || out.Rows() == 0 {
		return out, err
	}
	if s.first == 0 {
		s.first = s.Len()
	}
	if n := s.Len() - s.first; n < len(s.ids) {
		out.Row(0)[s.ids[n]] = 1e9
	}
	return out, nil
}

// Half a call is no content, wherever the limit of tokens cuts it; every API says that it was the limit.
func TestCutCallIsNoContent(t *testing.T) {
	s := newTester(t, smaller(t))
	for _, limit := range []int{1, 8, 11, 18} {
		more := fmt.Sprintf(`"temperature":0,"max_tokens":%d,"tools":%s}`, limit, weather)
		o := decode(t, s.post("/v1/chat/completions",
			`{"messages":[{"role":"user","content":"func"}],"tool_choice":"required",`+more, 200))
		c := o.get(t, "choices", 0, "message").(map[string]any)["content"]
		if c != nil && c != "" || o.get(t, "choices", 0, "finish_reason") != "length" {
			t.Errorf("%d tokens: %v", limit, o["choices"])
		}
		for _, e := range events(t, s.post("/v1/chat/completions",
			`{"messages":[{"role":"user","content":"func"}],"stream":true,"tool_choice":"required",`+more, 200)) {
			if strings.Contains(e, `"content":"`) {
				t.Errorf("%d tokens: %s", limit, e)
			}
		}
	}
	// Calls that are the model's choice.
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	ids := p.target.Tokenizer().Encode("Hm. <tool_call>\n{\"name\": \"clock\", \"arguments\": {\"zone\"",
		bpe.EncodeOptions{})
	s = newTester(t, smaller(t, func(o *spec.Options) {
		o.Speculation.Drafter = "none"
		o.Around = func(s spec.Sequence) spec.Sequence { return &scripted{Sequence: s, ids: ids} }
	}))
	cut := 0
	for limit := 3; limit <= len(ids); limit += 2 {
		text := p.target.Tokenizer().Decode(ids[:limit])
		want := strings.TrimSpace(text)
		if strings.HasPrefix(text, "Hm. <tool_") {
			want = "Hm."
		}
		o := decode(t, s.post("/api/chat", fmt.Sprintf(`{"messages":[{"role":"user","content":"func"}],"stream":false,`+
			`"options":{"temperature":0,"num_predict":%d},"tools":%s}`, limit, weather), 200))
		if got := o.get(t, "message", "content").(string); strings.TrimSpace(got) != want ||
			o.get(t, "done_reason") != "length" {
			t.Errorf("%d tokens, %q: %v", limit, text, o)
		}
		calls, _ := o["message"].(map[string]any)["tool_calls"].([]any)
		for _, c := range calls { // clients read an object
			f := object(c.(map[string]any))
			if got, ok := f.get(t, "function", "arguments").(map[string]any); !ok || !strings.Contains(text,
				fmt.Sprint(got["arguments"])) {
				t.Errorf("%d tokens, %q: arguments %v", limit, text, f)
			}
			cut++
		}
	}
	if cut == 0 {
		t.Error("no call was cut off in its arguments")
	}
}

// An answer with reasoning is told apart, and its constraint is one of the content.
func TestReasoning(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	reasoned := p.target.Tokenizer().Encode("first abc</think>", bpe.EncodeOptions{})
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template, o.Speculation.Drafter = thinking, "none"
		o.Around = func(s spec.Sequence) spec.Sequence { return &scripted{Sequence: s, ids: reasoned} }
	}))
	const more = `"max_tokens":30,"grammar":"root ::= \"then \" [d-f]{2}"`
	body := `{"messages":[{"role":"user","content":"func"}],"chat_template_kwargs":{"enable_thinking":true},` + more + `}`
	o := decode(t, s.post("/v1/chat/completions", body, 200))
	reasoning, content := o.get(t, "choices", 0, "message", "reasoning_content").(string),
		o.get(t, "choices", 0, "message", "content").(string)
	if !strings.HasPrefix(reasoning, "first ") || strings.Contains(reasoning, "<") ||
		!strings.HasPrefix(content, "then ") || len(content) != 7 {
		t.Errorf("reasoning %q, content %q", reasoning, content)
	}
	if n := o.get(t, "usage", "completion_tokens_details", "reasoning_tokens").(float64); n < 2 ||
		n >= o.get(t, "usage", "completion_tokens").(float64) {
		t.Errorf("%v", o["usage"])
	}
	a, b := "", ""
	list := events(t, s.post("/v1/chat/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`, 200))
	for _, e := range list[:len(list)-1] {
		d := decode(t, e).get(t, "choices", 0, "delta").(map[string]any)
		if x, ok := d["reasoning_content"].(string); ok {
			a += x
		}
		if x, ok := d["content"].(string); ok {
			b += x
		}
	}
	if a != reasoning || b != content {
		t.Errorf("streamed %q and %q", a, b)
	}
	// Ollama's name for it, and its absence where it is not wanted.
	o = decode(t, s.post("/api/chat",
		`{"messages":[{"role":"user","content":"func"}],"think":true,"stream":false,"options":{"num_predict":5}}`, 200))
	if o.get(t, "message", "thinking") == "" || o.get(t, "message", "content") != "" {
		t.Errorf("%v", o)
	}
}

// Structured output: the text is of the grammar, and forced text is accepted from drafts without a draft model.
func TestStructured(t *testing.T) {
	s := newTester(t, smaller(t))
	const schema = `{"type":"object","properties":{"a_long_name_of_a_field":{"enum":["x","y"]},` +
		`"another_long_name":{"type":"boolean"}},"required":["a_long_name_of_a_field","another_long_name"]}`
	for i, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"func"}],"max_tokens":100,` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}}`},
		{"/v1/completions", `{"prompt":"func","max_tokens":100,"json_schema":` + schema},
		{"/v1/responses", `{"input":"func","max_output_tokens":100,` +
			`"text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}`},
		{"/api/generate", `{"prompt":"func","stream":false,"options":{"num_predict":100},"format":` + schema},
	} {
		for j, spec := range []string{`"off":true`, `"drafter":"tree"`, `"drafter":"model"`, `"drafter":"suffix"`} {
			if (i+j)%2 > 0 { // each at two paths
				continue
			}
			text := s.post(c.path, c.body+`,"speculation":{`+spec+`}}`, 200)
			o := decode(t, text)
			at := map[string][]any{"/v1/chat/completions": {"choices", 0, "message", "content"},
				"/v1/completions": {"choices", 0, "text"},
				"/v1/responses":   {"output", 0, "content", 0, "text"}, "/api/generate": {"response"}}[c.path]
			var got struct {
				A string `json:"a_long_name_of_a_field"`
				B *bool  `json:"another_long_name"`
			}
			if err := json.Unmarshal([]byte(o.get(t, at...).(string)), &got); err != nil || got.A != "x" &&
				got.A != "y" || got.B == nil {
				t.Errorf("%s %s: %v", c.path, spec, o.get(t, at...))
			}
		}
	}
	o := decode(t, s.post("/v1/chat/completions",
		`{"messages":[{"role":"user","content":"func"}],"max_tokens":60,"response_format":{"type":"json_object"}}`, 200))
	text := o.get(t, "choices", 0, "message", "content").(string)
	if !strings.HasPrefix(text, "{") || o.get(t, "choices", 0, "finish_reason") == "stop" && !json.Valid([]byte(text)) {
		t.Errorf("%q", text)
	}
	for _, bad := range []string{`"tool_choice":"required","tools":` + weather +
		`,"response_format":{"type":"json_object"}`, `"grammar":"root ::= \"a\"","json_schema":{}`} {
		s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"func"}],`+bad+`}`, 400)
	}
}

// Calls beside a format, strict ones, and the source of what a grammar fixes.
func TestCallsBesideText(t *testing.T) {
	s := newTester(t, nil)
	const head = `{"messages":[{"role":"user","content":"func"}],"max_tokens":150,"temperature":1,` +
		`"parallel_tool_calls":false,"tools":` + weather
	const format = `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object",` +
		`"properties":{"answer":{"type":"boolean"}},"required":["answer"]}}}`
	kinds := map[string]int{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		if len(kinds) == 2 && seed > "2" {
			break
		}
		o := decode(t, s.post("/v1/chat/completions", head+format+`,"seed":`+seed+`}`, 200))
		c := object(o.get(t, "choices", 0).(map[string]any))
		kinds[c["finish_reason"].(string)]++
		switch c["finish_reason"] {
		case "stop":
			var got struct{ Answer *bool }
			if err := json.Unmarshal([]byte(c.get(t, "message", "content").(string)), &got); err != nil || got.Answer == nil {
				t.Errorf("%v: %v", err, c)
			}
		case "tool_calls":
			c.get(t, "message", "tool_calls", 0, "function", "name")
		default:
			t.Errorf("%v", c)
		}
	}
	if len(kinds) != 2 {
		t.Errorf("of calls and answers only %v", kinds)
	}
	// A strict function: text is free, and a bias towards the mark makes calls, which are well formed.
	strict := strings.ReplaceAll(head, `"parameters"`, `"strict":true,"parameters"`)
	if o := decode(t, s.post("/v1/chat/completions", strict+`,"seed":1}`, 200)); o.get(
		t, "choices", 0, "finish_reason") == "" {
		t.Error(o)
	}
	// a schema that cannot be enforced
	s.post("/v1/chat/completions", strings.Replace(strict, `"minimum":1`, `"$ref":"elsewhere.json"`, 1)+`}`, 400)
	// Keys of a schema are the grammar's.
	seen := map[string]bool{}
	text := s.post("/v1/completions", `{"prompt":"func","max_tokens":60,"stream":true,`+
		`"speculation":{"trace":true,"drafter":"none"},"json_schema":{"type":"object",`+
		`"properties":{"a_long_name":{"type":"boolean"}},"required":["a_long_name"]}}`, 200)
	for _, e := range events(t, text) {
		if strings.Contains(e, `"source":"grammar"`) {
			seen["grammar"] = true
		}
		if strings.Contains(e, `"forced_n":`) {
			seen["forced"] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("no token is the grammar's: %v", seen)
	}
}

// An argument that the tool's schema says is a string is one, also where the model's format writes arguments as text.
func TestTextArgumentsHaveTheSchemasType(t *testing.T) {
	s := newTester(t, smaller(t, func(o *spec.Options) {
		o.Template = strings.ReplaceAll(hermes, `"arguments"`, "<function=f><parameter=a>")
	}))
	const tools = `[{"type":"function","function":{"name":"run","parameters":{"type":"object","properties":{` +
		`"code":{"type":"string","enum":["123"]},"times":{"type":"integer","enum":[4]}},"required":["code","times"]}}}]`
	o := decode(t, s.post("/v1/chat/completions",
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":120,"tool_choice":"required",`+
			`"parallel_tool_calls":false,"tools":`+tools+`}`, 200))
	const want = `{"code": "123", "times": 4}`
	if got := o.get(t, "choices", 0, "message", "tool_calls", 0, "function", "arguments"); got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
}
