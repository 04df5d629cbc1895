package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxFunctionary31: <function=f>{…}</function>, and a program behind <|python_tag|>, of Functionary 3.1.
const SyntaxFunctionary31 Syntax = "functionary-3.1"

var functionary31 = syntax{
	name: SyntaxFunctionary31,
	detect: func(has func(string) bool, _ *Format) bool {
		return has(qwenFunction) && has(qwenFunctionEnd) && !has(qwenParameter)
	},
	marks: []string{pythonTag},
	open:  []string{qwenFunction, pythonTag},
	begin: func(p *Parser, mark string) {
		if p.state = (*Parser).functionaryHeader; mark == pythonTag {
			p.state = (*Parser).pythonBehindTag
		}
	},
	between: (*Parser).functionaryBehind,
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(qwenFunction+tool+">"), args, grammar.Text(qwenFunctionEnd))
	},
}

// functionaryHeader reads a call's name.
func (p *Parser) functionaryHeader() bool {
	before := p.buf
	name, mark, more := p.until(">")
	if more {
		return false
	}
	if mark == "" || !plainName(name) {
		if p.buf = before; p.cutName(before) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.begin(name, "")
	p.state = (*Parser).bareArgs
	return true
}

// functionaryBehind is behind a call's arguments.
func (p *Parser) functionaryBehind() bool {
	if !p.skipSpace() {
		p.raw = ""
		return false
	}
	if _, more := p.oneOf(qwenFunctionEnd); more {
		return false
	}
	if p.closed && strings.HasPrefix(qwenFunctionEnd, p.buf) {
		p.buf = ""
	}
	p.raw = ""
	p.edge()
	p.state = (*Parser).content
	return true
}
