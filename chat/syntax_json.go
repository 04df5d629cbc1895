package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxJSON: the answer is {"name": …, "arguments": {…}}, or a list of such objects.
const SyntaxJSON Syntax = ""

var plainJSON = syntax{
	name:   SyntaxJSON,
	detect: func(func(string) bool, *Format) bool { return true },
	bare:   true,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		if o.Parallel {
			return grammar.Choice(call, several(call, "[", ", ", "]", o))
		}
		return call
	},
}
