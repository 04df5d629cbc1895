package chat

import (
	"strings"
	"testing"
)

// contentOf is the text of an answer that is no call, and the number of its calls.
func contentOf(f Format, text string) (content string, calls int) {
	for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
		content, calls = "", 0
		for _, e := range parse(f, ParserOptions{Tools: []Tool{{Name: "f"}}}, pieces...) {
			switch e.Kind {
			case ContentEvent:
				content += e.Text
			case ToolCallStart:
				calls++
			}
		}
	}
	return content, calls
}

// What stands behind calls and is none is content, to the last byte.
func TestTextBehindCallsIsKept(t *testing.T) {
	call := deepseekCall + "function" + deepseekSep + "f\n```json\n{}\n```" + deepseekCallEnd
	json := `{"name": "f", "arguments": {}}`
	for _, c := range []struct {
		syntax  Syntax
		text    string
		content string
		calls   int
	}{
		{SyntaxDeepSeek, deepseekCalls + call + deepseekEnd + "behind", "behind", 1},
		{SyntaxDeepSeek, deepseekCalls + call + call + deepseekEnd + "behind", "behind", 2},
		{SyntaxDeepSeek, "before" + deepseekCalls + call + deepseekEnd + "a call? " + deepseekSep,
			"beforea call? " + deepseekSep, 1},
		{SyntaxDeepSeek, deepseekCalls + call + deepseekEnd + "```x```", "```x```", 1},
		{SyntaxMistral, "[TOOL_CALLS][" + json + ", text", ", text", 1},
		{SyntaxMistral, "[TOOL_CALLS][" + json + ", " + json + "]", "", 2},
		{SyntaxMistral, "[TOOL_CALLS][" + json + "] text", " text", 1},
		{SyntaxMistral, "[TOOL_CALLS][" + json + "]", "", 1},
		{SyntaxMistral, "[TOOL_CALLS][" + json + ",", "", 1}, // cut off in front of the next
		{SyntaxHermes, "<tool_call>" + json + "</tool_call>", "", 1},
	} {
		content, calls := contentOf(Format{Syntax: c.syntax}, c.text)
		if strings.TrimSpace(content) != strings.TrimSpace(c.content) || calls != c.calls {
			t.Errorf("%v: %s: %q and %d calls, want %q and %d", c.syntax, c.text, content, calls, c.content, c.calls)
		}
	}
}

// White space behind the last call is no content, also where the text ends within it.
func TestSpaceBehindTheLastCallIsNoContent(t *testing.T) {
	const json = `{"name": "f", "arguments": {}}`
	for syntax, text := range map[Syntax]string{
		SyntaxHermes: "<tool_call>" + json + "</tool_call>\n \n", SyntaxMistral: "[TOOL_CALLS][" + json + "] \n",
	} {
		if content, calls := contentOf(Format{Syntax: syntax}, text); content != "" || calls != 1 {
			t.Errorf("%v: content %q, %d calls", syntax, content, calls)
		}
	}
}

// Calls in Python's notation that end anywhere, or in whose strings a backslash stands last, are none.
func TestPythonCallsMayEndAnywhere(t *testing.T) {
	const whole = `[f(a='x\'y\"z', b="\n\/", c=[1, {"k": None}], d=True), g()]`
	calls, end := readPythonCalls(whole)
	if end != wholeDone || len(calls) != 2 ||
		calls[0].args != `{"a": "x'y\"z", "b": "\n/", "c": [1, {"k": null}], "d": true}` || calls[1].args != "{}" {
		t.Errorf("%v %+v", end, calls)
	}
	for end := 1; end < len(whole); end++ {
		for _, more := range []string{"", "\\", "'", `"`} {
			calls, status := readPythonCalls(whole[:end] + more)
			complete := strings.HasSuffix(whole[:end]+more, ")") // all that is missing is the list's end
			if (status == wholeDone) != complete || status == wholeBad && more == "" {
				t.Errorf("%s: %v, %+v", whole[:end]+more, status, calls)
			}
		}
	}
}
