package chat

import (
	"slices"
	"strings"
)

// Format is how a model writes its answers. The zero value has tool calls as
// plain JSON and no reasoning.
type Format struct {
	Syntax Syntax
	// ThinkStart and ThinkEnd enclose reasoning; "" if the format has none.
	// Harmony and Muse have channels instead.
	ThinkStart, ThinkEnd string

	// Bare says that the model writes the shorter of a syntax's two forms; Open is the mark around calls where a syntax
	// has several. The syntaxes say which. All forms and marks are read.
	Bare bool
	Open string

	// Unknown: the template tells no syntax; SyntaxJSON is a guess.
	Unknown bool
}

// thinkMarks are the marks of reasoning that are known.
var thinkMarks = [...][2]string{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<seed:think>", "</seed:think>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"<|channel>" + thoughtChannel, "<channel|>"},
	{"<mm:think>", "</mm:think>"},
	{aprielStart, "[BEGIN FINAL RESPONSE]"},
}

// thoughtChannel stands behind Gemma's mark of a channel; a line end follows it.
const thoughtChannel = "thought"

// DetectFormat tells the format by what a template's source contains.
func DetectFormat(source string) *Format {
	has := func(s string) bool { return strings.Contains(source, s) }
	var f Format
	var s *syntax
	for _, s = range syntaxes {
		f = Format{Syntax: s.name}
		if s.detect(has, &f) {
			break
		}
	}
	if s.channels != nil {
		return &f
	}
	for _, m := range thinkMarks {
		if f.ThinkStart != "" {
			break
		}
		if has(m[1]) {
			f.ThinkStart, f.ThinkEnd = m[0], m[1]
			break
		}
	}
	return &f
}

// Thinks reports whether answers may have reasoning in front of their content.
func (f *Format) Thinks() bool { return f.ThinkStart != "" || f.Syntax.of().channels != nil }

// Unmarked reports whether calls need no mark: an answer that begins as JSON may be one.
func (f *Format) Unmarked() bool { return f.Syntax.of().bare }

// startIsText says that the mark at which reasoning begins is part of its text.
func (f *Format) startIsText() bool { return f.ThinkStart == aprielStart }

// Opened reports whether a text in front of an answer ends inside of reasoning, and returns it from the mark on.
func (f *Format) Opened(text string) (reasoning bool, opening string) {
	mark := strings.TrimSpace(f.ThinkStart)
	if mark == "" || !strings.HasSuffix(strings.TrimSpace(text), mark) {
		return false, ""
	}
	return true, text[strings.LastIndex(text, mark):]
}

// Marks returns the marks of reasoning and tool calls. A model may write them
// as control tokens; whoever feeds a [Parser] passes on their spelling then,
// see [Format.Spell].
func (f *Format) Marks() []string {
	var out []string
	if f.ThinkStart != "" {
		out = append(out, strings.TrimSpace(strings.TrimSuffix(f.ThinkStart, thoughtChannel)), f.ThinkEnd)
	}
	return append(out, f.Syntax.of().marks...)
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
func (f *Format) EndMarks() []string { return slices.Clone(f.Syntax.of().ends) }
