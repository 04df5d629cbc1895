package chat

import (
	"fmt"
	"strings"

	"github.com/specgo/spec/grammar"
)

// SyntaxMiniMax3: ]<]minimax[>[<tool_call>, calls as <invoke name="f"> and arguments as elements of their names, the
// items of a list as <item>, each tag behind the mark; of MiniMax M3. A null is left out.
const SyntaxMiniMax3 Syntax = "minimax-m3"

const (
	minimaxMark    = "]<]minimax[>["
	minimax3Calls  = minimaxMark + "<tool_call>"
	minimax3End    = minimaxMark + "</tool_call>"
	minimax3Call   = minimaxMark + minimaxInvoke
	minimax3Close  = minimaxMark + minimaxInvokeEnd
	minimax3Item   = "item"
	maxElementNest = 32 // elements inside each other
)

var minimax3 = syntax{
	name:   SyntaxMiniMax3,
	detect: func(has func(string) bool, _ *Format) bool { return has(minimaxMark) },
	marks:  []string{minimaxMark},
	open:   []string{minimax3Calls},
	begin:  func(p *Parser, _ string) { p.state = (*Parser).minimaxBetween },
	write:  minimaxWrite,
	calls: func(_ *Format, call *grammar.Grammar, o *ToolGrammarOptions) *grammar.Grammar {
		return several(call, o.spell(minimax3Calls)+"\n", "\n", "\n"+o.spell(minimax3End), o)
	},
}

func (p *Parser) minimaxBetween() bool {
	return p.sectionBetween((*Parser).minimaxHeader, minimax3Call, minimax3End)
}

// minimaxHeader reads a call's name.
func (p *Parser) minimaxHeader() bool {
	before := p.buf
	name, mark, more := p.until(`">`)
	if more {
		return false
	}
	if mark == "" || !plainName(name) {
		if p.buf = before; p.cutName(strings.TrimSuffix(before, `"`)) {
			return p.cutCall()
		}
		return p.notACall("")
	}
	p.tagged = taggedReader{name: name, schema: argumentsOf(p.o.Tools, name)}
	p.begin(name, "")
	p.state = (*Parser).minimaxElements
	return true
}

// minimaxElements reads a call's arguments up to its end.
func (p *Parser) minimaxElements() bool {
	text, found := p.upTo(minimax3Close)
	if !found {
		if !p.closed && len(p.buf) <= maxCall {
			return false
		}
		p.searched = 0
		text, p.buf = p.buf, ""
	}
	r := elementReader{rest: text}
	args, ok := r.object(p.tagged.schema, 0)
	if ok = ok && found && strings.TrimSpace(r.rest) == ""; !ok {
		p.args(strings.TrimSuffix(args, "}"))
		p.end("", ErrToolCall)
	} else {
		p.args(args)
		p.end("", nil)
	}
	p.edge()
	p.state = (*Parser).minimaxBetween
	return true
}

// elementReader reads elements, whose tags stand behind the mark.
type elementReader struct{ rest string }

// tag reads one.
func (r *elementReader) tag() (name string, end, ok bool) {
	rest, ok := strings.CutPrefix(r.rest, minimaxMark+"<")
	name, rest, closed := strings.Cut(rest, ">")
	if name, end = strings.CutPrefix(name, "/"); !ok || !closed || name == "" {
		return "", false, false
	}
	r.rest = rest
	return name, end, true
}

// object reads the members of an object up to an end tag, which it leaves, or the text's end.
func (r *elementReader) object(s schemaView, depth int) (json string, ok bool) {
	var out []string
	ok = r.each(func(name string) bool {
		value, ok := r.value(s.property(name), name, depth+1)
		out = append(out, quoted(name)+": "+value)
		return ok
	})
	return "{" + strings.Join(out, ", ") + "}", ok
}

