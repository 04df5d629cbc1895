package chat

import (
	"slices"
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxFunctionary32: >>>f, a line end and {…}; content behind >>>all; of Functionary 3.2. The prompt ends with the
// first >>>.
const SyntaxFunctionary32 Syntax = "functionary-3.2"

const (
	functionaryTo  = ">>>"
	functionaryAll = "all"
)

var functionary32 = syntax{
	name: SyntaxFunctionary32,
	detect: func(has func(string) bool, _ *Format) bool {
		return has(functionaryTo+functionaryAll) || has(functionaryTo+"${recipient}")
	},
	open:   []string{functionaryTo},
	answer: (*Parser).functionaryFirst,
	begin:  func(p *Parser, _ string) { p.state = (*Parser).functionaryTo },
	call: func(_ *Format, tool string, args *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		return grammar.Sequence(grammar.Text(tool+"\n"), args)
	},
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, "", functionaryTo, "", o) // the prompt has the first mark
	},
	asleep: func(_ *Format, calls *grammar.Grammar, _ *ToolGrammarOptions) *grammar.Grammar {
		after := grammar.Sequence(grammar.Text(functionaryTo), calls)
		return grammar.Choice(calls, grammar.Sequence(grammar.Text(functionaryAll+"\n"), grammar.Without(functionaryTo),
			grammar.Repeat(after, 0, 1)))
	},
}

// functionaryFirst is an answer's beginning: the recipient of its first part.
func (p *Parser) functionaryFirst() bool {
	p.raw = ""
	p.state = (*Parser).functionaryTo
	return true
}

// functionaryTo reads the recipient: all, or a tool.
func (p *Parser) functionaryTo() bool {
	before := p.buf
	name, mark, more := p.until("\n")
	if more && p.recipientBegins(p.buf) {
		return false
	}
	p.buf = before
	if mark == "" && p.closed && p.recipientBegins(before) && before != "" {
		if before == functionaryAll {
			p.buf = ""
			return false
		}
		return p.cutCall()
	}
	switch {
	case mark != "" && name == functionaryAll:
		p.buf = before[len(name)+len(mark):]
		p.raw = ""
		p.edge()
		p.state = (*Parser).content
	case mark != "" && offers(p.o.Tools, name):
		p.buf = before[len(name)+len(mark):]
		p.begin(name, "")
		p.raw = ""
		p.state = (*Parser).functionaryArgs
	default:
		return p.notACall("")
	}
	return true
}

// recipientBegins reports whether text may begin a recipient's line.
func (p *Parser) recipientBegins(text string) bool {
	is := func(name string) bool { return strings.HasPrefix(name, text) }
	return is(functionaryAll) || slices.ContainsFunc(p.o.Tools, func(t Tool) bool { return is(t.Name) })
}

// functionaryArgs tells arguments from a program.
func (p *Parser) functionaryArgs() bool {
	rest := strings.TrimLeft(p.buf, " \n\t\r")
	switch {
	case rest == "" && !p.closed:
		return false
	case rest == "" || rest[0] == '{':
		p.state = (*Parser).bareArgs
	default:
		p.state = (*Parser).programArgs
	}
	return true
}
