package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxMiniMax: <minimax:tool_call><invoke name="f"><parameter name="a">…</parameter></invoke></minimax:tool_call>, of
// MiniMax M2.
const SyntaxMiniMax Syntax = "minimax"

const (
	minimaxCalls        = "<minimax:tool_call>"
	minimaxEnd          = "</minimax:tool_call>"
	minimaxInvoke       = `<invoke name="`
	minimaxInvokeEnd    = "</invoke>"
	minimaxParameter    = `<parameter name="`
	minimaxParameterEnd = "</parameter>"
)

var minimax = syntax{
	name:   SyntaxMiniMax,
	detect: func(has func(string) bool, _ *Format) bool { return has(minimaxCalls) },
	marks:  []string{minimaxCalls, minimaxEnd},
	open:   []string{minimaxCalls},
	begin:  func(p *Parser, _ string) { p.taggedSection() },
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(minimaxCalls)+"\n", "\n", "\n"+o.mark(minimaxEnd), o)
	},
	tags: &tags{
		call: minimaxInvoke, nameEnd: `">`, sectionEnds: []string{minimaxEnd}, callEnd: minimaxInvokeEnd,
		argument: minimaxParameter, keyEnd: `">`, valueEnd: minimaxParameterEnd,
		writeCall: func(_ *Format, tool string, _ *ToolGrammarOptions) (begin, end string) {
			return minimaxInvoke + tool + "\">\n", minimaxInvokeEnd
		},
		writeArgument: func(_ *Format, name string, _ bool, _ *ToolGrammarOptions) (begin, end, behind string) {
			return minimaxParameter + name + `">`, minimaxParameterEnd, "\n"
		},
	},
}
