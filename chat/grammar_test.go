package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/testkit"
)

// byteTokens are the 256 bytes, then marks that are control tokens, then an end token.
type byteTokens []string

func (v byteTokens) Size() int { return 256 + len(v) + 1 }
func (v byteTokens) Bytes(id int32) []byte {
	if id < 256 {
		return []byte{byte(id)}
	}
	return nil
}
func (v byteTokens) Token(id int32) string {
	switch {
	case id < 256:
		return ""
	case int(id) < 256+len(v):
		return v[id-256]
	}
	return "<end>"
}
func (v byteTokens) IsEOG(id int32) bool { return int(id) == v.Size()-1 }
func (v byteTokens) ID(token string) (int32, bool) {
	for i, m := range v {
		if m == token {
			return int32(256 + i), true
		}
	}
	return 0, false
}

// ids are the tokens of text, its marks as control tokens.
func (v byteTokens) ids(text string) (ids []int32) {
next:
	for text != "" {
		for i, m := range v {
			if strings.HasPrefix(text, m) {
				ids, text = append(ids, int32(256+i)), text[len(m):]
				continue next
			}
		}
		ids, text = append(ids, int32(text[0])), text[1:]
	}
	return ids
}

// vocabularies are those of follows, by their marks.
var vocabularies = map[string]*grammar.Vocabulary{}

// follows reports how many tokens of text a grammar allows, of how many, and whether the text may end there.
func follows(t *testing.T, g *grammar.Grammar, v byteTokens, text string) (n, of int, final bool) {
	t.Helper()
	key := strings.Join(v, " ")
	if vocabularies[key] == nil {
		vocabularies[key] = grammar.NewVocabulary(v, grammar.VocabularyOptions{})
	}
	c, err := g.Bind(nil, vocabularies[key])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	state, ids := c.Start(), v.ids(text)
	for i, id := range ids {
		next, ok, err := c.Next(state, id)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return i, len(ids), false
		}
		state = next
	}
	return len(ids), len(ids), c.Final(state)
}

var weatherTools = []Tool{
	{Name: "get_weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},` +
		`"unit":{"type":"string","enum":["C","F"]},"days":{"type":"integer","minimum":1}},` +
		`"required":["city"],"additionalProperties":false,"description":"of the call"}`)},
	{Name: "now"},
}

