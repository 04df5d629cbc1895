package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxDeepSeek: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name and the
// arguments as a block of JSON; since V3.1 a name, <｜tool▁sep｜> and arguments (Bare).
const SyntaxDeepSeek Syntax = "deepseek"

const (
	deepseekCalls   = "<｜tool▁calls▁begin｜>"
	deepseekCall    = "<｜tool▁call▁begin｜>"
	deepseekSep     = "<｜tool▁sep｜>"
	deepseekCallEnd = "<｜tool▁call▁end｜>"
	deepseekEnd     = "<｜tool▁calls▁end｜>"
	deepseekBlock   = "```json"
)

var deepseek = syntax{
	name: SyntaxDeepSeek,
	detect: func(has func(string) bool, f *Format) bool {
		f.Bare = !has(deepseekBlock)
		return has(deepseekCalls) || has("<｜Assistant｜>") // templates without tools too: the marks are the models'
	},
	marks: []string{deepseekCalls, deepseekEnd, deepseekCall, deepseekCallEnd, deepseekSep},
	open:  []string{deepseekCalls, deepseekCall},
	begin: func(p *Parser, mark string) {
		p.state = (*Parser).deepseekBetween
		if mark == deepseekCall {
			p.state = (*Parser).deepseekHeader
		}
	},
	between: (*Parser).deepseekBetween,
	call: func(f *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		before, behind := tool+o.mark(deepseekSep), ""
		if !f.Bare {
			before, behind = "function"+o.mark(deepseekSep)+tool+"\n"+deepseekBlock+"\n", "\n```"
		}
		return grammar.Sequence(grammar.Text(o.mark(deepseekCall)+before), args, grammar.Text(behind+o.mark(deepseekCallEnd)))
	},
	calls: func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		between := "\n"
		if f.Bare {
			between = ""
		}
		return several(call, o.mark(deepseekCalls), between, o.mark(deepseekEnd), o)
	},
}

// deepseekBetween is before, between and after the calls of one answer.
func (p *Parser) deepseekBetween() bool {
	return p.sectionBetween((*Parser).deepseekHeader, deepseekCall, deepseekEnd, deepseekCallEnd, "```")
}

// deepseekHeader reads a call's name: "function", the separator, the name and
// a line ```json, or, since V3.1, the name and the separator.
func (p *Parser) deepseekHeader() bool {
	before := p.buf
	name, mark, more := p.until(deepseekSep)
	if more {
		return false
	}
	name = strings.TrimSpace(name)
	if mark != "" && name == "function" {
		if name, mark, more = p.until(deepseekBlock); more {
			p.buf = before
			return false
		}
		name = strings.TrimSpace(name)
	}
	if mark == "" || name == "" || strings.ContainsAny(name, " \n\t\r") {
		if p.buf = before; p.cutIn("function"+deepseekSep) ||
			p.cutName(strings.TrimPrefix(before, "function"+deepseekSep)) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.begin(name, "")
	p.state = (*Parser).bareArgs
	return true
}
