package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxApriel: <tool_calls>[{"name": …, "arguments": {…}}, …]</tool_calls>.
const SyntaxApriel Syntax = "apriel"

const (
	aprielCalls = "<tool_calls>"
	aprielEnd   = "</tool_calls>"

	// aprielStart is the line at which Apriel's reasoning begins. Its templates render it as part of the reasoning.
	aprielStart = "Here are my reasoning steps:\n"
)

var apriel = syntax{
	name:   SyntaxApriel,
	detect: func(has func(string) bool, _ *Format) bool { return has(aprielCalls+"[") && has(aprielEnd) },
	marks:  []string{aprielCalls, aprielEnd},
	open:   []string{aprielCalls},
	close:  aprielEnd,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(aprielCalls)+"[", ", ", "]"+o.mark(aprielEnd), o)
	},
}
