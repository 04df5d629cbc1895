package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
)

// Every item of a stream of /v1/responses that begins ends, with its parts, before the next one begins, and the last
// event has them all.
func TestItemsOfStreamsEnd(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	s := newTester(t, with(t, func(o *spec.Options) {
		o.Template, o.Speculation.Drafter = strings.Replace(thinking, "enable_thinking", "reasoning_effort", 1), "none"
		o.Around = func(s spec.Sequence) spec.Sequence {
			return &scripted{Sequence: s, ids: p.target.Tokenizer().Encode("first</think>\nthen", bpe.EncodeOptions{})}
		}
	}))
	const tool = `,"tools":[{"type":"function","name":"clock","parameters":{"type":"object","properties":{}}}]`
	for more, want := range map[string]string{
		``: "message", `,"reasoning":{"effort":"low"}`: "reasoning message",
		`,"reasoning":{"effort":"low"},"tool_choice":"required"` + tool: "reasoning function_call",
	} {
		var open, items []string // begun and not ended; ended
		for _, e := range events(t,
			s.post("/v1/responses", `{"input":"x","stream":true,"max_output_tokens":60`+more+`}`, 200)) {
			o := decode(t, e)
			switch kind := o.get(t, "type").(string); {
			case strings.HasSuffix(kind, ".added"):
				open = append(open, strings.TrimSuffix(kind, ".added"))
				if len(open) == 1 {
					items = append(items, o.get(t, "item", "type").(string))
				}
			case kind == "response.output_item.done" || kind == "response.content_part.done":
				if n := len(open) - 1; n < 0 || open[n] != strings.TrimSuffix(kind, ".done") {
					t.Fatalf("%s: %s while %q are open", more, kind, open)
				}
				open = open[:len(open)-1]
			case kind == "response.completed" || kind == "response.incomplete":
				if n := len(o.get(t, "response", "output").([]any)); len(open) > 0 || n != len(items) {
					t.Errorf("%s: %q are open at the end, %d items of %q", more, open, n, items)
				}
				open = []string{"the end"}
			}
		}
		if got := strings.Join(items, " "); got != want || len(open) != 1 || open[0] != "the end" {
			t.Errorf("%s: %s, want %s; %q", more, got, want, open)
		}
	}
}

// A call whose arguments are whole is complete, also where the answer is cut off behind it; one that is not is not.
func TestCallsOfAnswersThatAreCutOff(t *testing.T) {
	s := newTester(t, smaller(t))
	seen := map[string]bool{}
	for most := 20; most <= 70; most += 5 {
		body := fmt.Sprintf(`{"input":"func","max_output_tokens":%d,"temperature":0,"tool_choice":"required",`+
			`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"city":{"enum":[`+
			`"Paris in France"]}},"required":["city"]}}]`, most)
		o := decode(t, s.post("/v1/responses", body+`}`, 200))
		list := events(t, s.post("/v1/responses", body+`,"stream":true}`, 200))
		streamed := decode(t, list[len(list)-1]).get(t, "response", "output").([]any)
		for i, item := range o.get(t, "output").([]any) {
			call := item.(map[string]any)
			if call["type"] != "function_call" {
				continue
			}
			want := "completed"
			if !json.Valid([]byte(call["arguments"].(string))) {
				want = "incomplete"
			}
			seen[want+" "+o["status"].(string)] = true
			if other := streamed[i].(map[string]any); call["status"] != want || other["status"] != want {
				t.Errorf("%d tokens: %v, streamed %v, want %s", most, call, other, want)
			}
		}
	}
	if !seen["completed incomplete"] || !seen["incomplete incomplete"] {
		t.Errorf("there were only %v", seen)
	}
}

// Tools that are no functions are left out: the answer is the one without them. None of them can be chosen.
func TestOtherToolsAreLeftOut(t *testing.T) {
	s := newTester(t, nil)
	body := func(more string) string { return `{"input":"func","max_output_tokens":8,"temperature":0` + more + `}` }
	const f = `{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}`
	const others = `{"type":"web_search"},{"type":"local_shell"},{"type":"custom","name":"x","format":{"type":"text"}}`
	ask := func(more string) (text, prompt any) {
		o := decode(t, s.post("/v1/responses", body(more), 200))
		return o.get(t, "output", 0, "content", 0, "text"), o.get(t, "usage", "input_tokens")
	}
	for _, c := range [][2]string{
		{`,"tools":[` + others + `]`, ``}, {`,"tools":[` + others + `,` + f + `]`, `,"tools":[` + f + `]`},
	} {
		with, read := ask(c[0])
		if without, less := ask(c[1]); with != without || read != less {
			t.Errorf("%s: %v behind %v tokens, not %v behind %v", c[0], with, read, without, less)
		}
	}
	for _, choice := range []string{`"required"`, `{"type":"web_search"}`, `{"type":"function","name":"x"}`} {
		s.post("/v1/responses", body(`,"tools":[`+others+`],"tool_choice":`+choice), 400)
	}
	s.post("/v1/responses", body(`,"tools":[{"type":1}]`), 400)
}

