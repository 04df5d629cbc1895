package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxGranite: <|tool_call|>[{"name": …, "arguments": {…}}, …].
const SyntaxGranite Syntax = "granite"

const graniteCalls = "<|tool_call|>"

var granite = syntax{
	name:   SyntaxGranite,
	detect: func(has func(string) bool, _ *Format) bool { return has("<|start_of_role|>") && has(graniteCalls) },
	marks:  []string{graniteCalls, toolCall, toolCallEnd},
	open:   []string{graniteCalls, toolCall},
	close:  toolCallEnd,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(graniteCalls)+"[", ", ", "]", o)
	},
}