// each calls f behind each opening tag.
func (r *elementReader) each(f func(name string) bool) bool {
	for {
		r.rest = strings.TrimLeft(r.rest, " \n\t\r")
		before := r.rest
		name, end, ok := r.tag()
		if !ok || end {
			r.rest = before
			return end || before == ""
		}
		if !f(name) {
			return false
		}
	}
}

// value reads an element's content and its end tag.
func (r *elementReader) value(s schemaView, name string, depth int) (json string, ok bool) {
	if depth > maxElementNest {
		return "null", false
	}
	types, known := s.types()
	at := strings.Index(r.rest, minimaxMark)
	if at < 0 {
		return s.textValue(r.rest), false
	}
	text := r.rest[:at]
	inner := elementReader{r.rest[at:]}
	child, end, _ := inner.tag()
	ok = true
	switch {
	case !end && child == minimax3Item && types&arrayType != 0 && s.property(minimax3Item).at == nil:
		var items []string
		ok = r.each(func(string) bool {
			item, ok := r.value(s.items(), minimax3Item, depth+1)
			items = append(items, item)
			return ok
		})
		json = "[" + strings.Join(items, ", ") + "]"
	case !end && child != "":
		json, ok = r.object(s, depth)
	case known && types&stringType == 0 && strings.TrimSpace(text) == "" && types&(arrayType|objectType) != 0:
		if json = "{}"; types&arrayType != 0 {
			json = "[]"
		}
		r.rest = r.rest[at:]
	default:
		json = s.textValue(text)
		r.rest = r.rest[at:]
	}
	if !ok {
		return json, false
	}
	closing, end, ok := r.tag()
	return json, ok && end && closing == name
}

// minimaxWrite is a call as a grammar.
func minimaxWrite(f *Format, t Tool, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	raw, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	schema, err := newArgumentSchema(raw, o.Budget)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	args, err := minimaxMembers(f, schema, o, 0)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return grammar.Sequence(grammar.Text(o.spell(minimax3Call)+t.Name+`">`), args,
		grammar.Text(o.spell(minimax3Close))), nil
}

// minimaxMembers are the members of an object, in the order of its properties.
func minimaxMembers(f *Format, s *argumentSchema, o *ToolGrammarOptions, depth int) (*grammar.Grammar, error) {
	names, each, required, err := s.members(f)
	if err != nil {
		return nil, err
	}
	var parts []*grammar.Grammar
	for _, name := range names {
		g, err := minimaxElement(f, name, each[name], o, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if !required[name] {
			g = grammar.Repeat(g, 0, 1)
		}
		parts = append(parts, g)
	}
	return grammar.Sequence(parts...), nil
}

// minimaxElement is an element with a value of the schema.
func minimaxElement(
	f *Format, name string, s *argumentSchema, o *ToolGrammarOptions, depth int,
) (*grammar.Grammar, error) {
	if depth > maxElementNest {
		return nil, fmt.Errorf("objects inside each other more than %d deep", maxElementNest)
	}
	begin, end := o.spell(minimaxMark)+"<"+name+">", o.spell(minimaxMark)+"</"+name+">"
	types, known := s.types()
	switch {
	case known && types == objectType:
		inside, err := minimaxMembers(f, s, o, depth)
		if err != nil {
			return nil, err
		}
		return grammar.Sequence(grammar.Text(begin), inside, grammar.Text(end)), nil
	case known && types == arrayType && s.keys["items"] != nil && s.only("type", "items"):
		items, err := s.at(s.keys["items"])
		if err != nil {
			return nil, err
		}
		item, err := minimaxElement(f, minimax3Item, items, o, depth+1)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		return grammar.Sequence(grammar.Text(begin), grammar.Repeat(item, 0, -1), grammar.Text(end)), nil
	case known && types&(objectType|arrayType) != 0:
		return nil, fmt.Errorf("lists and objects beside other types or keywords are not supported by the format %s",
			f.Syntax)
	}
	value, err := s.value(end, []string{o.spell(minimaxMark)}, o)
	if err != nil {
		return nil, err
	}
	return grammar.Sequence(grammar.Text(begin), value), nil
}