// A tool_choice that allows some tools offers those alone, in either mode, and the answer says what was asked. Items of
// a stored answer cannot be named.
func TestAllowedTools(t *testing.T) {
	s := newTester(t, smaller(t))
	tool := func(name string) string {
		return `{"type":"function","name":"` + name + `","parameters":{"type":"object","properties":{}},"strict":` +
			map[bool]string{true: "true", false: "false"}[name == "strict"] + `}`
	}
	body := func(tools, choice string) string {
		return `{"input":"func","max_output_tokens":40,"temperature":0,"tools":[` + tools + `],"tool_choice":` + choice + `}`
	}
	all := tool("f") + "," + tool("g") + `,{"type":"web_search"}`
	const some = `"tools":[{"type":"web_search"},{"type":"function","name":"g"}]}`
	const auto = `{"type":"allowed_tools","mode":"auto",` + some
	required := strings.Replace(auto, "auto", "required", 1)
	got, want := decode(t, s.post("/v1/responses", body(all, auto), 200)),
		decode(t, s.post("/v1/responses", body(tool("g"), `"auto"`), 200))
	for _, path := range [][]any{{"usage", "input_tokens"}, {"output", 0, "content", 0, "text"}} {
		if got.get(t, path...) != want.get(t, path...) {
			t.Errorf("%v: %v, want %v", path, got.get(t, path...), want.get(t, path...))
		}
	}
	if len(got["tools"].([]any)) != 2 || got.get(t, "tool_choice", "type") != "allowed_tools" ||
		got.get(t, "tool_choice", "tools", 1, "name") != "g" {
		t.Errorf("%v, %v", got["tools"], got["tool_choice"])
	}
	if got := decode(t, s.post("/v1/responses", body(all, required), 200)); got.get(t, "output", 0, "name") != "g" {
		t.Errorf("%v", got["output"])
	}
	chat := `{"messages":[{"role":"user","content":"func"},{"role":"assistant","content":"Go"}],"max_tokens":40,` +
		`"tools":[` +
		`{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}],"tool_choice":{"type":` +
		`"allowed_tools","allowed_tools":{"mode":"%","tools":[{"type":"function","function":{"name":"g"}}]}}}`
	call := decode(t, s.post("/v1/chat/completions", strings.Replace(chat, "%", "required", 1), 200))
	if call.get(t, "choices", 0, "message", "tool_calls", 0, "function", "name") != "g" {
		t.Errorf("%v", call)
	}
	q := s.newRequest()
	q.mayGoOn = true
	chat = strings.Replace(chat, "%", "auto", 1)
	if err := s.read(t.Context(), formChat, q, []byte(chat), true); err != nil || !q.continues() {
		t.Errorf("a strict tool that is not allowed begins the answer anew (%v)", err)
	}
	many := `{"type":"allowed_tools","mode":"auto","tools":[` + strings.Repeat(`{"type":"x"},`, maxTools) + `{"type":"x"}]}`
	for choice, want := range map[string]string{
		strings.Replace(auto, `"g"`, `"k"`, 1):                                       `tool_choice.tools[1].name: there is no tool`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}`: "there are no tools",
		`{"type":"allowed_tools","mode":"auto","tools":[]}`:                          "names no tool",
		many: "more than 128 tools",
		`{"type":"function","name":"f","mode":"auto"}`: "mode and tools",
		`{"type":"allowed_tools","mode":"auto"}`:       "mode and tools",
		`{"type":"function","mode":"auto","tools":[]}`: "mode and tools",
	} {
		if text := s.post("/v1/responses", body(all, choice), 400); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", choice, text, want)
		}
	}
	text := s.post("/v1/responses", `{"input":[{"type":"item_reference","id":"msg_1"}]}`, 400)
	if !strings.Contains(text, "input[0].type") || !strings.Contains(text, "nothing is stored") {
		t.Error(text)
	}
}

// What clients send back of an answer: members that are null, and reasoning by its other name.
func TestHistoryOfClients(t *testing.T) {
	s := newTester(t, nil)
	body := func(more string) string {
		return `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"` + more +
			`},{"role":"user","content":"c"}],"max_tokens":4,"temperature":0}`
	}
	const path = "/v1/chat/completions"
	plain := stable(s.post(path, body(""), 200))
	if got := stable(s.post(path, body(`,"function_call":null,"tool_calls":null,"refusal":null,"audio":null,`+
		`"reasoning":null,"annotations":[]`), 200)); got != plain {
		t.Errorf("%s, not %s", got, plain)
	}
	s.post(path, body(`,"reasoning":"d"`), 200)
	m, _, err := readMessage(value{"messages[0]", []byte(`{"role":"assistant","content":"b","reasoning":"d"}`)})
	if err != nil || m.Reasoning != "d" || m.Content != "b" {
		t.Errorf("%+v: %v", m, err)
	}
	text := s.post(path, body(`,"function_call":{"name":"f","arguments":"{}"}`), 400)
	if !strings.Contains(text, "function_call") {
		t.Error(text)
	}
}

// A stream tells how far its prompt is, and the figures so far with each piece, where it is asked for; else neither.
func TestResponsesTelemetry(t *testing.T) {
	s := newTester(t, nil)
	const body = `{"input":"func main() { return nil } func main() { return nil }","max_output_tokens":4,"stream":true`
	text := s.post("/v1/responses", body+`,"timings_per_token":true,"return_progress":true}`, 200)
	seen := map[string]int{}
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		o := decode(t, data)
		kind := o["type"].(string)
		if p, ok := o["prompt_progress"]; ok {
			seen["progress "+kind]++
			if object(p.(map[string]any)).number(t, "processed") > object(p.(map[string]any)).number(t, "total") {
				t.Errorf("%v", p)
			}
		}
		if x, ok := o["timings"].(map[string]any); ok {
			seen["timings "+kind] = max(seen["timings "+kind], int(x["predicted_n"].(float64)))
		}
	}
	if seen["progress response.in_progress"] == 0 || seen["timings response.output_text.delta"] == 0 ||
		seen["timings response.completed"]+seen["timings response.incomplete"] != 4 || len(seen) != 3 {
		t.Errorf("%v of %s", seen, text)
	}
	if text := s.post("/v1/responses", body+`}`, 200); strings.Contains(text, `"logprobs":[],"timings"`) ||
		strings.Contains(text, "prompt_progress") {
		t.Errorf("not asked for: %s", text)
	}
}