// toolTexts are answers that grammars of calls allow, and changes that make them invalid.
var toolTexts = []struct {
	format  Format
	control []string // marks that are control tokens
	text    string   // two calls, or one where a format has no more
	change  [2]string
}{
	{Format{Syntax: SyntaxHermes}, nil, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": " +
		"\"Zürich\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
		[2]string{"3", "0"}},
	{Format{Syntax: SyntaxHermes}, []string{"<tool_call>", "</tool_call>"},
		"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\"}}\n</tool_call>",
		[2]string{"</tool_call>", "</tool_cal"}},
	{Format{}, nil,
		`[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x", "unit": "C"}}]`,
		[2]string{"C", "K"}},
	{Format{Syntax: SyntaxLlama3}, nil,
		`{"name": "now", "parameters": {}}; {"name": "get_weather", "parameters": {"city": "x"}}`, [2]string{"city", "town"}},
	{Format{Syntax: SyntaxMistral}, []string{"[TOOL_CALLS]"},
		`[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]`,
		[2]string{`"now"`, `"then"`}},
	{Format{Syntax: SyntaxMistral, Bare: true}, []string{"[TOOL_CALLS]", "[ARGS]"},
		`[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{"city": "x"}`, [2]string{`"x"`, `3`}},
	{Format{Syntax: SyntaxMistral}, []string{"[TOOL_CALLS]"},
		`[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "aB3456789"}]`, [2]string{`"aB3456789"`, `"aB345678"`}},
	{Format{Syntax: SyntaxMistral, Bare: true}, []string{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
		`[TOOL_CALLS]now[CALL_ID]aB3456789[ARGS]{}`, [2]string{`aB3456789`, `aB345678_`}},
	{Format{Syntax: SyntaxDSML, Open: "<｜DSML｜function_calls>"}, []string{dsml},
		"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" " +
			"string=\"true\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		[2]string{`true">3`, `false">3`}},
	{Format{Syntax: SyntaxGranite}, nil,
		`<|tool_call|>[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]`,
		[2]string{`now`, `nov`}},
	{Format{Syntax: SyntaxDeepSeek, Bare: true},
		[]string{deepseekCalls, deepseekCall, deepseekSep, deepseekCallEnd, deepseekEnd},
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>" +
			"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"x\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		[2]string{`{"city"`, `{"City"`}},
	{Format{Syntax: SyntaxDeepSeek}, nil,
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>\n" +
			"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"x\"}\n```" +
			"<｜tool▁call▁end｜><｜tool▁calls▁end｜>", [2]string{"function", "tool"}},
	{Format{Syntax: SyntaxHarmony}, harmonyMarks,
		"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"x\"}",
		[2]string{"get_weather", "get"}},
	{Format{Syntax: SyntaxMuse}, museMarks,
		" to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter " +
			"name=\"city\">a <|eot|> b</atem:parameter>\n<atem:parameter name=\"unit\">C</atem:parameter>\n</atem:invoke>\n" +
			"</atem:function_calls><|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke " +
			"name=\"now\">\n</atem:invoke>\n</atem:function_calls>", [2]string{">C", ">K"}},
	{Format{Syntax: SyntaxQwenXML}, nil,
		"<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich </x>\n</parameter>\n" +
			"<parameter=unit>\nF\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n" +
			"</function>\n</tool_call>", [2]string{"F", "K"}},
	{Format{Syntax: SyntaxGLM}, nil,
		"<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n" +
			"<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
		[2]string{"2", "two"}},
	{Format{Syntax: SyntaxGLM, Bare: true}, nil,
		"<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich</arg_value></tool_call><tool_call>now</tool_call>",
		[2]string{"now", "no"}},
	{Format{Syntax: SyntaxHermes}, nil, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>" +
		"<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", [2]string{"now", "no"}},
	{Format{Syntax: SyntaxKimi}, []string{kimiCalls, kimiCall, kimiArgs, kimiCallEnd, kimiEnd},
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}" +
			"<|tool_call_end|><|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>" +
			"{\"city\": \"x\"}<|tool_call_end|><|tool_calls_section_end|>", [2]string{":1", ":x"}},
	{Format{Syntax: SyntaxDSML, Open: "<｜DSML｜function_calls>"}, []string{dsml},
		"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" " +
			"string=\"true\">x</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" " +
			"string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke " +
			"name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", [2]string{"false\">2", "false\">x"}},
	{Format{Syntax: SyntaxGemma4}, []string{gemmaCall, gemmaCallEnd, gemmaQuote},
		`<|tool_call>call:get_weather{city:<|"|>Zürich "x" \y<|"|>,days:2,unit:<|"|>C<|"|>}<tool_call|>` +
			`<|tool_call>call:now{}<tool_call|>`, [2]string{"days:2", "days:0"}},
	{Format{Syntax: SyntaxGemma4}, nil,
		`<|tool_call>call:get_weather{city:<|"|>Zürich<|"|>,unit:<|"|>F<|"|>}<tool_call|>`, [2]string{`<|"|>F`, `"F`}},
	{Format{Syntax: SyntaxLFM2}, []string{lfmCalls, lfmEnd},
		`<|tool_call_start|>[get_weather(city="Zü\"r", unit="C", days=2), now()]<|tool_call_end|>`,
		[2]string{"days=2", "days=2.5"}},
	{Format{Syntax: SyntaxMiniMax}, []string{minimaxCalls, minimaxEnd},
		"<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">x</parameter>\n<parameter " +
			"name=\"unit\">C</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
		[2]string{">C", ">K"}},
	{Format{Syntax: SyntaxMiniMax3}, []string{minimaxMark},
		"]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>x]<]minimax[>[</city>" +
			"]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"now\">" +
			"]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>", [2]string{">3", ">0"}},
	{Format{Syntax: SyntaxMiniCPM}, nil, "<function name=\"get_weather\"><param name=\"city\"><![CDATA[<a> " +
		"</param>]]></param><param name=\"days\">3</param></function>\n<function name=\"now\"></function>",
		[2]string{">3", ">0"}},
	{Format{Syntax: SyntaxHunyuan}, nil, "<tool_calls:opensource>\n<tool_call:opensource>get_weather" +
		"<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>x" +
		"</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource>\n" +
		"</tool_call:opensource>\n</tool_calls:opensource>", [2]string{"city", "town"}},
	{Format{Syntax: SyntaxOLMo}, nil, "<function_calls>now()\nget_weather(city=\"x\", days=2)</function_calls>",
		[2]string{"days=2", "days=0"}},
	{Format{Syntax: SyntaxFunctionary31}, nil, `<function=get_weather>{"city": "x"}</function><function=now>{}</function>`,
		[2]string{"city", "town"}},
	{Format{Syntax: SyntaxFunctionary32}, nil, "get_weather\n{\"city\": \"x\"}>>>now\n{}", [2]string{"city", "town"}},
	{Format{Syntax: SyntaxApertus}, []string{apertusCalls, apertusEnd},
		`<|tools_prefix|>[{"now": {}}, {"get_weather": {"city": "x"}}]<|tools_suffix|>`, [2]string{"city", "town"}},
	{Format{Syntax: SyntaxApriel}, nil,
		`<tool_calls>[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]</tool_calls>`,
		[2]string{"now", "not"}},
	{Format{Syntax: SyntaxNemotron}, nil,
		`<TOOLCALL>[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]</TOOLCALL>`,
		[2]string{"now", "not"}},
	{Format{Syntax: SyntaxCommand}, []string{commandCalls, commandEnd},
		"<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}},\n    " +
			"{\"tool_call_id\": \"1\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"x\"}}\n]<|END_ACTION|>",
		[2]string{`"0"`, `"a"`}},
	{Format{Syntax: SyntaxCommandR}, nil,
		"Action:\n```json\n[\n    {\n        \"tool_name\": \"now\",\n        \"parameters\": {}\n    },\n    {\n        " +
			"\"tool_name\": \"get_weather\",\n        \"parameters\": {\"city\": \"x\"}\n    }\n]```",
		[2]string{`"now"`, `"nov"`}},
	{Format{Syntax: SyntaxFunctools}, nil,
		`functools[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]`,
		[2]string{"now", "not"}},
	{Format{Syntax: SyntaxFunctools, Open: phiCall}, []string{phiCall, phiCallEnd},
		`<|tool_call|>[{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}}]<|/tool_call|>`,
		[2]string{"now", "not"}},
	{Format{Syntax: SyntaxGigaChat, Open: gigaMark}, []string{gigaMark},
		`<|function_call|>{"name": "get_weather", "arguments": {"city": "x"}}`, [2]string{"get", "got"}},
	{Format{Syntax: SyntaxGigaChat, Open: gigaCall}, []string{gigaMessage, gigaRole},
		"<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"x\"}}",
		[2]string{"get", "got"}},
	{Format{Syntax: SyntaxSolar}, []string{solarCalls, solarCall, solarName, solarArgs, solarCallEnd},
		"<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>" +
			"<|tool_call:begin|>a1b2c3d4e6<|tool_call:name|>get_weather<|tool_call:args|>{\"city\": \"x\"}<|tool_call:end|>",
		[2]string{"a1b2c3d4e5", "a1b2c3d4e"}},
	{Format{Syntax: SyntaxLFM2}, nil, `<|tool_call_start|>[now(), now(any=None, b={"c": [True, 1.5]})]<|tool_call_end|>`,
		[2]string{"True", "true"}},
}

// TestToolGrammar: each format's grammar allows calls as the format's parser reads them, refuses others, sleeps until
// the mark of a call where calls are not required, and leaves reasoning free.
func TestToolGrammar(t *testing.T) {
	for _, x := range toolTexts {
		v := byteTokens(x.control)
		bad := strings.Replace(x.text, x.change[0], x.change[1], 1)
		o := ToolGrammarOptions{Required: true, Parallel: true, GrammarOptions: GrammarOptions{Control: ControlMarks(v)}}
		name := x.format.Syntax.String()
		g, err := x.format.ToolGrammar(weatherTools, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n, of, final := follows(t, g, v, x.text); n < of || !final {
			t.Errorf("%s: %d of %d tokens of %q, final %v", name, n, of, x.text, final)
		}
		if n, of, final := follows(t, g, v, bad); n == of && final {
			t.Errorf("%s: %q is allowed", name, bad)
		}
		if n, _, final := follows(t, g, v, "Hello."); n > 0 || final {
			t.Errorf("%s: text is allowed where a call is required", name)
		}
		p := NewParser(x.format, ParserOptions{Tools: weatherTools})
		calls := 0
		for _, e := range append(append([]Event(nil), p.Push(x.text)...), p.Close()...) {
			switch {
			case e.Kind == ToolCallEnd && e.Err == nil:
				calls++
			case e.Kind == ContentEvent || e.Kind == ToolCallEnd:
				t.Errorf("%s: parsed %+v", name, e)
			}
		}
		want := strings.Count(x.text, "now") + strings.Count(x.text, "get_weather")
		if x.format.Syntax == SyntaxMuse { // the recipient of a message, and what it calls
			want /= 2
		}
		if calls != want {
			t.Errorf("%s: %d calls, want %d", name, calls, want)
		}
		single := o
		single.Parallel = false
		if g, err = x.format.ToolGrammar(weatherTools, single); err != nil {
			t.Fatal(err)
		}
		if n, of, final := follows(t, g, v, x.text); (n == of && final) != (calls == 1) {
			t.Errorf("%s: %d calls where one is allowed", name, calls)
		}

		o.Required = false
		if g, err = x.format.ToolGrammar(weatherTools, o); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		texts := []string{x.text, "Hello < [ {there}.", ""}
		switch x.format.Syntax {
		case SyntaxJSON, SyntaxLlama3:
		case SyntaxHarmony:
			const thought = "<|channel|>analysis<|message|>so<|end|><|start|>assistant"
			texts = []string{x.text, "<|channel|>final<|message|>Hello < [ {there}.", thought + x.text,
				thought + "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + x.text}
			for _, more := range harmonyMarks {
				text := texts[1] + more
				if n, of, final := follows(t, g, byteTokens(harmonyMarks), text); n == of && final {
					t.Errorf("%s: %q is allowed", name, text)
				}
			}
		case SyntaxMuse:
			const thought = " to=self<|message|>so<|eom|><|start|>assistant"
			texts = []string{x.text, " to=user<|message|>Hello < [ {there}.", thought + thought + x.text,
				thought + " to=user<|message|>I look.<|eom|><|start|>assistant" + x.text}
			for _, more := range []string{museMessage, museEnd, museTurnEnd, museStart} {
				text := texts[1] + more
				if n, of, final := follows(t, g, byteTokens(museMarks), text); n == of && final {
					t.Errorf("%s: %q is allowed", name, text)
				}
			}
		case SyntaxFunctionary32:
			texts = []string{x.text, "all\nHello < [ {there}.", "all\nI look.>>>" + x.text}
		default:
			texts = append(texts, "I look: "+x.text+" Done.")
		}
		for _, text := range texts {
			if n, of, final := follows(t, g, v, text); n < of || !final {
				t.Errorf("%s: not required: %d of %d tokens of %q, final %v", name, n, of, text, final)
			}
		}
		for _, bad := range []string{bad, strings.Replace(texts[len(texts)-1], x.change[0], x.change[1], 1)} {
			if n, of, final := follows(t, g, v, bad); n == of && final && strings.Contains(bad, x.change[1]) {
				t.Errorf("%s: not required: %q is allowed", name, bad)
			}
		}
	}
}

// TestToolGrammarReasoning: reasoning is free before calls and content, and calls in it are none.
func TestToolGrammarReasoning(t *testing.T) {
	f := Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"}
	call := "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
	for text, in := range map[string]bool{"<think>a <tool_call> b</think>\n\n" + call: false,
		"a <tool_call> b</think>\n\n" + call: true} {
		for _, required := range []bool{true, false} {
			g, err := f.ToolGrammar(weatherTools, ToolGrammarOptions{
				Required: required, GrammarOptions: GrammarOptions{Reasoning: in}})
			if err != nil {
				t.Fatal(err)
			}
			if n, of, final := follows(t, g, nil, text); n < of || !final {
				t.Errorf("%d of %d tokens of %q", n, of, text)
			}
			if n, of, final := follows(t, g, nil, strings.Replace(text, "now", "no", 1)); n == of && final {
				t.Errorf("another tool is allowed behind reasoning")
			}
		}
	}
	object, err := grammar.ParseSchema(nil, []byte(`{"const":1}`), grammar.SchemaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"<think>2</think>\n1": true, "1": true, "2": false, "<think>1": false} {
		if n, of, final := follows(t, f.AnswerGrammar(object, GrammarOptions{}), nil, text); (n == of && final) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	h := Format{Syntax: SyntaxHarmony}
	v := byteTokens{"<|channel|>", "<|message|>", "<|end|>", "<|start|>"}
	for text, want := range map[string]bool{
		"<|channel|>final<|message|>1": true,
		"<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>1": true,
		"1": false, "<|channel|>final<|message|>2": false,
	} {
		g := h.AnswerGrammar(object, GrammarOptions{Control: ControlMarks(v)})
		if n, of, final := follows(t, g, v, text); (n == of && final) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// An answer of Muse's whose content is constrained may be reasoned about before, and begins with its recipient.
func TestAnswerGrammarOfMuse(t *testing.T) {
	object, err := grammar.ParseSchema(nil, []byte(`{"const":1}`), grammar.SchemaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := byteTokens(museMarks)
	g := (&Format{Syntax: SyntaxMuse}).AnswerGrammar(object, GrammarOptions{Control: ControlMarks(v)})
	for text, want := range map[string]bool{
		" to=user<|message|>1": true, " to=self<|message|>so<|eom|><|start|>assistant to=user<|message|>1": true,
		"1": false, " to=user<|message|>2": false, " to=self<|message|>1": false, " to=f<|message|>1": false,
	} {
		if n, of, final := follows(t, g, v, text); (n == of && final) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// numberOrText has a text that between tags would be a number, one that the schema does not have.
const numberOrText = `{"type":"object","properties":{"a":{"anyOf":[{"enum":["1","auto"]},` +
	`{"type":"integer","minimum":5}]}}}`

// TestToolGrammarRefuses: what a format cannot express is refused by name.
func TestToolGrammarRefuses(t *testing.T) {
	tool := func(parameters string) []Tool { return []Tool{{"f", []byte(parameters)}} }
	for _, x := range []struct {
		syntax Syntax
		tools  []Tool
		names  string
	}{
		{SyntaxHermes, nil, "none"}, {SyntaxHermes, []Tool{{Name: ""}}, "name"},
		{SyntaxHermes, []Tool{{Name: `a"b`}}, "name"},
		{SyntaxHermes, tool(`{"type":"object","not":{}}`), "no value is valid"},
		{SyntaxHermes, tool(`{"type":"array"}`), "object"},
		{SyntaxHermes, tool(`[`), "parameters"},
		{SyntaxGemma4, tool(`{"type":"object","properties":{"a b":{}}}`), "a b"},
		{SyntaxLFM2, tool(`{"type":"object","properties":{"a=b":{}}}`), "a=b"},
		{SyntaxGemma4, tool(`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}`), "pattern"},
		{SyntaxGemma4, tool(`{"type":"object","properties":{"a":{"type":"string","maxLength":3}}}`), "length"},
		{SyntaxGemma4, tool(`{"type":"object","properties":{"a":{"const":"<|\"|>"}}}`), "quote"},
		{SyntaxLFM2, tool(`{"type":"object","enum":[{}]}`), "call"},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":{"type":["string","array"],"maxItems":1}}}`),
			"between tags"},
		{SyntaxGLM, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer","minimum":3}]}}}`),
			"told apart"},
		{SyntaxDSML, tool(`{"type":"object","minProperties":1}`), "minProperties"},
		{SyntaxDSML, tool(`{"type":"object","minProperties":1,"maxProperties":2,"title":"a"}`), "maxProperties"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"array"}}}`), "lists"},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},` +
			`{"type":"string","enum":["\n</parameter>"]}]}}}`), "value"},
		{SyntaxGLM, tool(`{"type":"object","properties":{"a":5}}`), "object expected"},
		{SyntaxDSML, tool(`{"type":"object","properties":{"a":"string"}}`), "object expected"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"array","items":[]}}}`), "object expected"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/x"}}}}`), "#/x"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"array","items":{"type":["null","array"]}}}}`),
			`"a": items: lists`},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"$ref":"#/x"}}}}}`),
			"#/x"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"object","required":["b"]}}}`), "required"},
		{SyntaxDSML, tool(`{"type":"object","properties":{"a<":{"type":"null"}}}`), "a<"},
		{SyntaxGLM, tool(`{"type":"object","required":["a"]}`), "required"},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"minLength":3}}}`),
			"between tags"},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":{"oneOf":[{"enum":["x"]},{"type":"null"}],"maxLength":3}}}`),
			"between tags"},
		{SyntaxDSML, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":["string","array"],"maxItems":1},` +
			`{"type":"null"}]}}}`), "between tags"},
		{SyntaxDSML, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"anyOf":[5]}]}}}`),
			"object expected"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array"}}}}}`),
			`"a": "b": lists`},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":["string","integer"],"minLength":3}}}`),
			"between tags"},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":{"type":"string","enum":["\n</parameter>"]}}}`), "value"},
		{SyntaxGLM, tool(numberOrText), `value "1"`},
		{SyntaxQwenXML, tool(`{"type":"object","properties":{"a":null}}`), "object expected"},
		{SyntaxDSML, tool(`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},null]}}}`), "object expected"},
		{SyntaxMiniMax3, tool(`{"type":"object","properties":{"a":{"type":"array","items":null}}}`), "object expected"},
	} {
		f := Format{Syntax: x.syntax}
		if _, err := f.ToolGrammar(x.tools, ToolGrammarOptions{Required: true}); !errors.Is(err, ErrTool) ||
			!strings.Contains(err.Error(), x.names) {
			t.Errorf("%s, %s: %v", x.syntax, x.tools, err)
		}
	}
	for _, s := range []Syntax{SyntaxDSML, SyntaxMiniCPM} { // their tags say which it is
		if _, err := (&Format{Syntax: s}).ToolGrammar(tool(numberOrText), ToolGrammarOptions{Required: true}); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestToolGrammarOfTemplates: what real templates render for a call in the conversation is what the grammar allows.
func TestToolGrammarOfTemplates(t *testing.T) {
	seen := 0
	tools := []Tool{{"get_weather", []byte(`{"type":"object","properties":{"city":{"type":"string"},` +
		`"unit":{"type":"string","enum":["C","F"]}},"required":["city"]}`)}}
	forGoldens(t, func(t *testing.T, name string, tmpl *Template, golden *goldenFile) {
		source, err := os.ReadFile(testkit.Shared(t, "chat/templates", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		f := DetectFormat(string(source))
		if _, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true, Parallel: true}); err != nil {
			return // no grammar for the format
		}
		f.ThinkStart, f.ThinkEnd = "", "" // a call alone
		g, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true, Parallel: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range golden.Cases {
			if c.Name != "tool-call" || c.Text == "" || f.Syntax == SyntaxJSON || f.Syntax == SyntaxHarmony {
				continue
			}
			marks := f.Syntax.of().open
			if f.Open != "" {
				marks = []string{f.Open}
			}
			if f.Syntax == SyntaxLlama3 {
				marks = []string{`{"name": "get_weather", "parameters"`}
			}
			allowed := false // behind one of the marks
			for _, m := range marks {
				from := strings.LastIndex(c.Text, m)
				if from < 0 {
					continue
				}
				longest, _, _ := follows(t, g, nil, c.Text[from:])
				for n := longest; n > 0 && !allowed; n-- { // the call ends somewhere
					_, _, allowed = follows(t, g, nil, c.Text[from:from+n])
				}
			}
			if allowed {
				seen++
			} else {
				t.Logf("%s (%s): no call of the template is in the grammar", name, f.Syntax)
			}
		}
	})
	if t.Logf("%d templates", seen); seen < 39 {
		t.Errorf("calls of %d templates are in their format's grammar, 39 were", seen)
	}
}

// A tool's name is of ASCII letters, digits and . _ -, each of them, and of nothing that stands beside them.
func TestNamesOfToolsAreOfTheirCharacters(t *testing.T) {
	const good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	for r := range rune(0x180) {
		want := strings.ContainsRune(good, r)
		if err := checkTool(Tool{Name: "x" + string(r)}); (err == nil) != want {
			t.Errorf("%q: %v", r, err)
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, maxHeader: true, maxHeader + 1: false} {
		if err := checkTool(Tool{Name: strings.Repeat("a", n)}); (err == nil) != want {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestValuesBesideStrings: where tags say whether a value is a string, each listed value has the tags of its type.
func TestValuesBesideStrings(t *testing.T) {
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":{"enum":["x",null,{"k":1}]}},` +
		`"required":["a"]}`)}}
	for _, x := range []struct {
		format    Format
		text, end string
		json      string
	}{
		{Format{Syntax: SyntaxMiniCPM}, `<function name="f"><param name="a"><![CDATA[`, "]]></param></function>",
			`<function name="f"><param name="a">`},
		{Format{Syntax: SyntaxDSML, Open: "<｜DSML｜function_calls>"}, "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n" +
			"<｜DSML｜parameter name=\"a\" string=\"true\">",
			"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
			"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"false\">"},
	} {
		g, err := x.format.ToolGrammar(tools, ToolGrammarOptions{Required: true})
		if err != nil {
			t.Fatal(err)
		}
		for value, isText := range map[string]bool{"x": true, "null": false, `{"k":1}`: false} {
			for _, asText := range []bool{true, false} {
				text := x.json + value + strings.TrimPrefix(x.end, "]]>")
				if asText {
					text = x.text + value + x.end
				}
				if _, _, ok := follows(t, g, nil, text); ok != (isText == asText) {
					t.Errorf("%s: %q: %v", x.format.Syntax, text, ok)
				}
			}
		}
	}
}

// A list that needs no mark to be calls is not free text beside the calls of a grammar.
func TestFreeTextIsNoListOfCalls(t *testing.T) {
	for _, s := range []Syntax{SyntaxLFM2, SyntaxOLMo, SyntaxLlama3} {
		g, err := (&Format{Syntax: s}).ToolGrammar(weatherTools, ToolGrammarOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{"It is now.": true, "[now()]": false, "[get_weather(days=0)]": false} {
			if n, of, final := follows(t, g, nil, text); (n == of && final) != want {
				t.Errorf("%s: %q: %d of %d, %v", s, text, n, of, final)
			}
		}
	}
}

// TestListedNumbersKeepTheirDigits: a number that a schema lists is written as the schema has it.
func TestListedNumbersKeepTheirDigits(t *testing.T) {
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"integer",` +
		`"enum":[123456789012345678,7]},"b":{"const":{"k":[0.1000,12345678901234567890]}}},"required":["a"]}`)}}
	f := Format{Syntax: SyntaxGLM, Bare: true}
	g, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]bool{
		"<arg_key>a</arg_key><arg_value>123456789012345678</arg_value>": true,
		"<arg_key>a</arg_key><arg_value>123456789012345680</arg_value>": false,
		"<arg_key>a</arg_key><arg_value>7</arg_value>" +
			`<arg_key>b</arg_key><arg_value>{"k":[0.1000,12345678901234567890]}</arg_value>`: true,
	} {
		text := "<tool_call>f" + arguments + "</tool_call>"
		if n, of, final := follows(t, g, nil, text); (n == of && final) != want {
			t.Errorf("%q: %d of %d, want %v", text, n, of, want)
		}
	}
}

// TestTagsWithoutTheirLineEnd: a tag that stands on a line of its own ends a value also without the line end in front
// of it, for the grammar as for the parser.
func TestTagsWithoutTheirLineEnd(t *testing.T) {
	tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"string"},` +
		`"b":{"type":"string","maxLength":50}},"required":["a"]}`)}}
	f := Format{Syntax: SyntaxQwenXML}
	g, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true})
	if err != nil {
		t.Fatal(err)
	}
	for parameters, want := range map[string]string{
		"<parameter=a>\nx\ny</parameter>\n":                                           `{"a": "x\ny"}`,
		"<parameter=a>\nx\n\n</parameter>\n":                                          `{"a": "x\n"}`,
		"<parameter=a>\nx</parameter>y\n</parameter>\n":                               "",
		"<parameter=a>\nx\n</parameter>\n<parameter=b>\ny</param>\n</parameter>\n":    `{"a": "x", "b": "y</param>"}`,
		"<parameter=a>\nx\n</parameter>\n<parameter=b>\n</parameter>\n</parameter>\n": "",
	} {
		text := "<tool_call>\n<function=f>\n" + parameters + "</function>\n</tool_call>"
		if n, of, final := follows(t, g, nil, text); (n == of && final) != (want != "") {
			t.Errorf("%q: %d of %d", text, n, of)
		}
		got := ""
		for _, e := range parse(f, ParserOptions{Tools: tools}, text) {
			if e.Kind == ToolCallArgs {
				got += e.Text
			}
		}
		if want != "" && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	tools[0].Parameters = []byte(`{"type":"object","properties":{"a":{"type":"string","enum":["x</parameter>y"]}}}`)
	if _, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true}); !errors.Is(err, ErrTool) {
		t.Errorf("a listed value with the tag: %v", err)
	}
}

