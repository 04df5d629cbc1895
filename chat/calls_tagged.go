package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	behindKey                  func(p *Parser) (ok, more bool)
	trim                       func(value string) string // what of the value is the tags'; nil: nothing
	typed                      bool                      // behindKey says whether the value is a string

	// Writing. behind is what separates an argument from what follows.
	writeCall     func(f *Format, tool string, o *ToolGrammarOptions) (begin, end string)
	writeArgument func(f *Format, name string, text bool, o *ToolGrammarOptions) (begin, end, behind string)
}

// taggedReader reads a call whose arguments stand between tags. Its arguments are passed on as one JSON object, an
// argument as soon as it is complete.
type taggedReader struct {
	name  string          // of the call
	texts map[string]bool // of the tool's arguments by its schema, where it says so: whether they are strings
	key   string          // of the argument being read
	text  bool            // it is a string, as its tag says
	n     int             // arguments so far
}

// taggedSection begins a section of calls.
func (p *Parser) taggedSection() {
	p.tagged = taggedReader{}
	p.state = (*Parser).taggedBetween
}

// taggedBetween is before, between and after the calls of a section.
func (p *Parser) taggedBetween() bool {
	if !p.skipSpace() {
		if p.closed {
			return p.notACall("")
		}
		return false
	}
	t := p.syntax.tags
	switch m, more := p.oneOf(append([]string{t.call}, t.sectionEnds...)...); {
	case more:
		return false
	case m == t.call:
		p.raw += m
		p.state = (*Parser).taggedHeader
	case p.tagged.name != "": // behind a call
		p.raw = ""
		p.state = (*Parser).content
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
		p.buf = before
		return p.notACall("")
	}
	p.taggedStart(name)
	return true
}

// plainName reports whether s may be a tool's name.
func plainName(s string) bool { return s != "" && !strings.ContainsAny(s, " \n\t\r<>\"{}[]()") }

func (p *Parser) taggedStart(name string) {
	p.tagged = taggedReader{name: name, texts: stringArguments(p.o.Tools, name)}
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
	p.state = (*Parser).content
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
		p.taggedEnd(ErrToolCall)
		return true
	}
	p.tagged.key = key
	p.state = (*Parser).taggedValue
	return true
}

// taggedValue reads an argument's value up to its end tag.
func (p *Parser) taggedValue() bool {
	value, found := p.upTo(p.syntax.tags.valueEnd)
	switch {
	case found:
		p.taggedPass(value)
		p.state = (*Parser).taggedArgument
	case p.closed || len(p.buf) > maxCall:
		p.searched = 0
		p.taggedPass(p.buf) // what there is of it
		p.buf = ""
		p.taggedEnd(ErrToolCall)
	default:
		return false
	}
	return true
}

// taggedPass passes on an argument.
func (p *Parser) taggedPass(value string) {
	if trim := p.syntax.tags.trim; trim != nil {
		value = trim(value)
	}
	prefix := ", "
	if p.tagged.n == 0 {
		prefix = "{"
	}
	p.tagged.n++
	p.args(prefix + quoted(p.tagged.key) + ": " + p.taggedJSON(value))
}

