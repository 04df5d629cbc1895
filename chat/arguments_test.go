package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// The arguments of a call in JSON are an object, a text that is one, or null for none; anything else is no call.
func TestArgumentsAreAnObjectItsTextOrNull(t *testing.T) {
	f, o := Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools}
	for args, want := range map[string]string{
		`null`: `{}`, `{}`: `{}`, `{"a": 1}`: `{"a": 1}`, `"{\"a\": 1}"`: `{"a": 1}`,
	} {
		got := show(parse(f, o, `<tool_call>{"name": "f", "arguments": `+args+`}</tool_call>`))
		if got != "start 0: f \nargs 0: "+want+"\nend 0:  <nil>" {
			t.Errorf("%s:\n%s", args, got)
		}
	}
	for _, args := range []string{`1`, `-1`, `true`, `false`, `[]`, `"x"`, `"1"`} {
		got := show(parse(f, o, `<tool_call>{"name": "f", "arguments": `+args+`}</tool_call>`))
		if strings.Contains(got, "<nil>") {
			t.Errorf("%s is a call:\n%s", args, got)
		}
	}
}

// Of a schema that admits strings and integers a text is a number where it is whole; others are strings.
func TestTextsOfStringsAndIntegers(t *testing.T) {
	for source, values := range map[string]map[string]string{
		`{"anyOf":[{"type":"string"},{"type":"integer"}]}`: {"3": `3`, "1.5": `"1.5"`, "2.0": `2.0`, "1e2": `1e2`,
			"1e-2": `"1e-2"`, "x": `"x"`},
		`{"type":["string","number"]}`:         {"1.5": `1.5`, "3": `3`},
		`{"type":["string"],"enum":["a",1.5]}`: {"1.5": `"1.5"`},
		`{"enum":["a",1]}`:                     {"1": `1`, "1.5": `"1.5"`},
		`{"type":"integer"}`:                   {"1.5": `1.5`}, // no string, whatever it is
	} {
		var at any
		if err := json.Unmarshal([]byte(source), &at); err != nil {
			t.Fatal(err)
		}
		for text, want := range values {
			if got := (schemaView{at, at}).textValue(text); got != want {
				t.Errorf("%s: %s is %s, want %s", source, text, got, want)
			}
		}
	}
}

// A call without arguments has an empty object in the prompt, however its message leaves them out.
func TestCallsWithoutArgumentsHaveAnEmptyObject(t *testing.T) {
	for _, o := range []Options{{}, {Arguments: ArgumentsText}, {Arguments: ArgumentsObject}} {
		tmpl := builtin(t, "chatml", o)
		want := `{"name": "f", "arguments": {}}`
		if o.Arguments == ArgumentsText {
			want = `{"name": "f", "arguments": "{}"}`
		}
		for _, arguments := range []string{"", " \n", "null", "{}"} {
			p, err := tmpl.Render(t.Context(), Conversation{Messages: []Message{User("a"),
				{Role: "assistant", ToolCalls: []ToolCall{{ID: "1", Name: "f", Arguments: arguments}}}}})
			if err != nil {
				t.Errorf("%q: %v", arguments, err)
			} else if !strings.Contains(p.Text(), want) {
				t.Errorf("%q: %q lacks %s", arguments, p.Text(), want)
			}
		}
	}
}
