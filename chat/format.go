package chat

import (
	"slices"
	"strings"
)

// Syntax is how a model writes tool calls.
type Syntax int

const (
	SyntaxJSON     Syntax = iota // the answer is {"name": …, "arguments": {…}}, or a list of such objects
	SyntaxHermes                 // <tool_call>{"name": …, "arguments": {…}}</tool_call>: Hermes, Qwen
	SyntaxLlama3                 // {"name": …, "parameters": {…}}, with or without <|python_tag|> in front
	SyntaxMistral                // [TOOL_CALLS][{…}, …], or [TOOL_CALLS]name[ARGS]{…}
	SyntaxGranite                // <|tool_call|>[{…}, …]
	SyntaxHarmony                // channels: gpt-oss
	SyntaxDeepSeek               // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>…
	SyntaxQwenXML                // <tool_call><function=f><parameter=a>…</parameter></function></tool_call>: Qwen3-Coder, Nemotron, Seed
	SyntaxGLM                    // <tool_call>f<arg_key>a</arg_key><arg_value>…</arg_value></tool_call>: GLM 4.5 and later
	SyntaxKimi                   // <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}: Kimi K2
	SyntaxDSML                   // <｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">…: DeepSeek V3.2, V4
	SyntaxGemma4                 // <|tool_call>call:f{a:<|"|>…<|"|>}<tool_call|>
	SyntaxLFM2                   // <|tool_call_start|>[f(a="…")]<|tool_call_end|>
)

var syntaxNames = [...]string{"json", "hermes", "llama3", "mistral", "granite", "harmony", "deepseek", "qwen-xml", "glm", "kimi", "dsml", "gemma4", "lfm2"}

func (s Syntax) String() string {
	if s < 0 || int(s) >= len(syntaxNames) {
		return "unknown"
	}
	return syntaxNames[s]
}

// Format is how a model writes its answers. The zero value has tool calls as
// plain JSON and no reasoning.
type Format struct {
	Syntax Syntax
	// ThinkStart and ThinkEnd enclose reasoning; "" if the format has none.
	// Harmony has channels instead.
	ThinkStart, ThinkEnd string

	// Bare says that the model writes the shorter of a syntax's two forms: a name and arguments without a list and names of
	// keys (Mistral with [ARGS], DeepSeek since V3.1), no line ends between tags (GLM since 4.7) or around values (Seed). Both forms are read.
	Bare bool
	// Open is the mark around calls where a syntax has several: <seed:tool_call> of SyntaxQwenXML, <｜DSML｜tool_calls> and
	// <｜DSML｜function_calls> of SyntaxDSML. All are read.
	Open string
}

// thinkMarks are the marks of reasoning that are known.
var thinkMarks = [...][2]string{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<seed:think>", "</seed:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"<|channel>" + thoughtChannel, "<channel|>"},
}

// thoughtChannel stands behind Gemma's mark of a channel.
const thoughtChannel = "thought\n"

// DetectFormat tells the format by what a template's source contains.
func DetectFormat(source string) *Format {
	has := func(s string) bool { return strings.Contains(source, s) }
	f := &Format{}
	switch {
	case has("<|channel|>") && has("<|message|>"):
		f.Syntax = SyntaxHarmony
		return f
	case has(dsml):
		f.Syntax, f.Open = SyntaxDSML, "<"+dsml+"tool_calls>"
		if has("function_calls") {
			f.Open = "<" + dsml + "function_calls>"
		}
	case has("<｜tool▁calls▁begin｜>"):
		f.Syntax, f.Bare = SyntaxDeepSeek, !has("```json")
	case has("[TOOL_CALLS]"):
		f.Syntax, f.Bare = SyntaxMistral, has("[ARGS]")
	case has(kimiCalls):
		f.Syntax = SyntaxKimi
	case has(gemmaCall):
		f.Syntax = SyntaxGemma4
	case has("<|tool_list_start|>") || has(lfmCalls) || has("List of tools: "):
		f.Syntax = SyntaxLFM2
	case has("<arg_key>"):
		f.Syntax, f.Bare = SyntaxGLM, has("</arg_key><arg_value>")
	case has("<function=") && has("<parameter="):
		f.Syntax = SyntaxQwenXML
		if has("<seed:tool_call>") {
			f.Open, f.Bare = "<seed:tool_call>", true
		}
	case has("<|start_of_role|>") && has("<|tool_call|>"):
		f.Syntax = SyntaxGranite
	case has("<tool_call>") && has(`"arguments"`) && !has("<arg_key>") && !has("<function="):
		f.Syntax = SyntaxHermes
	case has("<|start_header_id|>") && (has(`"parameters"`) || has("<|python_tag|>")):
		f.Syntax = SyntaxLlama3
	}
	for _, m := range thinkMarks {
		if has(m[1]) || has(strings.ReplaceAll(m[1], "\n", `\n`)) {
			f.ThinkStart, f.ThinkEnd = m[0], m[1]
			break
		}
	}
	return f
}

// toolMarks are the marks of each syntax.
var toolMarks = map[Syntax][]string{
	SyntaxHermes:  {"<tool_call>", "</tool_call>"},
	SyntaxLlama3:  {"<|python_tag|>"},
	SyntaxMistral: {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
	SyntaxGranite: {"<|tool_call|>", "<tool_call>", "</tool_call>"},
	SyntaxHarmony: {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>"},
	SyntaxDeepSeek: {
		"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
	},
	SyntaxQwenXML: {"<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>"},
	SyntaxGLM:     {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
	SyntaxKimi:    {kimiCalls, kimiCall, kimiArgs, kimiCallEnd, kimiEnd},
	SyntaxDSML:    {dsml},
	SyntaxGemma4:  {gemmaCall, gemmaCallEnd, gemmaQuote},
	SyntaxLFM2:    {lfmCalls, lfmEnd},
}

// Marks returns the marks of reasoning and tool calls. A model may write them
// as control tokens; whoever feeds a [Parser] passes on their spelling then,
// see [Format.Spell].
func (f *Format) Marks() []string {
	var out []string
	if f.ThinkStart != "" {
		out = append(out, strings.TrimSpace(strings.TrimSuffix(f.ThinkStart, thoughtChannel)), f.ThinkEnd)
	}
	return append(out, toolMarks[f.Syntax]...)
}

// Spell returns the spelling of a token that is one of the format's marks, or
// "" if it is none: a tokenizer's decoder leaves control tokens out, and a
// [Parser] needs to see these.
func (f *Format) Spell(t interface{ Token(id int32) string }, id int32) string {
	s := t.Token(id)
	if s != "" && slices.Contains(f.Marks(), s) {
		return s
	}
	return ""
}

// EndMarks returns marks that end an answer beside the tokenizer's own ends of
// generation.
func (f *Format) EndMarks() []string {
	if f.Syntax == SyntaxHarmony {
		return []string{"<|return|>", "<|call|>"}
	}
	return nil
}
