package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxKimi: <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}, of Kimi
// K2.
const SyntaxKimi Syntax = "kimi"

const (
	kimiCalls   = "<|tool_calls_section_begin|>"
	kimiCall    = "<|tool_call_begin|>"
	kimiArgs    = "<|tool_call_argument_begin|>"
	kimiCallEnd = "<|tool_call_end|>"
	kimiEnd     = "<|tool_calls_section_end|>"
)

var kimi = syntax{
	name:   SyntaxKimi,
	detect: func(has func(string) bool, _ *Format) bool { return has(kimiCalls) },
	marks:  []string{kimiCalls, kimiCall, kimiArgs, kimiCallEnd, kimiEnd},
	open:   []string{kimiCalls, kimiCall},
	begin: func(p *Parser, mark string) {
		p.state = (*Parser).kimiBetween
		if mark == kimiCall {
			p.state = (*Parser).kimiHeader
		}
	},
	between: (*Parser).kimiBetween,
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(
			grammar.Text(o.mark(kimiCall)+"functions."+tool+":"), grammar.Repeat(digit(), 1, 3),
			grammar.Text(o.mark(kimiArgs)), args, grammar.Text(o.mark(kimiCallEnd)))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.mark(kimiCalls), "", o.mark(kimiEnd), o)
	},
}

// kimiBetween is before, between and after the calls of one answer.
func (p *Parser) kimiBetween() bool {
	return p.sectionBetween((*Parser).kimiHeader, kimiCall, kimiEnd, kimiCallEnd)
}

// kimiHeader reads a call's id, functions.NAME:NUMBER.
func (p *Parser) kimiHeader() bool {
	before := p.buf
	id, mark, more := p.until(kimiArgs)
	if more {
		return false
	}
	id = strings.TrimSpace(id)
	if mark == "" {
		id = strings.TrimSpace(before)
	}
	name := strings.TrimPrefix(id, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	if mark == "" || !plainName(name) {
		if p.buf = before; p.cutName(name) || p.cutIn("functions.") {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.begin(name, id)
	p.state = (*Parser).bareArgs
	return true
}
