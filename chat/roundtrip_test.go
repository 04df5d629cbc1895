package chat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// withoutCalls are the templates of shared/chat that render no calls of an assistant.
var withoutCalls = map[string]bool{
	"LFM2-8B-A1B": true, "LFM2.5-Instruct": true, "ibm-granite-granite-3.3-2B-Instruct": true,
}

// TestCallsOfTemplatesRoundTrip: what a real template renders for an assistant's call is read back as that call.
func TestCallsOfTemplatesRoundTrip(t *testing.T) {
	const arguments = `{"text":"a\n \"b\" <c>\n","on":true,"count":3,"list":["x","1"],"item":{"id":1,"name":"7"}}`
	tools := []json.RawMessage{[]byte(`{"type":"function","function":{"name":"f","description":"d","parameters":` +
		`{"type":"object","properties":{"text":{"type":"string","description":"d"},"on":{"type":"boolean","description":"d"},` +
		`"count":{"type":"integer","description":"d"},"list":{"type":"array","items":{"type":"string"},"description":"d"},` +
		`"item":{"type":"object","properties":{"id":{"type":"integer","description":"d"},"name":{"type":"string",` +
		`"description":"d"}},"additionalProperties":{"type":"string"},"description":"d"}},"required":["text"]}}}`)}
	seen := 0
	forGoldens(t, func(t *testing.T, name string, _ *Template, golden *goldenFile) {
		tmpl, err := New(templateSource(t, name), Options{BOS: golden.BOS, EOS: golden.EOS, Clock: fixedClock})
		if err != nil {
			t.Fatal(err)
		}
		if !tmpl.Tools() {
			return
		}
		user := Message{Role: "user", Content: "Hello."}
		call := Message{Role: "assistant", ToolCalls: []ToolCall{{ID: "call00001", Name: "f", Arguments: arguments}}}
		text := func(generation bool, messages ...Message) string {
			p, err := tmpl.Render(t.Context(), Conversation{Messages: messages, Tools: tools, AddGenerationPrompt: generation})
			if err != nil {
				t.Fatal(name, tmpl.Format().Syntax, err)
			}
			return p.Text()
		}
		all, before := text(false, user, call), text(true, user)
		answer, ok := strings.CutPrefix(all, before)
		if !ok {
			answer = strings.TrimPrefix(all, text(false, user))
		}
		f := *tmpl.Format()
		f.ThinkStart, f.ThinkEnd = "", ""
		var args, calls string
		n := 0
		for _, e := range parse(f, ParserOptions{Tools: typedTools}, answer) {
			switch e.Kind {
			case ToolCallStart:
				calls += e.Name
			case ToolCallArgs:
				args += e.Text
			case ToolCallEnd:
				if n++; e.Err != nil {
					t.Errorf("%s (%s): %v in %q", name, f.Syntax, e.Err, answer)
				}
			}
		}
		var got, want any
		_ = json.Unmarshal([]byte(args), &got)
		_ = json.Unmarshal([]byte(arguments), &want)
		if withoutCalls[name] {
			if n > 0 {
				t.Errorf("%s: %d calls of a template that renders none", name, n)
			}
			return
		}
		if n != 1 || calls != "f" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s (%s): %d calls, %s %s of %q", name, f.Syntax, n, calls, args, answer)
			return
		}
		seen++
	})
	if seen < 46 {
		t.Errorf("the calls of %d templates are read back, of 46 they were", seen)
	}
}
