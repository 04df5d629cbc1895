package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxGranite: <|tool_call|>[{"name": …, "arguments": {…}}, …].
const SyntaxGranite Syntax = "granite"

const (
	graniteCalls = "<|tool_call|>"

	// Content behind reasoning stands between these, as the template of 3.2 and 3.3 asks for.
	graniteResponse    = "<response>"
	graniteResponseEnd = "</response>"
)

var granite = syntax{
	name:   SyntaxGranite,
	detect: func(has func(string) bool, _ *Format) bool { return has("<|start_of_role|>") && has(graniteCalls) },
	marks:  []string{graniteCalls, toolCall, toolCallEnd},
	open:   []string{graniteCalls, toolCall},
	close:  toolCallEnd,
	answer: (*Parser).graniteAnswer,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(graniteCalls)+"[", ", ", "]", o)
	},
}

// graniteAnswer reads the mark in front of content.
func (p *Parser) graniteAnswer() bool {
	if !p.o.Inline {
		mark, more := p.oneOf(graniteResponse)
		if more {
			return false
		}
		if mark != "" {
			p.wrapEnd, p.trim = graniteResponseEnd, true
		}
	}
	p.state = (*Parser).content
	return true
}
