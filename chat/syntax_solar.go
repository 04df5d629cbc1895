package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxSolar: <|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>f<|tool_call:args|>{…}<|tool_call:end|><|calls|>.
// Reasoning and content are messages with a mark each.
const SyntaxSolar Syntax = "solar"

const (
	solarCalls   = "<|tool_calls|>"
	solarCall    = "<|tool_call:begin|>"
	solarName    = "<|tool_call:name|>"
	solarArgs    = "<|tool_call:args|>"
	solarCallEnd = "<|tool_call:end|>"
	solarEnd     = "<|calls|>"
	solarThink   = "<|think|>"
	solarContent = "<|content|>"
	solarMessage = "<|begin|>"
	solarClose   = "<|end|>"
	solarID      = 10 // characters of a call's id
)

var solar = syntax{
	name: SyntaxSolar,
	detect: func(has func(string) bool, f *Format) bool {
		f.ThinkStart, f.ThinkEnd = solarThink, solarClose
		return has(solarCall) && has(solarArgs)
	},
	marks: []string{
		solarCalls, solarCall, solarName, solarArgs, solarCallEnd, solarEnd, solarContent, solarMessage, solarClose,
	},
	ends:    []string{solarEnd},
	open:    []string{solarCalls, solarCall},
	drop:    []string{solarMessage + "assistant", solarContent, solarClose},
	between: (*Parser).solarBetween,
	begin: func(p *Parser, mark string) {
		if p.state = (*Parser).solarBetween; mark == solarCall {
			p.state = (*Parser).solarHeader
		}
	},
	call: func(_ *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(o.mark(solarCall)), grammar.Repeat(alphanumeric("abcdefghijklmnopqrstuvwxyz"),
			solarID, solarID), grammar.Text(o.mark(solarName)+tool+o.mark(solarArgs)), args, grammar.Text(o.mark(solarCallEnd)))
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		// A call's own mark separates calls; the mark behind all of them ends the answer.
		begin := grammar.Text(o.mark(solarCalls))
		if !o.Parallel {
			return grammar.Sequence(begin, call)
		}
		return grammar.Sequence(begin, grammar.Repeat(call, 1, -1))
	},
}

// alphanumeric is a digit or one of letters.
func alphanumeric(letters string) *grammar.Grammar {
	all := []*grammar.Grammar{digit()}
	for _, c := range letters {
		all = append(all, grammar.Text(string(c)))
	}
	return grammar.Choice(all...)
}

func (p *Parser) solarBetween() bool {
	return p.sectionBetween((*Parser).solarHeader, solarCall, solarEnd, solarCallEnd)
}

// solarHeader reads a call's id and name.
func (p *Parser) solarHeader() bool {
	before := p.buf
	id, mark, more := p.until(solarName)
	if more {
		return false
	}
	name := ""
	if mark != "" {
		name, mark, more = p.until(solarArgs)
	}
	if more {
		p.buf = before
		return false
	}
	if name = strings.TrimSpace(name); mark == "" || !plainName(name) {
		if p.buf = before; p.closed && len(before) < maxHeader {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.begin(name, strings.TrimSpace(id))
	p.state = (*Parser).bareArgs
	return true
}
