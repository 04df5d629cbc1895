package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxApertus: <|tools_prefix|>[{"f": {…}}, …]<|tools_suffix|>, the name as the key of the arguments.
const SyntaxApertus Syntax = "apertus"

const (
	apertusCalls = "<|tools_prefix|>"
	apertusEnd   = "<|tools_suffix|>"
)

var apertus = syntax{
	name:   SyntaxApertus,
	detect: func(has func(string) bool, _ *Format) bool { return has(apertusCalls) },
	marks:  []string{apertusCalls, apertusEnd},
	open:   []string{apertusCalls},
	close:  apertusEnd,
	keys:   callKeys{keyed: true},
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(`{"`+tool+`": `), args, grammar.Text("}"))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(apertusCalls)+"[", ", ", "]"+o.mark(apertusEnd), o)
	},
}
