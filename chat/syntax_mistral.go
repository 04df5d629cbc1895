package chat

import (
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxMistral: [TOOL_CALLS][{"name": …, "arguments": {…}}, …], or [TOOL_CALLS]name[ARGS]{…} (Bare).
const SyntaxMistral Syntax = "mistral"

const (
	mistralCalls = "[TOOL_CALLS]"
	mistralID    = "[CALL_ID]"
	mistralArgs  = "[ARGS]"

	mistralIDSize = 9
)

var mistral = syntax{
	name: SyntaxMistral,
	detect: func(has func(string) bool, f *Format) bool {
		f.Bare = has(mistralArgs)
		return has(mistralCalls) || has("[AVAILABLE_TOOLS]")
	},
	marks: []string{mistralCalls, mistralID, mistralArgs},
	open:  []string{mistralCalls},
	begin: func(p *Parser, _ string) { p.state = (*Parser).mistral },
	call: func(f *Format, tool string, args *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		if f.Bare {
			id := grammar.Repeat(grammar.Sequence(grammar.Text(o.mark(mistralID)), mistralIDs()), 0, 1)
			return grammar.Sequence(grammar.Text(o.mark(mistralCalls)+tool), id, grammar.Text(o.mark(mistralArgs)), args)
		}
		id := grammar.Sequence(grammar.Text(`, "id": "`), mistralIDs(), grammar.Text(`"`))
		return grammar.Sequence(grammar.Text(`{"name": "`+tool+`", "arguments": `), args, grammar.Repeat(id, 0, 1),
			grammar.Text("}"))
	},
	calls: func(f *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		if f.Bare {
			return several(call, "", "", "", o)
		}
		return several(call, o.mark(mistralCalls)+"[", ", ", "]", o)
	},
}

// mistralIDs are those of calls, in the versions that have some: 9 letters or digits.
func mistralIDs() *grammar.Grammar {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return grammar.Repeat(alphanumeric(letters), mistralIDSize, mistralIDSize)
}

// mistral reads what follows [TOOL_CALLS]: a list of calls, or a name and
// [ARGS] and arguments, with an id before [ARGS] in some versions.
func (p *Parser) mistral() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.cutCall()
		}
		return false
	}
	if c := p.buf[0]; c == '[' || c == '{' {
		if p.buf[0] == '[' {
			if _, more := p.peek(mistralArgs, mistralID); more {
				return false
			}
		}
		p.state = (*Parser).calls0
		return true
	}
	before := p.buf
	name, mark, more := p.until(mistralID, mistralArgs, "{")
	if more {
		return false
	}
	id := ""
	if mark == mistralID {
		if id, mark, more = p.until(mistralArgs); more {
			p.buf = before
			return false
		}
	}
	if name = strings.TrimSpace(name); mark == "" || name == "" || strings.ContainsAny(name, " \n\t\r") {
		if p.buf = before; p.cutName(strings.SplitN(before, "[", 2)[0]) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	if mark == "{" {
		p.buf = "{" + p.buf
	}
	p.begin(name, strings.TrimSpace(id))
	p.state = (*Parser).bareArgs
	return true
}