// taggedJSON is an argument's value as JSON: a string, unless the format or the tool's schema says otherwise. Without
// both, text that is JSON of another type is that.
func (p *Parser) taggedJSON(value string) string {
	text, known := p.tagged.texts[p.tagged.key]
	if p.syntax.tags.typed {
		text, known = p.tagged.text, true
	}
	trimmed := strings.TrimSpace(value)
	if !(known && text) && trimmed != "" && json.Valid([]byte(trimmed)) && (known || trimmed[0] != '"') {
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

// stringArguments says of the arguments of a tool whether they are strings, as far as its schema says so.
func stringArguments(tools []Tool, name string) map[string]bool {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(tools[i].Parameters, &schema) != nil {
		return nil
	}
	texts := map[string]bool{}
	for key, raw := range schema.Properties {
		var s struct {
			Type any   `json:"type"`
			Enum []any `json:"enum"`
		}
		if json.Unmarshal(raw, &s) != nil {
			continue // a schema that is true
		}
		notString := func(v any) bool { _, ok := v.(string); return !ok }
		switch x := s.Type.(type) {
		case string:
			texts[key] = x == "string"
		case nil:
			if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, notString) {
				texts[key] = true
			}
		}
	}
	return texts
}

// taggedGrammar is a call in a format that writes each argument between tags: a string as it is, other values as
// JSON. The arguments come in the order of the schema's properties.
func (f *Format) taggedGrammar(t Tool, tags *tags, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	schema, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(schema, &top); err != nil {
		return nil, err
	}
	for key := range top {
		switch key {
		case "type", "properties", "required", "additionalProperties", "title", "description", "$schema":
		default:
			return nil, fmt.Errorf("parameters: %q is not supported by the format %s", key, f.Syntax)
		}
	}
	if more := string(top["additionalProperties"]); more != "" && more != "false" {
		return nil, fmt.Errorf("parameters: additionalProperties is not supported by the format %s", f.Syntax)
	}
	var required []string
	if raw := top["required"]; raw != nil {
		if err := json.Unmarshal(raw, &required); err != nil {
			return nil, fmt.Errorf("parameters: required: %w", err)
		}
	}
	names, schemas, err := properties(top["properties"])
	if err != nil {
		return nil, fmt.Errorf("parameters: properties: %w", err)
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("parameters: %q is required and no property", name)
		}
	}
	begin, end := tags.writeCall(f, t.Name, o)
	parts := []*grammar.Grammar{grammar.Text(begin)}
	for i, name := range names {
		if strings.ContainsAny(name, "<>\"\n\xff") || name == "" {
			return nil, fmt.Errorf("parameters: the name %q cannot be written between tags", name)
		}
		g, err := f.taggedArgument(name, schemas[i], tags, o)
		if err != nil {
			return nil, fmt.Errorf("parameters: %q: %w", name, err)
		}
		if !slices.Contains(required, name) {
			g = grammar.Repeat(g, 0, 1)
		}
		parts = append(parts, g)
	}
	return grammar.Sequence(append(parts, grammar.Text(end))...), nil
}

// newline is the line end behind a tag, in formats of which some have none.
func (f *Format) newline() string {
	if f.Bare {
		return ""
	}
	return "\n"
}

// taggedArgument is one argument with its tags.
func (f *Format) taggedArgument(
	name string, schema json.RawMessage, tags *tags, o *ToolGrammarOptions,
) (*grammar.Grammar, error) {
	text, constants, err := stringSchema(schema)
	if err != nil {
		return nil, err
	}
	begin, end, behind := tags.writeArgument(f, name, text, o)
	var value *grammar.Grammar
	switch {
	case text && constants == nil:
		return grammar.Sequence(grammar.Text(begin), grammar.Until(end), grammar.Text(behind)), nil
	case text:
		var all []*grammar.Grammar
		for _, c := range constants {
			if strings.Contains(c, end) || strings.Contains(c, "\xff") {
				return nil, fmt.Errorf("the value %q cannot be written between tags", c)
			}
			all = append(all, grammar.Text(c))
		}
		value = grammar.Choice(all...)
	default:
		if bytes.Contains(schema, []byte(`"$ref"`)) {
			return nil, fmt.Errorf("$ref is not supported by the format %s", f.Syntax)
		}
		if value, err = grammar.ParseSchema(o.Budget, schema, grammar.SchemaOptions{Spaces: true, Narrow: true}); err != nil {
			return nil, err
		}
	}
	return grammar.Sequence(grammar.Text(begin), value, grammar.Text(end+behind)), nil
}

const textsDiffer = "the format writes strings and other values differently"

// stringSchema reports whether a schema is that of a string, and its constants if it lists them.
func stringSchema(schema json.RawMessage) (text bool, constants []string, err error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(schema, &s); err != nil {
		return false, nil, errors.New("a schema that is an object expected: " + textsDiffer)
	}
	var types any
	_ = json.Unmarshal(s["type"], &types)
	if types == nil {
		return false, nil, errors.New("a type expected: " + textsDiffer)
	}
	if types != "string" {
		if list, ok := types.([]any); ok && slices.Contains(list, any("string")) {
			return false, nil, errors.New("a type of strings and others is not supported by the format")
		}
		return false, nil, nil
	}
	for key, raw := range s {
		switch key {
		case "type", "title", "description", "default", "examples":
		case "const":
			constants = make([]string, 1)
			err = json.Unmarshal(raw, &constants[0])
		case "enum":
			err = json.Unmarshal(raw, &constants)
		default:
			err = fmt.Errorf("%q of a string is not supported by the format", key)
		}
		if err != nil {
			return false, nil, err
		}
	}
	return true, constants, nil
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
