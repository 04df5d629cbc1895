package chat

import (
	"encoding/json"
	"slices"
	"strings"
)

// Models that were trained with an interpreter of Python call it with a program instead of arguments.

// interpreters are the names under which such a tool is offered.
var interpreters = []string{"python", "ipython", "code_interpreter"}

// programArgs reads a program up to the answer's end, or the next call's mark, as the tool's argument.
func (p *Parser) programArgs() bool {
	text, found := "", false
	if p.syntax.name == SyntaxFunctionary32 {
		if text, found = p.upTo("\n" + functionaryTo); found {
			p.buf = "\n" + functionaryTo + p.buf
		}
	}
	switch {
	case found:
	case !p.closed && len(p.buf) <= maxCall:
		return false
	default:
		text, p.buf, p.searched = p.buf, "", 0
	}
	p.args("{" + quoted(p.programName()) + ": " + quoted(strings.TrimSpace(text)) + "}")
	p.end("", nil)
	p.edge()
	p.state = (*Parser).content
	return true
}

// programName is the name of the argument that takes the program: the first that the tool requires, or code.
func (p *Parser) programName() string {
	for _, t := range p.o.Tools {
		var s struct{ Required []string }
		if slices.Contains(interpreters, t.Name) && json.Unmarshal(t.Parameters, &s) == nil && len(s.Required) > 0 {
			return s.Required[0]
		}
	}
	return "code"
}

// pythonBehindTag is behind Llama's mark of a program: calls in JSON, a built-in tool's call as Python writes it, or a
// program.
func (p *Parser) pythonBehindTag() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.cutCall()
		}
		return false
	}
	if c := p.buf[0]; c == '{' || c == '[' {
		p.state = (*Parser).calls0
		return true
	}
	if name, rest, ok := strings.Cut(p.buf, ".call("); ok && offers(p.o.Tools, name) {
		p.buf = rest
		p.raw = ""
		p.begin(name, "")
		p.state = (*Parser).builtinArgs
		return true
	}
	if !p.closed && len(p.buf) <= maxHeader && p.builtinBegins() {
		return false
	}
	i := slices.IndexFunc(p.o.Tools, func(t Tool) bool { return slices.Contains(interpreters, t.Name) })
	if i < 0 {
		return p.notACall("")
	}
	p.raw = ""
	p.begin(p.o.Tools[i].Name, "")
	p.state = (*Parser).programArgs
	return true
}

// builtinBegins reports whether the text may begin a built-in tool's call.
func (p *Parser) builtinBegins() bool {
	return slices.ContainsFunc(p.o.Tools, func(t Tool) bool { return strings.HasPrefix(t.Name+".call(", p.buf) })
}

// builtinArgs reads a built-in tool's arguments, which end with the answer.
func (p *Parser) builtinArgs() bool {
	if !p.closed && len(p.buf) <= maxCall {
		return false
	}
	r := &literalReader{s: p.buf}
	ok := r.pythonArguments()
	p.args(r.out.String())
	var err error
	if !ok {
		err = ErrToolCall
	}
	p.buf = r.s
	p.end("", err)
	p.edge()
	p.state = (*Parser).content
	return true
}
