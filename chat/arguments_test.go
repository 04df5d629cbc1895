package chat

import (
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
