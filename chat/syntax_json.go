package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxJSON: the answer is {"name": …, "arguments": {…}}, or a list of such objects.
const SyntaxJSON Syntax = ""

var plainJSON = syntax{
	name: SyntaxJSON,
	detect: func(has func(string) bool, f *Format) bool {
		said := func(key string) bool { return has(`"`+key+`"`) || has(`\"`+key+`\"`) }
		f.Unknown = !said("name") || !said("arguments") && !said("parameters")
		return true
	},
	bare: true,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		if o.Parallel {
			return grammar.Choice(call, several(call, "[", ", ", "]", o))
		}
		return call
	},
}
