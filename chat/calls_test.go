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
	} {
		content, calls := contentOf(Format{Syntax: c.syntax}, c.text)
		if strings.TrimSpace(content) != strings.TrimSpace(c.content) || calls != c.calls {
			t.Errorf("%v: %s: %q and %d calls, want %q and %d", c.syntax, c.text, content, calls, c.content, c.calls)
		}
	}
}
