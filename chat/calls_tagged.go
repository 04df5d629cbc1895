package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/specgo/spec/grammar"
)

// tags are those of a syntax that writes each argument of a call between tags: a string as it is, other values as JSON.
type tags struct {
	// Reading. call opens a call in a section, with the name up to nameEnd, and sectionEnds stand behind the last one; a
	// syntax without sections reads the name by itself and has none of them. argument opens an argument with its name up
	// to keyEnd, and callEnd ends the call. behindKey reads what else stands in front of the value.
	call, nameEnd              string
	sectionEnds                []string
	argument, keyEnd, valueEnd string
	callEnd                    string
	quote, quoteEnd            string // around a value that has tags
	behindKey                  func(p *Parser) (ok, more bool)
	trim                       func(f *Format, value string) string // without what is the tags'; nil: as it is
	typed                      bool                                 // behindKey says whether the value is a string

	// Writing. behind is what separates an argument from what follows; loose says that models leave it out as well.
	loose         bool
	writeCall     func(f *Format, tool string, o *ToolGrammarOptions) (begin, end string)
	writeArgument func(f *Format, name string, text bool, o *ToolGrammarOptions) (begin, end, behind string)
}

// taggedReader reads a call whose arguments stand between tags. Its arguments are passed on as one JSON object, an
// argument as soon as it is complete.
type taggedReader struct {
	name   string     // of the call
	schema schemaView // of the tool's arguments
	key    string     // of the argument being read
	text   bool       // it is a string, as its tag says
	quoted bool       // it stands in quotes
	n      int        // arguments so far

	// Of a list or an object: what was read of it, in whose strings an end tag ends nothing.
	json bool // it is one, so far
	scan jsonScan
	at   int // bytes that were read
}

// taggedSection begins a section of calls.
func (p *Parser) taggedSection() {
	p.tagged = taggedReader{}
	p.state = (*Parser).taggedBetween
}

// taggedBetween is before, between and after the calls of a section.
func (p *Parser) taggedBetween() bool {
	if !p.skipSpace() {
		switch {
		case p.closed && p.tagged.name != "": // the section is not ended, its calls are
			p.raw = ""
		case p.closed:
			return p.cutCall()
		}
		return false
	}
	t := p.syntax.tags
	if p.tagged.name == "" && p.cutIn(t.call) {
		return p.cutCall()
	}
	switch m, more := p.oneOf(append([]string{t.call}, t.sectionEnds...)...); {
	case more:
		return false
	case m == t.call:
		p.raw += m
		p.state = (*Parser).taggedHeader
	case p.tagged.name != "": // behind a call
		p.raw = ""
		p.state = p.behindCalls()
	default:
		return p.notACall(m)
	}
	return true
}

