package jinja

import (
	"fmt"
	"slices"
)

// Bounds of the parser.
const (
	maxSource   = 1 << 20 // bytes of a template; the longest known has 20 kB
	longestName = 256     // bytes: a look-up is one step
	maxNest     = 150     // of brackets and of statements: recursion depth
	maxChain    = 400     // operators, filters or attributes in a row
)

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body  []stmt
	unset []string // names that are undefined at its beginning, whatever its variables are
}

// Parse reads a template. Errors wrap [ErrSyntax], [ErrUnsupported] or
// [ErrLimit] and are of type *[Error].
func Parse(src string) (t *Template, err error) {
	defer catch(&err)
	if len(src) > maxSource {
		return nil, &Error{Text: fmt.Sprintf("%d bytes of template, more than %d", len(src), maxSource),
			Kind: ErrLimit}
	}
	p := &parser{tokens: lex(src)}
	body := p.statements("")
	return &Template{body, unsetOf(body)}, nil
}

type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // for statements around, within the macro
	// Within an if, unknown filters and tests are errors when they are reached,
	// as in Jinja: templates ask first which implementation runs them.
	conditional int
	asked       surplus // what the macro being parsed has mentioned so far
}

func (p *parser) cur() token { return p.tokens[p.at] }

// advance returns the current token and goes on.
func (p *parser) advance() token {
	t := p.tokens[p.at]
	if t.kind != kEOF {
		p.at++
	}
	return t
}

func (p *parser) fail(kind error, format string, a ...any) {
	panic(&Error{Line: p.cur().line, Text: fmt.Sprintf(format, a...), Kind: kind})
}

func (p *parser) is(k kind, text string) bool {
	t := p.cur()
	return t.kind == k && t.text == text
}

func (p *parser) op(text string) bool { return p.is(kOp, text) }

