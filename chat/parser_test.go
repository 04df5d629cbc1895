package chat

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

const weatherCall = `{"city": "Zürich", "n": [1, -2.5e3, {"a": "}\"]"}], "z": null}`

var offered = []Tool{{Name: "get_weather",
	Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"zip":{"type":"string"}}}`)}}

// anyTools are tools of which the parser knows nothing.
var anyTools = []Tool{{Name: "f"}}

// parserCase is a text as a model writes it, with what it says.
type parserCase struct {
	name   string
	format Format
	o      ParserOptions
	text   string
	want   string // one event a line, as show writes them
}

// answers are such texts.
var answers = []parserCase{
	{"plain text", Format{}, ParserOptions{}, " Hello\n there. \n", "content: \" Hello\\n there. \\n\""},
	{"json without tools", Format{}, ParserOptions{}, `{"name": "f", "arguments": {}}`,
		`content: "{\"name\": \"f\", \"arguments\": {}}"`},
	{"empty", Format{ThinkStart: "<think>", ThinkEnd: "</think>"}, ParserOptions{Tools: anyTools}, "", ""},
	{"white space", Format{ThinkStart: "<think>", ThinkEnd: "</think>"}, ParserOptions{Tools: anyTools},
		" \n ", `content: " \n "`},
	{"qwen3", Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"}, ParserOptions{Tools: anyTools},
		"<think>\nHm, weather.\n\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " +
			weatherCall + "}\n</tool_call>\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
		"reasoning: \"Hm, weather.\"\ncontent: \"Let me look.\"\nstart 0: get_weather \nargs 0: " + weatherCall +
			"\nend 0:  <nil>\nstart 1: f \nargs 1: {}\nend 1:  <nil>"},
	{"reasoning opened by the prompt", Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{Reasoning: true},
		"\n so </thin </think>\n\n 4 </think>", "reasoning: \"so </thin\"\ncontent: \"4 </think>\""},
	{"reasoning without an end", Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{}, "<think>\na b \n", `reasoning: "a b"`},
	{"reasoning only at the start", Format{Syntax: SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{}, "The mark <think> opens.", `content: "The mark <think> opens."`},
	{"hermes without tools", Format{Syntax: SyntaxHermes}, ParserOptions{}, "<tool_call>\n{\"name\": \"f\"}",
		`content: "<tool_call>\n{\"name\": \"f\"}"`},
	{"hermes, arguments first", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"arguments": {"a": 1}, "x": [{}], "name": "f", "id": "c1"}</tool_call> done`,
		"start 0: f c1\nargs 0: {\"a\": 1}\nend 0: c1 <nil>\ncontent: \"done\""},
	{"hermes, arguments as text", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "f", "arguments": "{\"a\": \"é\"}"}</tool_call>`,
		"start 0: f \nargs 0: {\"a\": \"é\"}\nend 0:  <nil>"},
	{"hermes, arguments as no text", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "f", "arguments": " "}</tool_call><tool_call>{"arguments": "", "name": "f"}</tool_call>`,
		"start 0: f \nargs 0: {}\nend 0:  <nil>\nstart 1: f \nargs 1: {}\nend 1:  <nil>"},
	{"hermes, no call", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		"a <tool_call> is <tool_call>{\"x\": 1} and {\"name\": 3}",
		`content: "a <tool_call> is <tool_call>{\"x\": 1} and {\"name\": 3}"`},
	{"hermes, no name", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": 3}</tool_call>`, `content: "<tool_call>{\"name\": 3}</tool_call>"`},
	{"hermes, cut off", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "f", "arguments": {"a": `,
		"start 0: f \nargs 0: {\"a\": \nend 0:  chat: malformed or incomplete tool call"},
	{"hermes, cut off early", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call> {"name": "f", "argu`, "start 0: f \nend 0:  chat: malformed or incomplete tool call"},
	{"hermes, cut off before the name", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`Hm. <tool_call> {"na`, "content: \"Hm.\"\nend 0:  chat: malformed or incomplete tool call"},
	{"hermes, malformed", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"name": "f", "arguments": {"a" 1}} x`,
		"start 0: f \nargs 0: {\"a\" \nend 0:  chat: malformed or incomplete tool call\ncontent: \"1}} x\""},
	{"llama3", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		`{"name": "f", "parameters": {"a": 1}}; {"type": "function", "name": "g", "parameters": {}}`,
		"start 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>"},
	{"llama3, tag", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		`I look. <|python_tag|>{"name": "f", "parameters": {}}`,
		"content: \"I look.\"\nstart 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"llama3, an object that is no call", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools}, ` {"a": 1} `,
		`content: " {\"a\": 1} "`},
	{"json list", Format{}, ParserOptions{Tools: anyTools},
		`[{"name": "f", "arguments": {"a": 10}, "n": 1}, {"n": 12 ,"name": "g"}]`,
		"start 0: f \nargs 0: {\"a\": 10}\nend 0:  <nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>"},
	{"json, an object of another name", Format{}, ParserOptions{Tools: anyTools},
		`{"name": "Alice", "arguments": {"a": 1}} and {"name": "f"}`,
		`content: "{\"name\": \"Alice\", \"arguments\": {\"a\": 1}} and {\"name\": \"f\"}"`},
	{"json, a list of objects of another name", Format{}, ParserOptions{Tools: anyTools},
		`[{"arguments": {}, "name": "Alice"}, {"name": "f"}]`,
		`content: "[{\"arguments\": {}, \"name\": \"Alice\"}, {\"name\": \"f\"}]"`},
	{"llama3, an object of another name", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		`{"name": "Alice", "age": 3}`, `content: "{\"name\": \"Alice\", \"age\": 3}"`},
	{"llama3, OpenAI's form", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		`{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}`,
		"start 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>"},
	{"hermes, OpenAI's form", Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools},
		`<tool_call>{"id": "c", "function": {"arguments": "{\"a\": 1}", "name": "f"}}</tool_call>` +
			`<tool_call>{"function": {"name": "f"}}</tool_call><tool_call>{"function": {"a": 1}}</tool_call>`,
		"start 0: f c\nargs 0: {\"a\": 1}\nend 0: c <nil>\nstart 1: f \nargs 1: {}\nend 1:  <nil>\n" +
			"content: \"<tool_call>{\\\"function\\\": {\\\"a\\\": 1}}</tool_call>\""},
	{"llama3, tag, another name", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: anyTools},
		`<|python_tag|>{"name": "g", "parameters": {}}`, "start 0: g \nargs 0: {}\nend 0:  <nil>"},
	{"json, a list of numbers", Format{}, ParserOptions{Tools: anyTools}, `[1, 2]`, `content: "[1, 2]"`},
	{"mistral, old", Format{Syntax: SyntaxMistral}, ParserOptions{Tools: anyTools},
		`[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abc123456"}]`,
		"start 0: f \nargs 0: {\"a\": 1}\nend 0: abc123456 <nil>"},
	{"mistral", Format{Syntax: SyntaxMistral, ThinkStart: "[THINK]", ThinkEnd: "[/THINK]"},
		ParserOptions{Tools: anyTools}, `[THINK]so[/THINK]ok[TOOL_CALLS]get_weather[ARGS]` + weatherCall +
			`[TOOL_CALLS]g[CALL_ID]id0000001[ARGS]{}`,
		"reasoning: \"so\"\ncontent: \"ok\"\nstart 0: get_weather \nargs 0: " + weatherCall +
			"\nend 0:  <nil>\nstart 1: g id0000001\nargs 1: {}\nend 1:  <nil>"},
	{"mistral, no call", Format{Syntax: SyntaxMistral}, ParserOptions{Tools: anyTools}, "the [TOOL_CALLS] mark",
		`content: "the [TOOL_CALLS] mark"`},
	{"granite", Format{Syntax: SyntaxGranite}, ParserOptions{Tools: anyTools},
		`<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"a": []}}]`,
		"start 0: f \nargs 0: {}\nend 0:  <nil>\nstart 1: g \nargs 1: {\"a\": []}\nend 1:  <nil>"},
	{"deepseek r1", Format{Syntax: SyntaxDeepSeek, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{Tools: anyTools, Reasoning: true},
		"hm</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": " +
			"1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>" +
			"<｜tool▁calls▁end｜> x",
		"reasoning: \"hm\"\nstart 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>\nstart 1: g \nargs 1: {}\nend 1:  " +
			"<nil>\ncontent: \"x\""},
	{"deepseek v3.1", Format{Syntax: SyntaxDeepSeek}, ParserOptions{Tools: anyTools},
		"I see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": " +
			"1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"content: \"I see.\"\nstart 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>"},
	{"deepseek, no call", Format{Syntax: SyntaxDeepSeek}, ParserOptions{Tools: anyTools},
		"<｜tool▁calls▁begin｜> a <｜tool▁", `content: "<｜tool▁calls▁begin｜> a <｜tool▁"`},
	{"qwen3-coder", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: offered},
		"I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich " +
			"\"<b>\"\nnord\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=zip>\n8000\n</parameter>\n</function>" +
			"\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call> done",
		"content: \"I look.\"\nstart 0: get_weather \nargs 0: {\"city\": \"Zürich \\\"<b>\\\"\\nnord\", \"days\": 3, " +
			"\"zip\": \"8000\"}\nend 0:  <nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>\ncontent: \"done\""},
	{"qwen3-coder, no schema", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"<function=f><parameter=a>[1, 2]</parameter><parameter=b>\"x\"</parameter><parameter=c></parameter></function>",
		"start 0: f \nargs 0: {\"a\": [1, 2], \"b\": \"\\\"x\\\"\", \"c\": \"\"}\nend 0:  <nil>"},
	{"qwen3-coder, cut off", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2",
		"start 0: f \nargs 0: {\"a\": 1, \"b\": 2\nend 0:  chat: malformed or incomplete tool call"},
	{"qwen3-coder, an end tag in a value", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"<tool_call>\n<function=f>\n<parameter=a>\n<x>\n<parameter>1</parameter>\n</x>\n</parameter>\n<parameter=b>\n2\n" +
			"</parameter>\n</function>\n</tool_call>",
		"start 0: f \nargs 0: {\"a\": \"<x>\\n<parameter>1</parameter>\\n</x>\", \"b\": 2}\nend 0:  <nil>"},
	{"qwen3-coder, text behind a value", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"<function=f>\n<parameter=a>\n1\n</parameter>\nand so </parameter> on",
		"start 0: f \nargs 0: {\"a\": 1\nend 0:  chat: malformed or incomplete tool call\n" +
			"content: \"and so </parameter> on\""},
	{"qwen3-coder, no call", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"the <tool_call> tag and <function=a b> too", `content: "the <tool_call> tag and <function=a b> too"`},
	{"seed", Format{Syntax: SyntaxQwenXML}, ParserOptions{Tools: anyTools},
		"<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>",
		"start 0: f \nargs 0: {\"a\": \"x\"}\nend 0:  <nil>"},
	{"glm 4.6", Format{Syntax: SyntaxGLM, ThinkStart: "<think>", ThinkEnd: "</think>"}, ParserOptions{Tools: offered},
		"<think>hm</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n<arg_key>" +
			"zip</arg_key>\n<arg_value>8000</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
		"reasoning: \"hm\"\nstart 0: get_weather \nargs 0: {\"city\": \"Zürich\", \"zip\": \"8000\"}\nend 0:  " +
			"<nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>"},
	{"glm 4.7", Format{Syntax: SyntaxGLM}, ParserOptions{Tools: anyTools},
		"<tool_call>f<arg_key>a</arg_key><arg_value>{\"x\": 1}</arg_value></tool_call>ok<tool_call>a b</tool_call>",
		"start 0: f \nargs 0: {\"a\": {\"x\": 1}}\nend 0:  <nil>\ncontent: \"ok<tool_call>a b</tool_call>\""},
	{"glm, malformed", Format{Syntax: SyntaxGLM}, ParserOptions{Tools: anyTools},
		"<tool_call>f\n<arg_key>a</arg_key>oops</tool_call>",
		"start 0: f \nend 0:  chat: malformed or incomplete tool call\ncontent: \"oops</tool_call>\""},
	{"kimi", Format{Syntax: SyntaxKimi}, ParserOptions{Tools: anyTools},
		"Sure.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
			weatherCall + "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>" +
			"<|tool_calls_section_end|>",
		"content: \"Sure.\"\nstart 0: get_weather functions.get_weather:0\nargs 0: " + weatherCall +
			"\nend 0:  <nil>\nstart 1: g functions.g:1\nargs 1: {}\nend 1:  <nil>"},
	{"kimi, cut off", Format{Syntax: SyntaxKimi}, ParserOptions{Tools: anyTools},
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\"",
		"start 0: f functions.f:0\nargs 0: {\"a\"\nend 0:  chat: malformed or incomplete tool call"},
	{"deepseek v3.2", Format{Syntax: SyntaxDSML}, ParserOptions{Tools: anyTools},
		"Let me.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" " +
			"string=\"true\">1 & 2</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" " +
			"string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke " +
			"name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		"content: \"Let me.\"\nstart 0: f \nargs 0: {\"a\": \"1 & 2\", \"b\": [1]}\nend 0:  <nil>\nstart 1: g \nargs 1: " +
			"{}\nend 1:  <nil>"},
	{"deepseek v4", Format{Syntax: SyntaxDSML}, ParserOptions{Tools: anyTools},
		"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
		"start 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"gemma 4", Format{Syntax: SyntaxGemma4, ThinkStart: "<|channel>thought", ThinkEnd: "<channel|>"},
		ParserOptions{Tools: anyTools},
		"<|channel>thought\nhm<channel|>Ok.<|tool_call>call:f{city:<|\"|>Zü{\"r}, " +
			"x<|\"|>,n:[1,-2.5e3,{a:true}],o:{b:<|\"|><|\"|>},z:null}<tool_call|><|tool_call>call:g{}<tool_call|>",
		"reasoning: \"hm\"\ncontent: \"Ok.\"\nstart 0: f \nargs 0: {\"city\": \"Zü{\\\"r}, x\", \"n\": [1, -2.5e3, " +
			"{\"a\": true}], \"o\": {\"b\": \"\"}, \"z\": null}\nend 0:  <nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>"},
	{"gemma 4, no call", Format{Syntax: SyntaxGemma4}, ParserOptions{Tools: anyTools},
		"<|tool_call>call:f{a:}<tool_call|>x<|tool_call>call",
		"content: \"<|tool_call>call:f{a:}<tool_call|>x\"\nend 0:  chat: malformed or incomplete tool call"},
	{"lfm2", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools},
		"<|tool_call_start|>[f(city=\"Zü\\\"r\", n=[1, -2.5], o={'a': True, \"b\": None}), g()]<|tool_call_end|>Checking.",
		"start 0: f \nargs 0: {\"city\": \"Zü\\\"r\", \"n\": [1, -2.5], \"o\": {\"a\": true, \"b\": null}}\nend 0:  " +
			"<nil>\nstart 1: g \nargs 1: {}\nend 1:  <nil>\ncontent: \"Checking.\""},
	{"lfm2, json", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools},
		"<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|tool_call_end|>",
		"start 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>"},
	{"lfm2, no call", Format{Syntax: SyntaxLFM2}, ParserOptions{Tools: anyTools},
		"<|tool_call_start|>[f(1)]<|tool_call_end|>", `content: "<|tool_call_start|>[f(1)]<|tool_call_end|>"`},
	{"harmony", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		"<|channel|>analysis<|message|>Think. " +
			"<|end|><|start|>assistant<|channel|>commentary<|message|>Looking.<|end|><|start|>assistant<|channel|>commentary " +
			"to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>",
		"reasoning: \"Think. \"\ncontent: \"Looking.\"\nstart 0: f \nargs 0: {\"a\": 1}\nend 0:  <nil>"},
	{"harmony, recipient first", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		" to=functions.g<|channel|>commentary json<|message|>{\"a\": <|call|>",
		"start 0: g \nargs 0: {\"a\": \nend 0:  chat: malformed or incomplete tool call"},
	{"harmony, a channel without a start", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>final<|message|>a<|end|><|channel|>analysis<|message|>b<|end|> <|channel|>final<|message|>c<|return|>",
		"content: \"a\"\nreasoning: \"b\"\ncontent: \"c\""},
	{"harmony, final", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>final<|message|>Hello <|world.<|return|>", `content: "Hello <|world."`},
	{"llama 3, exact", Format{Syntax: SyntaxLlama3}, ParserOptions{Tools: weatherTools, Exact: true},
		`{"name": "now", "parameters": {}}`, "start 0: now \nargs 0: {}\nend 0:  <nil>"},
	{"llama 3, exact, JSON that names a tool", Format{Syntax: SyntaxLlama3},
		ParserOptions{Tools: weatherTools, Exact: true}, `{"name": "now", "place": {}}`,
		`content: "{\"name\": \"now\", \"place\": {}}"`},
	{"json, exact, a list", Format{}, ParserOptions{Tools: weatherTools, Exact: true},
		`[{"name": "now", "arguments": {}}]`, "start 0: now \nargs 0: {}\nend 0:  <nil>"},
	{"json, exact, an end within", Format{}, ParserOptions{Tools: weatherTools, Exact: true},
		`[{"name": "no`, `content: "[{\"name\": \"no"`},
	{"qwen xml, JSON with a mark in a string", Format{Syntax: SyntaxQwenXML, ThinkStart: "<think>", ThinkEnd: "</think>"},
		ParserOptions{Tools: anyTools, JSON: true}, `<think>a</think> {"a": "<function=f></function>"}`,
		"reasoning: \"a\"\ncontent: \"{\\\"a\\\": \\\"<function=f></function>\\\"}\""},
	{"llama 3, texts of which one has a call", Format{Syntax: SyntaxLlama3},
		ParserOptions{Tools: weatherTools, JSON: true}, `["a", "<|python_tag|>now.call(b)"]`,
		`content: "[\"a\", \"<|python_tag|>now.call(b)\"]"`},
	{"llama 3, no call, and one in a string", Format{Syntax: SyntaxLlama3},
		ParserOptions{Tools: weatherTools, JSON: true}, `{"parameters": 5, "a": "<|python_tag|>now.call(b)"}`,
		`content: "{\"parameters\": 5, \"a\": \"<|python_tag|>now.call(b)\"}"`},
	{"mistral, JSON beside calls: a call", Format{Syntax: SyntaxMistral}, ParserOptions{Tools: anyTools, JSON: true},
		`[TOOL_CALLS][{"name": "f", "arguments": {}}]`, "start 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"mistral, JSON beside calls: JSON", Format{Syntax: SyntaxMistral}, ParserOptions{Tools: anyTools, JSON: true},
		`["[TOOL_CALLS]"]`, `content: "[\"[TOOL_CALLS]\"]"`},
	{"hermes, JSON that is cut within a mark in a string", Format{Syntax: SyntaxHermes},
		ParserOptions{Tools: anyTools, JSON: true}, `{"a": "<tool_cal`, `content: "{\"a\": \"<tool_cal"`},
	{"command, JSON with marks in a string", Format{Syntax: SyntaxCommand}, ParserOptions{Tools: anyTools, JSON: true},
		`<|START_RESPONSE|>{"a": "<|END_RESPONSE|>\"<|START_ACTION|>["}<|END_RESPONSE|>`,
		`content: "{\"a\": \"<|END_RESPONSE|>\\\"<|START_ACTION|>[\"}"`},
	{"command, JSON beside calls: a call", Format{Syntax: SyntaxCommand}, ParserOptions{Tools: anyTools, JSON: true},
		`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "]<|END_ACTION|>"}}]<|END_ACTION|>`,
		"start 0: f 0\nargs 0: {\"a\": \"]<|END_ACTION|>\"}\nend 0: 0 <nil>"},
	{"solar, JSON with marks in a string", Format{Syntax: SyntaxSolar, ThinkStart: "<|think|>", ThinkEnd: "<|end|>"},
		ParserOptions{Tools: anyTools, JSON: true},
		`<|think|>a<|end|><|begin|>assistant<|content|>{"a": "<|end|><|tool_calls|>"}<|end|>`,
		"reasoning: \"a\"\ncontent: \"{\\\"a\\\": \\\"<|end|><|tool_calls|>\\\"}\""},
	{"solar, a mark in a call's string", Format{Syntax: SyntaxSolar}, ParserOptions{Tools: anyTools},
		`<|tool_calls|><|tool_call:begin|>abc<|tool_call:name|>f<|tool_call:args|>{"a": "<|tool_call:end|><|calls|>"}` +
			`<|tool_call:end|><|calls|>`,
		"start 0: f abc\nargs 0: {\"a\": \"<|tool_call:end|><|calls|>\"}\nend 0:  <nil>"},
	{"harmony, JSON with marks in a string", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools, JSON: true},
		`<|channel|>analysis<|message|>"a<|end|><|start|>assistant<|channel|>final<|message|>{"a": "<|end|><|start|>"}` +
			`<|return|>`,
		"reasoning: \"\\\"a\"\ncontent: \"{\\\"a\\\": \\\"<|end|><|start|>\\\"}\""},
	{"harmony, a quotation mark in front of a call", Format{Syntax: SyntaxHarmony},
		ParserOptions{Tools: anyTools, JSON: true},
		`<|channel|>commentary<|message|>"Look.<|end|><|start|>assistant to=functions.f<|channel|>commentary<|message|>{}` +
			`<|call|>`,
		"content: \"\\\"Look.\"\nstart 0: f \nargs 0: {}\nend 0:  <nil>"},
	{"harmony, a mark in a string", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		" to=functions.g<|channel|>commentary<|message|>{\"a\": \"<|end|>\\\"<|start|>\"} <|call|>",
		"start 0: g \nargs 0: {\"a\": \"<|end|>\\\"<|start|>\"} \nend 0:  <nil>"},
	{"harmony, no arguments", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		" to=functions.g<|channel|>commentary<|message|> <|call|>", "start 0: g \nargs 0:  {}\nend 0:  <nil>"},
	{"harmony, cut off in front of arguments", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		" to=functions.g<|channel|>commentary<|message|>",
		"start 0: g \nend 0:  chat: malformed or incomplete tool call"},
	{"harmony, arguments that are no object", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		" to=functions.g<|channel|>commentary<|message|>[\"<|end|><|start|>assistant<|channel|>final<|message|>a",
		"start 0: g \nargs 0: [\"\nend 0:  chat: malformed or incomplete tool call\ncontent: \"a\""},
	{"harmony, no tools offered", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		" to=functions.g<|channel|>commentary<|message|>{}<|call|>", "end 0:  chat: malformed or incomplete tool call"},
	{"harmony, no channel", Format{Syntax: SyntaxHarmony}, ParserOptions{}, "Hello world.", `content: "Hello world."`},
	{"harmony, cut off", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>analysis<|message|>I ", `reasoning: "I "`},
	{"harmony, cut off in the first header", Format{Syntax: SyntaxHarmony}, ParserOptions{}, "<|channel|>ana", ""},
	{"harmony, cut off behind a role", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>analysis<|message|>I.<|end|><|start|>assistant", `reasoning: "I."`},
	{"harmony, cut off in the second header", Format{Syntax: SyntaxHarmony}, ParserOptions{},
		"<|channel|>analysis<|message|>I.<|end|><|start|>assistant<|channel|>final", `reasoning: "I."`},
	{"harmony, cut off in a call's header", Format{Syntax: SyntaxHarmony}, ParserOptions{Tools: anyTools},
		"<|channel|>commentary to=functions.f <|constrain|>js", "end 0:  chat: malformed or incomplete tool call"},
}

// merge joins texts of one kind in a row.
func merge(all, events []Event) []Event {
	for _, e := range events {
		if n := len(all) - 1; n >= 0 && (e.Kind <= ReasoningEvent || e.Kind == ToolCallArgs) && all[n].Kind == e.Kind &&
			all[n].Call == e.Call {
			all[n].Text += e.Text
			continue
		}
		all = append(all, e)
	}
	return all
}

func show(events []Event) string {
	var out []string
	for _, e := range events {
		switch e.Kind {
		case ContentEvent:
			out = append(out, fmt.Sprintf("content: %q", e.Text))
		case ReasoningEvent:
			out = append(out, fmt.Sprintf("reasoning: %q", e.Text))
		case ToolCallStart:
			out = append(out, fmt.Sprintf("start %d: %s %s", e.Call, e.Name, e.ID))
		case ToolCallArgs:
			out = append(out, fmt.Sprintf("args %d: %s", e.Call, e.Text))
		case ToolCallEnd:
			out = append(out, fmt.Sprintf("end %d: %s %v", e.Call, e.ID, e.Err))
		}
	}
	return strings.Join(out, "\n")
}

func parse(f Format, o ParserOptions, pieces ...string) []Event {
	p := NewParser(f, o)
	var all []Event
	for _, s := range pieces {
		all = merge(all, p.Push(s))
	}
	return merge(all, p.Close())
}

// TestParser: whole, in two pieces at every cut, and byte by byte.
func TestParser(t *testing.T) {
	step := 13
	if testkit.IsLong(t) {
		step = 1
	}
	for _, a := range append(answers[:len(answers):len(answers)], moreAnswers...) {
		whole := parse(a.format, a.o, a.text)
		if got := show(whole); got != a.want {
			t.Errorf("%s:\n got %s\nwant %s", a.name, got, a.want)
		}
		for i := range len(a.text) {
			if got := parse(a.format, a.o, a.text[:i], a.text[i:]); !reflect.DeepEqual(got, whole) {
				t.Errorf("%s, cut at %d:\n%s", a.name, i, show(got))
			}
			for j := i + 1 + i%step; j < len(a.text); j += step {
				if got := parse(a.format, a.o, a.text[:i], a.text[i:j], a.text[j:]); !reflect.DeepEqual(got, whole) {
					t.Fatalf("%s, cut at %d and %d:\n%s", a.name, i, j, show(got))
				}
			}
		}
		if got := parse(a.format, a.o, strings.Split(a.text, "")...); !reflect.DeepEqual(got, whole) {
			t.Errorf("%s, character by character:\n%s", a.name, show(got))
		}
	}
}

// TestLongParser: cut at every two places.
func TestLongParser(t *testing.T) {
	testkit.Long(t)
	TestParser(t)
}

// TestParserStreams: text and arguments come out as soon as they are read.
func TestHarmonyRecipients(t *testing.T) {
	for header, want := range map[string]string{
		"assistant to=functions.f": "functions.f", "assistant to=functions.f<|channel|>commentary": "functions.f",
		"assistant<|channel|>commentary to=functions.f <|constrain|>json": "functions.f", "assistant to=f\nx": "f",
		"assistant": "", "to=": "", "to= f": "", "to=<|channel|>": "", "to=assistant": "", "to=user x": "", "to=all<x": "",
		"to=users": "users",
	} {
		if got := harmonyRecipient(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestParserStreams(t *testing.T) {
	p := NewParser(Format{Syntax: SyntaxHermes}, ParserOptions{Tools: anyTools})
	for _, c := range []struct{ text, want string }{
		{"Hello <to", `content: "Hello"`},
		{"m>", `content: " <tom>"`},
		{`<tool_call>{"name": "f", "arguments": {"a`, "start 0: f \nargs 0: {\"a"},
		{`": 1`, `args 0: ": 1`},
		{`}`, `args 0: }`},
		{`}`, `end 0:  <nil>`},
	} {
		if got := show(p.Push(c.text)); got != c.want {
			t.Errorf("after %q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}
