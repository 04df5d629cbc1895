package chat

import (
	"slices"
	"strings"
	"testing"
)

const malformed = "chat: malformed or incomplete tool call"

var thinking = Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"}

// typedTools are tools whose schemas say of what type texts are.
var typedTools = []Tool{
	{"f", []byte(`{"type":"object","properties":{"text":{"type":"string"},"maybe":{"type":["string","null"]},
		"on":{"type":"boolean"},"count":{"anyOf":[{"type":"integer"},{"type":"null"}]},"either":{"oneOf":[{"type":"string"},
		{"type":"integer"}]},"list":{"type":"array","items":{"type":"string"}},"item":{"$ref":"#/$defs/item"}},
		"$defs":{"item":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}}}}}`)},
	{"python", []byte(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`)},
}

// moreAnswers are answers in further syntaxes, those that end early, and calls in reasoning; TestParser reads them too.
var moreAnswers = []parserCase{
	{"a list of calls without a mark", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools},
		" [f(a=\"]\\\")\", b=['x', {\"k\": 1}]), f()] Done.",
		"start 0: f \nargs 0: {\"a\": \"]\\\")\", \"b\": [\"x\", {\"k\": 1}]}\nend 0:  <nil>\n" +
			"start 1: f \nargs 1: {}\nend 1:  <nil>\ncontent: \"Done.\""},
	{"a list of calls without a mark, behind reasoning",
		Format{Syntax: SyntaxOLMo, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{Tools: anyTools, Reasoning: true}, "[f(a=1)]</think>\n\n[f(a=2)]",
		"reasoning: \"[f(a=1)]\"\nstart 0: f \nargs 0: {\"a\": 2}\nend 0:  <nil>"},
	{"a list that is cut within a call", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools}, "[f(a=1), f(b=\"x",
		"start 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>\nstart 1: f \nargs 1: {\"b\": \nend 1:  chat: malformed or " +
			"incomplete tool call"},
	{"a list that is cut within a name", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools}, "[f",
		"content: \"[f\""},
	{"a list of what is no tool", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools}, "[f(a=1), g()] x",
		"content: \"[f(a=1), g()] x\""},
	{"a list that is no call", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools}, "[f(x) is](a) link",
		"content: \"[f(x) is](a) link\""},
	{"calls in text are text", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools}, "Say [f(a=1)].",
		"content: \"Say [f(a=1)].\""},
	{"a list without tools", Format{Syntax: SyntaxLlama3}, ParserOptions{}, "[f(a=1)]", "content: \"[f(a=1)]\""},
	{"a call in reasoning that never ends", thinking, ParserOptions{Tools: anyTools, Reasoning: true},
		"I call. <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
		"reasoning: \"I call.\"\nstart 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"a call in reasoning that ends", thinking, ParserOptions{Tools: anyTools},
		"<think>maybe <tool_call>\n{\"name\": \"f\"}\n</tool_call>?</think>No.",
		"reasoning: \"maybe <tool_call>\\n{\\\"name\\\": \\\"f\\\"}\\n</tool_call>?\"\ncontent: \"No.\""},
	{"no call in reasoning that never ends", thinking, ParserOptions{Tools: anyTools, Reasoning: true},
		"a <tool_call> is b", "reasoning: \"a <tool_call> is b\""},
	{"reasoning that ends twice", thinking, ParserOptions{}, "</think>Hello.", "content: \"Hello.\""},
	{"reasoning in content", thinking, ParserOptions{Reasoning: true, Inline: true, Opening: "<think>\n"},
		"hm\n</think>\nHello.", "content: \"<think>\\nhm\\n</think>\\nHello.\""},
	{"a continued answer", thinking, ParserOptions{Continued: true}, " <think> goes on.",
		"content: \" <think> goes on.\""},
	{"continued reasoning", thinking, ParserOptions{Continued: true, Reasoning: true}, " goes on</think>ok",
		"reasoning: \" goes on\"\ncontent: \"ok\""},
	{"apriel", Format{Syntax: SyntaxApriel, ThinkStart: aprielStart, ThinkEnd: "[BEGIN FINAL RESPONSE]"},
		ParserOptions{Tools: anyTools, Reasoning: true},
		"one\n[BEGIN FINAL RESPONSE]\nHi.<tool_calls>[{\"name\": \"f\", \"arguments\": {}}]</tool_calls>",
		"reasoning: \"Here are my reasoning steps:\\none\"\ncontent: \"Hi.\"\nstart 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"granite, reasoning and a response", Format{Syntax: SyntaxGranite, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{Tools: anyTools}, "<think>hm</think>\n<response>Hi, <b>.</response>\n<|tool_call|>[{\"name\": \"f\"}]",
		"reasoning: \"hm\"\ncontent: \"Hi, <b>.\"\nstart 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"granite, another tag", Format{Syntax: SyntaxGranite}, ParserOptions{}, "<resp>a</response> <response>",
		"content: \"<resp>a</response> <response>\""},
	{"command", Format{Syntax: SyntaxCommand, ThinkStart: "<|START_THINKING|>", ThinkEnd: "<|END_THINKING|>"},
		ParserOptions{Tools: anyTools}, "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": " +
			"\"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
		"reasoning: \"hm\"\nstart 0: f 0\nargs 0: {\"a\": 1}\nend 0: 0 <nil>"},
	{"command, text", Format{Syntax: SyntaxCommand}, ParserOptions{}, "<|START_RESPONSE|>Hi.<|END_RESPONSE|>",
		"content: \"Hi.\""},
	{"command-r", Format{Syntax: SyntaxCommandR}, ParserOptions{Tools: anyTools},
		"Action:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {}\n    }\n]```",
		"start 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"command-r, no call", Format{Syntax: SyntaxCommandR}, ParserOptions{Tools: anyTools}, "Action: wait.",
		"content: \"Action: wait.\""},
	{"functionary 3.2", Format{Syntax: SyntaxFunctionary32}, ParserOptions{Tools: anyTools},
		"all\nLet me >>> see.>>>f\n{\"a\": 1}>>>f\n{}",
		"content: \"Let me >>> see.\"\nstart 0: f \nargs 0: {\"a\": 1}\nend 0:  " +
			"<nil>\nstart 1: f \nargs 1: {}\nend 1:  <nil>"},
	{"functionary 3.2, a program", Format{Syntax: SyntaxFunctionary32}, ParserOptions{Tools: typedTools},
		"python\nprint(1)\nx = 2", "start 0: python \nargs 0: {\"code\": \"print(1)\\nx = 2\"}\nend 0:  <nil>"},
	{"functionary 3.1", Format{Syntax: SyntaxFunctionary31}, ParserOptions{Tools: anyTools},
		"Ok. <function=f>{\"a\": 1}</function>", "content: \"Ok.\"\nstart 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>"},
	{"llama, a program", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: typedTools}, "<|python_tag|>print(1)",
		"start 0: python \nargs 0: {\"code\": \"print(1)\"}\nend 0:  <nil>"},
	{"llama, a built-in tool", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		"<|python_tag|>f.call(query=\"a b\")", "start 0: f \nargs 0: {\"query\": \"a b\"}\nend 0:  <nil>"},
	{"olmo", Format{Syntax: SyntaxOLMo}, ParserOptions{Tools: anyTools},
		"<function_calls>f(a=\"x\", b=None)\nf()</function_calls>",
		"start 0: f \nargs 0: {\"a\": \"x\", \"b\": null}\nend 0:  <nil>\nstart 1: f \nargs 1: {}\nend 1:  <nil>"},
	{"lfm2, cut off", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools}, "<|tool_call_start|>[f(), g(a=",
		"start 0: f \nargs 0: {}\nend 0:  <nil>\nstart 1: g \nargs 1: {\"a\": \nend 1:  " + malformed},
	{"types of tagged texts", Format{Syntax: SyntaxQwenXML, Bare: true}, ParserOptions{Tools: typedTools},
		"<function=f><parameter=text>1\n</parameter><parameter=maybe>null</parameter><parameter=on>True</parameter>" +
			"<parameter=count>None</parameter><parameter=either>7</parameter><parameter=list>['a', \"b\"]</parameter>" +
			"<parameter=item>{\"id\": 1}</parameter></function>",
		"start 0: f \nargs 0: {\"text\": \"1\\n\", \"maybe\": null, \"on\": true, \"count\": null, \"either\": 7, " +
			"\"list\": " +
			"[\"a\", \"b\"], \"item\": {\"id\": 1}}\nend 0:  <nil>"},
	{"minimax m3", Format{Syntax: SyntaxMiniMax3}, ParserOptions{Tools: typedTools},
		"]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke " +
			"name=\"f\">]<]minimax[>[<list>]<]minimax[>[<item>1]<]minimax[>[</item>" +
			"]<]minimax[>[</list>]<]minimax[>[<item>]<]minimax[>[<id>2]<]minimax[>[</id>]<]minimax[>[<name>3]<]minimax[>" +
			"[</name>" +
			"]<]minimax[>[</item>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
		"start 0: f \nargs 0: {\"list\": [\"1\"], \"item\": {\"id\": 2, \"name\": \"3\"}}\nend 0:  <nil>"},
	{"minicpm", Format{Syntax: SyntaxMiniCPM}, ParserOptions{Tools: typedTools},
		"<function name=\"f\"><param name=\"text\"><![CDATA[a</param>b]]></param><param name=\"on\">False</param></function>",
		"start 0: f \nargs 0: {\"text\": \"a</param>b\", \"on\": false}\nend 0:  <nil>"},
	{"hunyuan", Format{Syntax: SyntaxHunyuan}, ParserOptions{Tools: typedTools},
		"<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>text" +
			"</arg_key:opensource>\n<arg_value:opensource>7</arg_value:opensource>\n</tool_call:opensource>\n" +
			"</tool_calls:opensource>", "start 0: f \nargs 0: {\"text\": \"7\"}\nend 0:  <nil>"},
	{"solar", Format{Syntax: SyntaxSolar, ThinkStart: "<|think|>", ThinkEnd: "<|end|>"}, ParserOptions{Tools: anyTools},
		"<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>f<|tool_call:args|>{}" +
			"<|tool_call:end|><|calls|>", "reasoning: \"hm\"\nstart 0: f a1\nargs 0: {}\nend 0:  <nil>"},
	{"gemma 4, a channel that is begun again",
		Format{Syntax: SyntaxGemma4, ThinkStart: "<|channel>thought", ThinkEnd: "<channel|>"}, ParserOptions{},
		"<|channel><|channel><|channel>thought\nhm<channel|>Hi.", "reasoning: \"hm\"\ncontent: \"Hi.\""},
	{"gemma 4, another channel", Format{Syntax: SyntaxGemma4, ThinkStart: "<|channel>thought", ThinkEnd: "<channel|>"},
		ParserOptions{}, "<|channel>x", "content: \"<|channel>x\""},
	{"gemma 4, reasoning again", Format{Syntax: SyntaxGemma4, ThinkStart: "<|channel>thought", ThinkEnd: "<channel|>"},
		ParserOptions{}, "<|channel>thought<channel|>Hi.<|channel>thought\nso<channel|><channel|>",
		"content: \"Hi.\"\nreasoning: \"so\""},
	{"harmony, a tool that was not offered", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>commentary to=python <|constrain|>code<|message|>print()<|call|>", "end 0:  " + malformed},
	{"harmony, to an assistant", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>commentary to=assistant<|channel|>final<|message|>Hi.", "content: \"Hi.\""},
	{"harmony, a body that begins with a line end", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>analysis<|message|>\n hm<|end|><|start|>assistant<|channel|>final<|message|>\n  - one",
		"reasoning: \"\\n hm\"\ncontent: \"\\n  - one\""},
	{"harmony, reasoning in content", Format{Syntax: SyntaxHarmony}, ParserOptions{Inline: true},
		"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
		"content: \"<|channel|>analysis<|message|>hm<|end|>Hi.\""},
}

