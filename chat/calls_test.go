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

// The end tag of an argument that is a list or an object is part of the value within one of its strings.
func TestEndTagsWithinJSON(t *testing.T) {
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"array"},` +
		`"b":{"type":["integer","object"]},"c":{}},"required":["a"]}`)}}
	for _, x := range []struct {
		format     Format
		text, want string
	}{
		{Format{Syntax: SyntaxQwenXML}, "<tool_call>\n<function=f>\n<parameter=a>\n[\"x\\\"</parameter>\", 1]\n" +
			"</parameter>\n<parameter=b>\n3\n</parameter>\n</function>\n</tool_call>",
			`{"a": ["x\"</parameter>", 1], "b": 3}`},
		{Format{Syntax: SyntaxGLM, Bare: true}, "<tool_call>f<arg_key>a</arg_key><arg_value>[]</arg_value>" +
			`<arg_key>b</arg_key><arg_value>{"</arg_value>": {}}</arg_value></tool_call>`,
			`{"a": [], "b": {"</arg_value>": {}}}`},
		{Format{Syntax: SyntaxMiniCPM}, `<function name="f"><param name="a">["</param>"]</param></function>`,
			`{"a": ["</param>"]}`},
		{Format{Syntax: SyntaxMiniCPM}, `<function name="f"><param name="a">[]</param><param name="c">` +
			`{"</param>": 1}</param></function>`, `{"a": [], "c": {"</param>": 1}}`},
		{Format{Syntax: SyntaxMiniCPM}, `<function name="f"><param name="a">[]</param><param name="c">` +
			`<![CDATA[["]]></param></function>`, `{"a": [], "c": "[\""}`},
		{Format{Syntax: SyntaxDSML, Open: dsmlTools}, dsmlTools + "\n" + dsmlInvoke + "f\">\n" + dsmlParameter +
			`a" string="false">["` + dsmlParameterEnd + `"]` + dsmlParameterEnd + "\n" + dsmlInvokeEnd + "\n" + dsmlToolsEnd,
			`{"a": ["` + dsmlParameterEnd + `"]}`},
		// What is no JSON ends at the first tag.
		{Format{Syntax: SyntaxQwenXML}, "<tool_call>\n<function=f>\n<parameter=a>\n['x']\n</parameter>\n" +
			"</function>\n</tool_call>",
			`{"a": ["x"]}`},
	} {
		g, err := x.format.ToolGrammar(tools, ToolGrammarOptions{Required: true})
		if err != nil {
			t.Fatal(err)
		}
		if n, of, final := follows(t, g, nil, x.text); (n < of || !final) && !strings.Contains(x.text, "'") {
			t.Errorf("%s: %d of %d tokens of %q", x.format.Syntax, n, of, x.text)
		}
		for _, pieces := range [][]string{{x.text}, strings.SplitAfter(x.text, ""), strings.SplitAfter(x.text, ">")} {
			got := show(parse(x.format, ParserOptions{Tools: tools}, pieces...))
			if want := "start 0: f \nargs 0: " + x.want + "\nend 0:  <nil>"; got != want {
				t.Errorf("%s in %d pieces:\n%s\nwant\n%s", x.format.Syntax, len(pieces), got, want)
			}
		}
	}
}