func (p *parser) skip(k kind, text string) bool {
	if p.is(k, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text, where string) token {
	t := p.cur()
	if t.kind != k || text != "" && t.text != text {
		want := token{kind: k, text: text}.String()
		if k == kName && text == "" {
			want = "a name"
		}
		p.fail(ErrSyntax, "%s: expected %s, found %v", where, want, t)
	}
	return p.advance()
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNest {
		p.fail(ErrLimit, "nested more than %d deep", maxNest)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) chain(n int) {
	if n > maxChain {
		p.fail(ErrLimit, "more than %d operators in a row", maxChain)
	}
}

// statements parses up to a block tag whose name is one of ends, and stops
// behind that name; without ends, to the end of the template.
func (p *parser) statements(inside string, ends ...string) []stmt {
	p.enter()
	defer p.leave()
	var out []stmt
	for {
		switch t := p.advance(); t.kind {
		case kEOF:
			if len(ends) > 0 {
				p.fail(ErrSyntax, "{%% %s %%}: the template ends before {%% %s %%}", inside, ends[len(ends)-1])
			}
			return out
		case kData:
			out = append(out, &dataStmt{lit(t.text)})
		case kVarBegin:
			x := p.tuple(true, "the expression in {{ }}")
			p.expect(kVarEnd, "", "{{ }}")
			out = append(out, &printStmt{t.line, x})
		case kBlockBegin:
			name := p.cur()
			if name.kind != kName {
				p.fail(ErrSyntax, "{%% %%}: expected a tag's name, found %v", name)
			}
			if slices.Contains(ends, name.text) {
				return out
			}
			p.advance()
			if s := p.statement(name); s != nil {
				out = append(out, s)
			}
		}
	}
}

// end reads the name of the closing tag, at which statements stopped, and %}.
func (p *parser) end() string {
	name := p.advance().text
	p.close(name)
	return name
}

func (p *parser) close(name string) { p.expect(kBlockEnd, "", "{% "+name+" %}") }

func (p *parser) statement(name token) stmt {
	switch name.text {
	case "if":
		return p.parseIf()
	case "for":
		return p.parseFor(name.line)
	case "set":
		return p.parseSet(name.line)
	case "macro":
		d := macroDef{line: name.line, name: p.expect(kName, "", "{% macro %}").text}
		p.signature(&d)
		p.close("macro")
		p.macroBody(&d, "macro")
		return &macroStmt{d.name, d}
	case "call":
		d := macroDef{line: name.line, name: "caller", block: true}
		if p.op("(") {
			p.signature(&d)
		}
		call, ok := p.expression().(*callExpr)
		if !ok {
			p.fail(ErrSyntax, "{%% call %%}: not a call")
		}
		p.close("call")
		p.macroBody(&d, "call")
		return &callStmt{name.line, call, d}
	case "with":
		s := &withStmt{line: name.line}
		for p.cur().kind != kBlockEnd {
			if len(s.targets) > 0 {
				p.expect(kOp, ",", "{% with %}")
			}
			s.targets = append(s.targets, p.target())
			p.expect(kOp, "=", "{% with %}")
			s.values = append(s.values, p.expression())
		}
		p.close("with")
		s.body = p.body("with")
		return s
	case "filter":
		s := &filterStmt{line: name.line, filters: p.filters()}
		p.close("filter")
		s.body = p.body("filter")
		return s
	case "generation":
		p.close("generation")
		return &scopeStmt{body: p.block("generation")}
	case "block":
		p.expect(kName, "", "{% block %}")
		scoped := p.skip(kName, "scoped")
		p.skip(kName, "required")
		p.close("block")
		s := &scopeStmt{global: !scoped}
		loops := p.loops
		p.loops = 0
		s.body = p.statements("block", "endblock")
		p.loops = loops
		p.advance()
		if p.cur().kind == kName {
			p.advance()
		}
		p.close("endblock")
		return s
	case "break", "continue":
		if p.loops == 0 {
			p.fail(ErrSyntax, "{%% %s %%} outside of a loop", name.text)
		}
		p.close(name.text)
		if name.text == "break" {
			return &flowStmt{breakLoop}
		}
		return &flowStmt{continueLoop}
	case "include", "import", "from", "extends", "autoescape", "do", "trans", "debug":
		p.fail(ErrUnsupported, "the tag {%% %s %%}", name.text)
	}
	p.fail(ErrSyntax, "{%% %s %%}: unknown or misplaced tag", name.text)
	return nil
}

// body parses the rest of a statement up to its end tag.
func (p *parser) body(name string) []stmt {
	out := p.statements(name, "end"+name)
	p.end()
	return out
}

// block is body for what no break reaches out of.
func (p *parser) block(name string) []stmt {
	loops := p.loops
	p.loops = 0
	out := p.body(name)
	p.loops = loops
	return out
}

func (p *parser) macroBody(d *macroDef, tag string) {
	outer := p.asked
	p.asked = surplus{}
	d.body = p.block(tag)
	in := p.asked // what is mentioned within it is mentioned around it, too, as in Jinja
	d.asked, p.asked = in, surplus{outer.varargs || in.varargs, outer.kwargs || in.kwargs, outer.caller || in.caller}
}

func (p *parser) parseIf() stmt {
	s := &ifStmt{}
	p.conditional++
	defer func() { p.conditional-- }()
	for {
		s.conds = append(s.conds, p.tuple(false, "the condition of {% if %}"))
		p.close("if")
		s.bodies = append(s.bodies, p.statements("if", "elif", "else", "endif"))
		switch p.advance().text {
		case "else":
			p.close("else")
			s.bodies = append(s.bodies, p.statements("if", "endif"))
			p.end()
			return s
		case "endif":
			p.close("endif")
			return s
		}
	}
}

func (p *parser) parseFor(line int) stmt {
	s := &forStmt{line: line, target: p.targets("in")}
	p.expect(kName, "in", "{% for %}")
	s.iter = p.tuple(false, "{% for %}")
	if p.skip(kName, "if") {
		s.cond = p.expression()
	}
	s.recursive = p.skip(kName, "recursive")
	p.close("for")
	p.loops++
	s.body = p.statements("for", "else", "endfor")
	p.loops--
	if p.end() == "else" {
		s.otherwise = p.body("for")
	}
	return s
}

func (p *parser) parseSet(line int) stmt {
	t := p.targets("=")
	if p.skip(kOp, "=") {
		x := p.tuple(true, "{% set %}")
		p.close("set")
		return &setStmt{line, t, x}
	}
	s := &setBlockStmt{line: line, target: t}
	if p.skip(kOp, "|") {
		s.filters = p.filters()
	}
	p.close("set")
	s.body = p.body("set")
	return s
}

// targets parses what stands before stop: one target or several.
func (p *parser) targets(stop string) target {
	t := p.target()
	if !p.op(",") {
		return t
	}
	t = target{parts: []target{t}}
	for p.skip(kOp, ",") {
		if c := p.cur(); c.kind == kBlockEnd || c.text == stop {
			break
		}
		t.parts = append(t.parts, p.target())
	}
	return t
}

func (p *parser) target() target {
	if p.skip(kOp, "(") {
		p.enter()
		t := p.targets(")")
		p.leave()
		p.expect(kOp, ")", "the target of an assignment")
		return t
	}
	name := p.expect(kName, "", "the target of an assignment").text
	switch name {
	case "true", "false", "none", "True", "False", "None":
		p.fail(ErrSyntax, "cannot assign to %s", name)
	}
	if p.skip(kOp, ".") {
		return target{name: name, attr: p.expect(kName, "", "the target of an assignment").text}
	}
	return target{name: name}
}

func (p *parser) signature(d *macroDef) {
	p.expect(kOp, "(", "{% macro %}")
	for !p.op(")") {
		if len(d.params) > 0 {
			p.expect(kOp, ",", "the parameters of a macro")
		}
		d.params = append(d.params, p.expect(kName, "", "the parameters of a macro").text)
		if p.skip(kOp, "=") {
			d.defaults = append(d.defaults, p.expression())
		} else if len(d.defaults) > 0 {
			p.fail(ErrSyntax, "a parameter without a default after one with")
		}
	}
	p.advance()
}
