package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxCommand: <|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": {…}}, …]<|END_ACTION|>, of
// Command R7B and what came behind it. Content stands between marks too.
const SyntaxCommand Syntax = "command"

const (
	commandCalls = "<|START_ACTION|>"
	commandEnd   = "<|END_ACTION|>"
)

var command = syntax{
	name:   SyntaxCommand,
	detect: func(has func(string) bool, _ *Format) bool { return has(commandCalls) },
	marks: []string{
		commandCalls, commandEnd, "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
	},
	open:  []string{commandCalls},
	close: commandEnd,
	drop:  []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
	keys:  callKeys{name: "tool_name", id: "tool_call_id"},
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text("\n    "+`{"tool_call_id": "`), grammar.Repeat(digit(), 1, 3),
			grammar.Text(`", "tool_name": "`+tool+`", "parameters": `), args, grammar.Text("}"))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(commandCalls)+"[", ",", "\n]"+o.mark(commandEnd), o)
	},
}

// digit is one of them.
func digit() *grammar.Grammar {
	var digits []*grammar.Grammar
	for d := '0'; d <= '9'; d++ {
		digits = append(digits, grammar.Text(string(d)))
	}
	return grammar.Choice(digits...)
}