// A call that is cut anywhere behind half of its first mark is no content: a call was begun.
func TestCutCallsAreReported(t *testing.T) {
	for _, x := range toolTexts {
		s := x.format.Syntax.of()
		if s.bare || s.channels != nil || s.name == SyntaxFunctionary32 {
			continue // no mark says that a call begins
		}
		begun := func(n int) bool {
			return slices.ContainsFunc(s.open, func(m string) bool {
				return strings.HasPrefix(x.text[:n], m) || strings.HasPrefix(m, x.text[:n]) && 2*n >= len(m)
			})
		}
		for end := range len(x.text) {
			reported, content := false, ""
			for _, e := range parse(x.format, ParserOptions{Tools: weatherTools}, "Hm. "+x.text[:end]) {
				if e.Kind == ContentEvent {
					content += e.Text
				}
				reported = reported || e.Kind == ToolCallEnd
			}
			want := "Hm."
			if !begun(end) {
				want = "Hm. " + x.text[:end]
			} else if !reported {
				t.Errorf("%s: %q: no call is reported", s.name, x.text[:end])
			}
			if strings.TrimSpace(content) != strings.TrimSpace(want) {
				t.Errorf("%s: %q: content %q, want %q", s.name, x.text[:end], content, want)
			}
		}
	}
}
