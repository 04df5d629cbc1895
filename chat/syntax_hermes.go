package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxHermes: <tool_call>{"name": …, "arguments": {…}}</tool_call>, of Hermes and Qwen.
const SyntaxHermes Syntax = "hermes"

// Marks of Hermes, which other syntaxes have taken over.
const (
	toolCall    = "<tool_call>"
	toolCallEnd = "</tool_call>"
)

var hermes = syntax{
	name: SyntaxHermes,
	detect: func(has func(string) bool, _ *Format) bool {
		return has(toolCall) && has(`"arguments"`)
	},
	marks: []string{toolCall, toolCallEnd},
	open:  []string{toolCall},
	close: toolCallEnd,
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(toolCall)+"\n"), callObject(tool, "arguments", args),
			grammar.Text("\n"+o.mark(toolCallEnd)))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", "\n", "", o)
	},
}
