package chat

import (
	"github.com/specgo/spec/grammar"
)

// SyntaxFunctools: functools[{"name": …, "arguments": {…}}, …], of FireFunction and Phi-4-mini, which also writes
// <|tool_call|>[…]<|/tool_call|> (Open).
const SyntaxFunctools Syntax = "functools"

const (
	functools    = "functools["
	phiCall      = "<|tool_call|>"
	phiCallEnd   = "<|/tool_call|>"
	phiToolsMark = "<|tool|>"
)

var functoolsCalls = syntax{
	name: SyntaxFunctools,
	detect: func(has func(string) bool, f *Format) bool {
		if has(functools) {
			return true
		}
		f.Open = phiCall
		return has(phiToolsMark) && has("<|/tool|>")
	},
	marks: []string{phiCall, phiCallEnd},
	open:  []string{functools, phiCall},
	close: phiCallEnd,
	begin: func(p *Parser, mark string) {
		if p.state = (*Parser).calls0; mark == functools {
			p.array = true
			p.state = (*Parser).callObject
		}
	},
	calls: func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		if f.Open == phiCall {
			return several(call, o.mark(phiCall)+"[", ", ", "]"+o.mark(phiCallEnd), o)
		}
		return several(call, functools, ", ", "]", o)
	},
}
