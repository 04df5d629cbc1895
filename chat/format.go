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
)

var syntaxNames = [...]string{"json", "hermes", "llama3", "mistral", "granite", "harmony", "deepseek"}

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
}

// thinkMarks are the marks of reasoning that are known.
var thinkMarks = [...][2]string{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<seed:think>", "</seed:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"<|channel>thought\n", "<channel|>"},
}

// DetectFormat tells the format by what a template's source contains.
func DetectFormat(source string) *Format {
	has := func(s string) bool { return strings.Contains(source, s) }
	f := &Format{}
	switch {
	case has("<|channel|>") && has("<|message|>"):
		f.Syntax = SyntaxHarmony
		return f
	case has("<｜tool▁calls▁begin｜>"):
		f.Syntax = SyntaxDeepSeek
	case has("[TOOL_CALLS]"):
		f.Syntax = SyntaxMistral
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
}

// Marks returns the marks of reasoning and tool calls. A model may write them
// as control tokens; whoever feeds a [Parser] passes on their spelling then,
// see [Format.Spell].
func (f *Format) Marks() []string {
	var out []string
	if f.ThinkStart != "" {
		out = append(out, strings.TrimSpace(strings.TrimSuffix(f.ThinkStart, "thought\n")), f.ThinkEnd)
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