// TestNamesBetweenTags: names that would end a tag are refused, and others are not.
func TestNamesBetweenTags(t *testing.T) {
	f := Format{Syntax: SyntaxQwenXML}
	for name, can := range map[string]bool{"a b": true, "\ufffd": true, "é": true, "": false, "a<": false, "a>": false,
		"a\"": false, "a\n": false} {
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{
			name: map[string]any{"type": "string"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.ToolGrammar([]Tool{{Name: "f", Parameters: schema}}, ToolGrammarOptions{Required: true})
		if (err == nil) != can || err != nil && !errors.Is(err, ErrTool) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestArgumentsOfAnyType: a parameter whose schema says nothing has a form for strings and one for other values where
// the tags say which it is.
func TestArgumentsOfAnyType(t *testing.T) {
	for _, schema := range []string{`{}`, ` { } `, `true`, `{"title":"A"}`, `{"$ref":"#/$defs/any"}`} {
		tools := []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{"a":` + schema +
			`},"required":["a"],"$defs":{"any":{}}}`)}}
		f := Format{Syntax: SyntaxMiniCPM}
		g, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true})
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		for value, want := range map[string]bool{"<![CDATA[x]]>": true, `{"k": [1, "x"]}`: true, "true": true, `"x"`: false,
			"x": false} {
			text := `<function name="f"><param name="a">` + value + "</param></function>"
			if n, of, final := follows(t, g, nil, text); (n == of && final) != want {
				t.Errorf("%s: %q: %d of %d", schema, text, n, of)
			}
		}
	}
}

// Reading a tool's schema, whose parts may be looked up once for each place that refers to them, is counted like a
// grammar's source, and ends with the context.
func TestReadingArgumentsIsCounted(t *testing.T) {
	many := func(n int, property, more string) []Tool {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `"p%d":%s,`, i, property)
		}
		return []Tool{{Name: "f", Parameters: []byte(`{"type":"object","properties":{` + all.String() +
			`"z":{"type":"null"}}` + more + `}`)}}
	}
	blanks := strings.Repeat(" ", 1<<12)
	values := strings.TrimSuffix(strings.Repeat(`"aaaa",`, 5000), ",")
	deep := strings.Repeat(`{"$ref":"#/$defs/e"},`, 60) + `{"type":"null"}`
	for name, tools := range map[string][]Tool{
		"parts":  many(64, `{"$ref":"#/$defs/d"}`, `,"$defs":{"d":{"type":"string"`+blanks+`}}`),
		"lists":  many(64, `{"$ref":"#/$defs/d"}`, `,"$defs":{`+blanks+`"d":{"type":"string"}}`),
		"listed": many(1, `{"enum":[`+values+`]}`, ""),
		"visited": many(16, `{"anyOf":[{"$ref":"#/$defs/d"},{"$ref":"#/$defs/d"}]}`,
			`,"$defs":{"d":{"anyOf":[`+deep+`]},"e":{"type":"null"}}`),
	} {
		for _, s := range []Syntax{SyntaxQwenXML, SyntaxMiniMax3} {
			f := Format{Syntax: s}
			ctx, cancel := context.WithCancel(t.Context())
			compile := func(bytes int) error {
				b := grammar.NewBudget(ctx, grammar.Limits{Bytes: bytes})
				_, err := f.ToolGrammar(tools, ToolGrammarOptions{Required: true, GrammarOptions: GrammarOptions{Budget: b}})
				return err
			}
			if err := compile(1 << 16); !errors.Is(err, grammar.ErrLimit) || !strings.Contains(err.Error(), "Bytes") {
				t.Errorf("%s, %s: %v", name, s, err)
			}
			if err := compile(1 << 30); err != nil {
				t.Errorf("%s, %s: %v", name, s, err)
			}
			cancel()
			if err := compile(1 << 30); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s: %v", name, s, err)
			}
		}
	}
}

// TestTextGrammar: free text beside calls that must be well formed has none of the marks at which calls begin.
func TestTextGrammar(t *testing.T) {
	for _, x := range []struct {
		format   Format
		yes, no  string
		controls []string
	}{
		{Format{Syntax: SyntaxHermes}, "a <tool_cal", "a <tool_call>", nil},
		{Format{Syntax: SyntaxHermes}, "a <tool_cal", "a foo", nil},
		{Format{Syntax: SyntaxQwenXML, Open: seedCall, Bare: true}, "a <seed:tool_cal", "a <tool_call>", nil},
		{Format{Syntax: SyntaxLFM2}, "a [no()]", "a [now()]", nil},
		{Format{Syntax: SyntaxHarmony}, "a", "a<|end|><|start|>", harmonyMarks},
		{Format{Syntax: SyntaxMuse}, "a", "a<|eom|><|start|>", museMarks},
	} {
		v := byteTokens(x.controls)
		g, err := x.format.TextGrammar(weatherTools, []string{"foo"}, GrammarOptions{Control: ControlMarks(v)})
		if err != nil {
			t.Fatal(err)
		}
		if n, of, final := follows(t, g, v, x.yes); n < of || !final {
			t.Errorf("%s: %d of %d tokens of %q", x.format.Syntax, n, of, x.yes)
		}
		if n, of, final := follows(t, g, v, x.no); n == of && final {
			t.Errorf("%s: %q is allowed", x.format.Syntax, x.no)
		}
	}
	for _, s := range []Syntax{SyntaxJSON, SyntaxLlama3, SyntaxFunctionary32} {
		if _, err := (&Format{Syntax: s}).TextGrammar(weatherTools, nil, GrammarOptions{}); !errors.Is(err, ErrTool) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
