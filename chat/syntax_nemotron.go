package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxNemotron: <TOOLCALL>[{"name": …, "arguments": {…}}, …]</TOOLCALL>, of Nemotron before 3.
const SyntaxNemotron Syntax = "nemotron"

const (
	nemotronCalls = "<TOOLCALL>"
	nemotronEnd   = "</TOOLCALL>"
)

var nemotron = syntax{
	name:   SyntaxNemotron,
	detect: func(has func(string) bool, _ *Format) bool { return has(nemotronCalls) },
	marks:  []string{nemotronCalls, nemotronEnd},
	open:   []string{nemotronCalls},
	close:  nemotronEnd,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(nemotronCalls)+"[", ", ", "]"+o.mark(nemotronEnd), o)
	},
}
