package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxGigaChat: a message of the role "function call", {"name": …, "arguments": {…}}; since 3.1 behind
// <|function_call|> (Open).
const SyntaxGigaChat Syntax = "gigachat"

const (
	gigaMessage = "<|message_sep|>"
	gigaRole    = "<|role_sep|>"
	gigaCall    = gigaMessage + "\n\nfunction call" + gigaRole + "\n"
	gigaMark    = "<|function_call|>"
)

var gigaChat = syntax{
	name: SyntaxGigaChat,
	detect: func(has func(string) bool, f *Format) bool {
		if f.Open = gigaCall; has(gigaMark) {
			f.Open = gigaMark
		}
		return has(gigaRole) && has(gigaMessage)
	},
	marks: []string{gigaMessage, gigaRole, gigaMark},
	open:  []string{gigaCall, gigaMark},
	calls: func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		single := *o
		single.Parallel = false // its templates have one call in a message
		return several(call, o.spell(o.mark(f.Open)), "", "", &single)
	},
}
