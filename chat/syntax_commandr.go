package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxCommandR: a line "Action:" and a block of JSON, [{"tool_name": …, "parameters": {…}}, …].
const SyntaxCommandR Syntax = "command-r"

const (
	commandAction   = "Action:"
	commandBlock    = "```json"
	commandBlockEnd = "```"
)

var commandR = syntax{
	name:   SyntaxCommandR,
	detect: func(has func(string) bool, _ *Format) bool { return has(commandAction) && has(`"tool_name"`) },
	open:   []string{commandAction},
	close:  commandBlockEnd,
	drop:   []string{"<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
	keys:   callKeys{name: "tool_name"},
	begin:  func(p *Parser, _ string) { p.state = (*Parser).commandBlock },
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(
			grammar.Text("\n    {\n        \"tool_name\": \""+tool+"\",\n        \"parameters\": "), args,
			grammar.Text("\n    }"))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, commandAction+"\n"+commandBlock+"\n[", ",", "\n]"+commandBlockEnd, o)
	},
}

// commandBlock reads the beginning of the block of JSON.
func (p *Parser) commandBlock() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.cutCall()
		}
		return false
	}
	m, more := p.oneOf(commandBlock)
	switch {
	case more:
		return false
	case m == "" && p.closed && strings.HasPrefix(commandBlock, p.buf):
		return p.cutCall()
	case m == "":
		return p.notACall("")
	}
	p.raw += m
	p.state = (*Parser).calls0
	return true
}