// taggedHeader reads a call's name.
func (p *Parser) taggedHeader() bool {
	before := p.buf
	name, mark, more := p.until(p.syntax.tags.nameEnd)
	if more {
		return false
	}
	if name = strings.TrimSpace(name); mark == "" || !plainName(name) {
		if p.buf = before; p.cutName(strings.TrimSuffix(before, `"`)) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.taggedStart(name)
	return true
}

// plainName reports whether s may be a tool's name.
func plainName(s string) bool { return s != "" && !strings.ContainsAny(s, " \n\t\r<>\"{}[]()") }

func (p *Parser) taggedStart(name string) {
	p.tagged = taggedReader{name: name, schema: argumentsOf(p.o.Tools, name)}
	p.begin(name, "")
	p.raw = ""
	p.state = (*Parser).taggedArgument
}

// taggedArgument reads the beginning of an argument, or the call's end.
func (p *Parser) taggedArgument() bool {
	if p.buf = strings.TrimLeft(p.buf, " \n\t\r"); p.buf == "" {
		if p.closed {
			p.taggedEnd(ErrToolCall)
			return true
		}
		return false
	}
	t := p.syntax.tags
	if p.cutIn(t.argument, t.callEnd) {
		p.buf = ""
	}
	switch m, more := p.oneOf(t.argument, t.callEnd); {
	case more:
		return false
	case m == t.argument:
		p.state = (*Parser).taggedKey
	case m == t.callEnd:
		p.taggedEnd(nil)
	default:
		p.taggedEnd(ErrToolCall)
	}
	return true
}

// taggedEnd ends the call.
func (p *Parser) taggedEnd(err error) {
	switch {
	case err != nil:
	case p.tagged.n == 0:
		p.args("{}")
	default:
		p.args("}")
	}
	p.end("", err)
	p.edge()
	p.state = p.behindCalls()
	if err == nil && p.syntax.tags.call != "" {
		p.state = (*Parser).taggedBetween
	}
}

// taggedKey reads an argument's name, and what stands in front of its value.
func (p *Parser) taggedKey() bool {
	t, before := p.syntax.tags, p.buf
	key, mark, more := p.until(t.keyEnd)
	ok := mark != ""
	if ok && t.behindKey != nil {
		ok, more = t.behindKey(p)
	}
	if more {
		p.buf = before
		return false
	}
	if !ok {
		if p.closed {
			p.buf = "" // the answer ends in an argument's name
		}
		p.taggedEnd(ErrToolCall)
		return true
	}
	p.tagged.key = key
	p.tagged.scan, p.tagged.at = jsonScan{}, 0
	if p.tagged.json = !p.tagged.text; !t.typed {
		types, known := p.tagged.schema.property(key).types()
		p.tagged.json = known && types&stringType == 0 || t.quote != "" // whose texts have quotes
	}
	p.state = (*Parser).taggedValue
	return true
}

// taggedScan reads on in a value that is a list or an object. It reports whether more of it must come; where it is
// whole the end tag is looked for behind it.
func (p *Parser) taggedScan(end string) (more bool) {
	r := &p.tagged
	for ; r.json && !r.scan.done() && r.at < len(p.buf); r.at++ {
		c := p.buf[r.at]
		inside := len(r.scan.stack) > 0 || c == '{' || c == '[' || isJSONSpace(c)
		r.json = inside && r.scan.next(c)
	}
	if r.json && r.scan.done() {
		p.searched = max(p.searched, r.at+len(end))
	}
	return r.json && !r.scan.done()
}

// taggedValue reads an argument's value up to its end tag.
func (p *Parser) taggedValue() bool {
	t := p.syntax.tags
	if t.quote != "" && !p.tagged.quoted && p.searched == 0 {
		mark, more := p.oneOf(t.quote)
		if more {
			return false
		}
		p.tagged.quoted = mark != ""
		p.tagged.json = p.tagged.json && mark == ""
	}
	end := t.valueEnd
	if p.tagged.quoted {
		end = t.quoteEnd + t.valueEnd
	}
	if p.taggedScan(end) && !p.closed && len(p.buf) <= maxCall {
		return false
	}
	value, found := p.valueUpTo(end)
	ends := p.closed || len(p.buf) > maxCall
	if !found && ends {
		p.searched = 0
		p.taggedScan(end)
		value, found = p.upTo(end) // what follows is no part of a call
	}
	switch {
	case found:
		p.taggedPass(value)
		p.state = (*Parser).taggedArgument
	case ends:
		p.searched = 0
		p.taggedPass(p.buf) // what there is of it
		p.buf = ""
		p.taggedEnd(ErrToolCall)
	default:
		return false
	}
	return true
}

// valueUpTo reads a value up to its end tag, behind which another argument follows, or the call's end: a value may have
// the same tag in it, as a file of XML that is to be written.
func (p *Parser) valueUpTo(end string) (value string, found bool) {
	t := p.syntax.tags
	marks := append([]string{t.argument, t.callEnd}, t.sectionEnds...)
	for from := max(0, p.searched-len(end)); ; {
		i := strings.Index(p.buf[from:], end)
		if i < 0 {
			p.searched = len(p.buf)
			return "", false
		}
		i += from
		from = i + len(end)
		rest := strings.TrimLeft(p.buf[from:], " \n\t\r")
		is, more := len(p.buf)-from-len(rest) > maxSpace, false
		for _, m := range marks {
			cut := strings.HasPrefix(m, rest)
			is = is || strings.HasPrefix(rest, m) || cut && p.closed
			more = more || cut
		}
		if is {
			p.searched = 0
			value, p.buf = p.buf[:i], p.buf[from:]
			return value, true
		}
		if more {
			p.searched = from
			return "", false
		}
	}
}

// taggedPass passes on an argument.
func (p *Parser) taggedPass(value string) {
	if trim := p.syntax.tags.trim; trim != nil {
		value = trim(&p.f, value)
	}
	prefix := ", "
	if p.tagged.n == 0 {
		prefix = "{"
	}
	p.tagged.n++
	p.args(prefix + quoted(p.tagged.key) + ": " + p.taggedJSON(value))
	p.tagged.quoted = false
}

// taggedJSON is an argument's value as JSON: of the type that its tag says, or the tool's schema.
func (p *Parser) taggedJSON(value string) string {
	if !p.syntax.tags.typed && !p.tagged.quoted {
		return p.tagged.schema.property(p.tagged.key).textValue(value)
	}
	if trimmed := strings.TrimSpace(value); !p.tagged.text && !p.tagged.quoted && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return quoted(value)
}

// quoted is a JSON string. Characters that are special in HTML stay as they are.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// taggedGrammar is a call in a format that writes each argument between tags: a string as it is, other values as
// JSON. The arguments come in the order of the schema's properties.
func (f *Format) taggedGrammar(t Tool, tags *tags, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	raw, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	schema, err := newArgumentSchema(raw, o.Budget)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	names, each, required, err := schema.members(f)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	begin, end := tags.writeCall(f, t.Name, o)
	parts := []*grammar.Grammar{grammar.Text(begin)}
	for _, name := range names {
		g, err := f.taggedArgument(name, each[name], tags, o)
		if err != nil {
			return nil, fmt.Errorf("parameters: %q: %w", name, err)
		}
		if !required[name] {
			g = grammar.Repeat(g, 0, 1)
		}
		parts = append(parts, g)
	}
	return grammar.Sequence(append(parts, grammar.Text(end))...), nil
}

// taggedArgument is an argument between its tags. Where these say whether it is a string, there is a form for each.
func (f *Format) taggedArgument(name string, s *argumentSchema, tags *tags, o *ToolGrammarOptions) (
	*grammar.Grammar, error) {
	types, _ := s.types()
	before, end, behind := tags.writeArgument(f, name, types&stringType != 0, o)
	if !tags.typed && tags.quote == "" {
		value, err := s.value(end, nil, o)
		after := grammar.Text(behind)
		if tags.loose && behind != "" {
			after = grammar.Repeat(after, 0, 1)
		}
		return grammar.Sequence(grammar.Text(before), value, after), err
	}
	otherBefore, otherEnd, otherBehind := tags.writeArgument(f, name, false, o)
	texts, others, err := s.kinds(end, otherEnd, o)
	if err != nil {
		return nil, err
	}
	var all []*grammar.Grammar
	if texts != nil {
		all = append(all, grammar.Sequence(grammar.Text(before), texts, grammar.Text(behind)))
	}
	if others != nil {
		all = append(all, grammar.Sequence(grammar.Text(otherBefore), others, grammar.Text(otherBehind)))
	}
	if all == nil {
		return nil, errors.New("no value is valid")
	}
	return grammar.Choice(all...), nil
}

// newline is the line end behind a tag, in formats of which some have none.
func (f *Format) newline() string {
	if f.Bare {
		return ""
	}
	return "\n"
}

// properties lists the members of an object in their order.
func properties(raw json.RawMessage) (names []string, schemas []json.RawMessage, err error) {
	if raw == nil {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, errors.New("an object expected")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names, schemas = append(names, key.(string)), append(schemas, value)
	}
	return names, schemas, nil
}
