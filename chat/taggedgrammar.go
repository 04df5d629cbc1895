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

// taggedGrammar is a call in a format that writes each argument between tags: a string as it is, other values as JSON. The
// arguments come in the order of the schema's properties.
func (f *Format) taggedGrammar(t Tool, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	schema, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(schema, &top); err != nil {
		return nil, err
	}
	for key := range top {
		if !slices.Contains([]string{"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}, key) {
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
	begin, end := f.taggedCall(t.Name, o)
	parts := []*grammar.Grammar{grammar.Text(begin)}
	for i, name := range names {
		if strings.ContainsAny(name, "<>\"\n\xff") || name == "" {
			return nil, fmt.Errorf("parameters: the name %q cannot be written between tags", name)
		}
		g, err := f.taggedArgument(name, schemas[i], o)
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

// taggedCall is what stands before and behind the arguments of a call.
func (f *Format) taggedCall(name string, o *ToolGrammarOptions) (begin, end string) {
	switch f.Syntax {
	case SyntaxGLM:
		return o.mark("<tool_call>") + name + f.newline(), o.mark("</tool_call>")
	case SyntaxDSML:
		return o.spell("<" + dsml + `invoke name="` + name + "\">\n"), o.spell("</" + dsml + "invoke>")
	}
	open := f.Open
	if open == "" {
		open = "<tool_call>"
	}
	return o.mark(open) + "\n<function=" + name + ">\n", "</function>\n" + o.mark("</"+open[1:])
}

// newline is the line end behind a tag, in formats of which some have none.
func (f *Format) newline() string {
	if f.Bare {
		return ""
	}
	return "\n"
}

// taggedArgument is one argument with its tags.
func (f *Format) taggedArgument(name string, schema json.RawMessage, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	var begin, end string
	text, constants, err := stringSchema(schema)
	if err != nil {
		return nil, err
	}
	switch f.Syntax {
	case SyntaxGLM:
		begin = o.mark("<arg_key>") + name + o.mark("</arg_key>") + f.newline() + o.mark("<arg_value>")
		end = o.mark("</arg_value>")
	case SyntaxDSML:
		begin = o.spell(fmt.Sprintf(`<%sparameter name="%s" string="%v">`, dsml, name, text))
		end = o.spell("</" + dsml + "parameter>")
	default:
		begin, end = "<parameter="+name+">"+f.newline(), f.newline()+"</parameter>"
	}
	behind := "\n"
	if f.Syntax == SyntaxGLM {
		behind = f.newline()
	}
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
		if value, err = grammar.ParseSchema(schema, grammar.SchemaOptions{Spaces: true}); err != nil {
			return nil, err
		}
	}
	return grammar.Sequence(grammar.Text(begin), value, grammar.Text(end+behind)), nil
}

// stringSchema reports whether a schema is that of a string, and its constants if it lists them.
func stringSchema(schema json.RawMessage) (text bool, constants []string, err error) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(schema, &s); err != nil {
		return false, nil, errors.New("a schema that is an object expected: the format writes strings and other values differently")
	}
	var types any
	_ = json.Unmarshal(s["type"], &types)
	if types == nil {
		return false, nil, errors.New("a type expected: the format writes strings and other values differently")
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
