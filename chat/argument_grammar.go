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

// argumentSchema is a place in a tool's schema, for a grammar of arguments that are written as text. Every text of
// such a grammar is read, by [schemaView.textValue], as a value that is valid by the schema.
type argumentSchema struct {
	budget *grammar.Budget // of reading it
	root   map[string]json.RawMessage
	raw    json.RawMessage
	keys   map[string]json.RawMessage
	view   schemaView
	read   schemaView // by which its text is read: that of the whole argument
}

func newArgumentSchema(raw json.RawMessage, b *grammar.Budget) (*argumentSchema, error) {
	s := &argumentSchema{budget: b}
	if err := json.Unmarshal(raw, &s.root); err != nil {
		return nil, err
	}
	var err error
	if s.view.root, err = decoded(raw); err != nil {
		return nil, err
	}
	return s.at(raw)
}

// decoded is JSON whose numbers have the digits that they are written with.
func decoded(raw json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// at is another place of the same schema. References are followed.
func (s *argumentSchema) at(raw json.RawMessage) (*argumentSchema, error) {
	for range maxSchemaDepth {
		err := s.budget.Read(len(raw))
		if err != nil {
			return nil, err
		}
		out := &argumentSchema{budget: s.budget, root: s.root, raw: raw, view: schemaView{root: s.view.root}}
		if out.view.at, err = decoded(raw); err != nil {
			return nil, err
		}
		if out.read = out.view; string(bytes.TrimSpace(raw)) == "true" {
			return out, nil
		}
		o, isObject := out.view.at.(map[string]any)
		if !isObject || json.Unmarshal(raw, &out.keys) != nil {
			return nil, errors.New("a schema that is an object expected")
		}
		ref, ok := o["$ref"].(string)
		if !ok || !out.only("$ref") {
			return out, nil
		}
		var next json.RawMessage = nil
		if at := s.view.find(ref); at != nil {
			if next, err = s.find(ref); err != nil {
				return nil, err
			}
		}
		if next == nil {
			return nil, fmt.Errorf("the reference %.80q names nothing", ref)
		}
		raw = next
	}
	return nil, errors.New("references that go round in a circle")
}

// find is what a reference names, in the order of its source.
func (s *argumentSchema) find(ref string) (json.RawMessage, error) {
	at := s.root
	parts := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	for i, part := range parts {
		raw := at[pointerKey(part)]
		if i == len(parts)-1 {
			return raw, nil
		}
		if err := s.budget.Read(len(raw)); err != nil {
			return nil, err
		}
		at = nil
		if json.Unmarshal(raw, &at) != nil {
			break
		}
	}
	return nil, nil
}

// visitBytes is what looking at one schema, or at one listed value, counts as, in bytes that are read.
const visitBytes = 64

// types are those that a value may have, as [schemaView.types] says. The looks count; that they were too many is the
// error of what is read next.
func (s *argumentSchema) types() (set typeSet, known bool) {
	visits := 0
	set = s.view.typesOf(s.view.at, &visits, 0)
	_ = s.budget.Read(visitBytes * visits)
	return set, set != anyType && set != 0
}

// annotations of a schema change no value.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "$comment", "$schema", "$id"}

// only reports whether a schema has no other keywords than these and annotations.
func (s *argumentSchema) only(keys ...string) bool { return s.others(keys...) == nil }

// others are a schema's keywords beside these and annotations, in no order.
func (s *argumentSchema) others(keys ...string) (list []string) {
	for key := range s.keys {
		if !slices.Contains(annotations, key) && !slices.Contains(keys, key) {
			list = append(list, key)
		}
	}
	return list
}

// branches are those of an anyOf or oneOf that stands by itself.
func (s *argumentSchema) branches() (out []*argumentSchema, err error) {
	for _, key := range [...]string{"anyOf", "oneOf"} {
		if s.keys[key] == nil || !s.only(key) {
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(s.keys[key], &list); err != nil {
			return nil, err
		}
		for _, raw := range list {
			b, err := s.at(raw)
			if err != nil {
				return nil, err
			}
			b.read = s.read
			out = append(out, b)
		}
	}
	return out, nil
}

// free reports whether any text is a value by the schema: strings are, and every other type that it has is whole.
func (s *argumentSchema) free() bool {
	types, _ := s.types()
	return types&stringType != 0 && s.whole()
}

// whole reports whether the schema has all values of its types.
func (s *argumentSchema) whole() bool {
	if s.only("type", "nullable") {
		return true
	}
	list, err := s.branches()
	return err == nil && len(list) > 0 && s.keys["oneOf"] == nil &&
		!slices.ContainsFunc(list, func(b *argumentSchema) bool { return !b.whole() })
}

// members lists an object's properties in the order of the schema, and which of them are required.
func (s *argumentSchema) members(f *Format) (names []string, each map[string]*argumentSchema, required map[string]bool,
	err error) {
	if other := s.others("type", "properties", "required", "additionalProperties", "$defs", "definitions"); other != nil {
		return nil, nil, nil, fmt.Errorf("%q is not supported by the format %s", slices.Min(other), f.Syntax)
	}
	var list []string
	if raw := s.keys["required"]; raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, nil, nil, fmt.Errorf("required: %w", err)
		}
	}
	names, schemas, err := properties(s.keys["properties"])
	if err != nil {
		return nil, nil, nil, fmt.Errorf("properties: %w", err)
	}
	each = map[string]*argumentSchema{}
	for i, name := range names {
		if strings.ContainsAny(name, "<>\"\n") || name == "" {
			return nil, nil, nil, fmt.Errorf("the name %q cannot be written between tags", name)
		}
		if each[name], err = s.at(schemas[i]); err != nil {
			return nil, nil, nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	required = map[string]bool{}
	for _, name := range list {
		if each[name] == nil {
			return nil, nil, nil, fmt.Errorf("%q is required and no property", name)
		}
		required[name] = true
	}
	return names, each, required, nil
}

// value is a grammar of a value as text, and of end, which stands behind it and is in none. avoid are further texts
// that a string may not have. A line end at the beginning of end belongs to the tag, which ends a value without it too.
func (s *argumentSchema) value(end string, avoid []string, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	types, _ := s.types()
	tag := strings.TrimPrefix(end, "\n")
	if s.free() {
		if len(avoid) > 0 {
			return grammar.Sequence(grammar.Without(avoid...), grammar.Text(end)), nil
		}
		return grammar.Until(tag), nil
	}
	list := s.listed()
	switch {
	case list != nil:
		readTypes, known := s.read.types()
		for _, v := range list {
			if text, ok := v.(string); ok && types&stringType != 0 && textValueOf(text, readTypes, known) != quoted(text) {
				return nil, fmt.Errorf("the value %q cannot be written between tags", text)
			}
		}
		return s.constants(list, end, o)
	case types&stringType == 0:
		g, err := s.json(o)
		if err != nil {
			return nil, err
		}
		return grammar.Sequence(g, grammar.Text(end)), nil
	case types == stringType && tag != end:
		return s.text(end, append(slices.Clip(avoid), tag), o)
	case types == stringType:
		return s.text(end, avoid, o)
	}
	branches, err := s.branches()
	if err != nil {
		return nil, err
	}
	if branches == nil {
		return nil, errors.New("a string or another type, with further keywords, is not supported between tags")
	}
	whole := make([]bool, len(branches))
	parts := 0 // branches that are not
	for i, b := range branches {
		if whole[i] = b.whole(); !whole[i] {
			parts++
		}
	}
	var all []*grammar.Grammar
	for i, b := range branches {
		of, _ := b.types()
		constant := b.keys["enum"] != nil || b.keys["const"] != nil
		if of&stringType != 0 && !constant && (parts > 1 || parts == 1 && whole[i]) {
			return nil, errors.New("strings beside values of which not all are valid cannot be told apart between tags")
		}
		g, err := b.value(end, avoid, o)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return grammar.Choice(all...), nil
}

// listed are the values of a schema that lists them and says no more; nil: it does not.
func (s *argumentSchema) listed() (list []any) {
	x, _ := s.view.at.(map[string]any)
	switch {
	case !s.only("type", "const", "enum"):
	case x["const"] != nil:
		list = []any{x["const"]}
	case x["enum"] != nil:
		list, _ = x["enum"].([]any)
	}
	return list
}

// kinds are the strings of a value as text and its other values as JSON, with their ends behind them; nil: there are
// none.
func (s *argumentSchema) kinds(textEnd, otherEnd string, o *ToolGrammarOptions) (
	texts, others *grammar.Grammar, err error) {
	types, _ := s.types()
	if list := s.listed(); list != nil {
		if types&stringType != 0 {
			texts, err = s.some(list, true, textEnd, o)
		}
		if err == nil && types != stringType {
			others, err = s.some(list, false, otherEnd, o)
		}
		return texts, others, err
	}
	branches, err := s.branches()
	if err != nil {
		return nil, nil, err
	}
	if branches != nil && s.keys["anyOf"] != nil {
		var all [2][]*grammar.Grammar
		for _, b := range branches {
			x, y, err := b.kinds(textEnd, otherEnd, o)
			if err != nil {
				return nil, nil, err
			}
			for i, g := range [...]*grammar.Grammar{x, y} {
				if g != nil {
					all[i] = append(all[i], g)
				}
			}
		}
		return choice(all[0]), choice(all[1]), nil
	}
	switch {
	case types&stringType == 0:
	case s.free():
		texts = grammar.Until(textEnd)
	case types == stringType:
		texts, err = s.text(textEnd, nil, o)
	default:
		return nil, nil, errors.New("a string or another type, with further keywords, is not supported between tags")
	}
	if err == nil && types != stringType {
		rest := *s
		switch {
		case types&stringType == 0:
		case len(s.keys) == 0: // {} or true
			rest.raw = json.RawMessage(`{"not":{"type":"string"}}`)
		default:
			rest.raw = json.RawMessage(`{"not":{"type":"string"},` + string(bytes.TrimSpace(s.raw))[1:])
		}
		if others, err = rest.json(o); err == nil {
			others = grammar.Sequence(others, grammar.Text(otherEnd))
		}
	}
	return texts, others, err
}

// choice is one of several grammars; nil: there are none.
func choice(all []*grammar.Grammar) *grammar.Grammar {
	if len(all) == 0 {
		return nil
	}
	return grammar.Choice(all...)
}

// some are the listed values that are strings, or those that are not; nil: there are none.
func (s *argumentSchema) some(list []any, text bool, end string, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		_, isText := v.(string)
		return isText != text
	})
	if len(list) == 0 {
		return nil, nil
	}
	return s.constants(list, end, o)
}

// constants are listed values.
func (s *argumentSchema) constants(list []any, end string, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	var all []*grammar.Grammar
	types, _ := s.types()
	for _, v := range list {
		if err := s.budget.Read(visitBytes); err != nil {
			return nil, err
		}
		if typeOf(v)&types == 0 {
			continue
		}
		text, isText := v.(string)
		if !isText {
			data, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if strings.Contains(text, strings.TrimPrefix(end, "\n")) || strings.Contains(text, "\xff") {
			return nil, fmt.Errorf("the value %q cannot be written between tags", text)
		}
		all = append(all, grammar.Text(text+end))
	}
	if all == nil {
		return nil, errors.New("no value is valid")
	}
	return grammar.Choice(all...), nil
}

// json are values as JSON.
func (s *argumentSchema) json(o *ToolGrammarOptions) (*grammar.Grammar, error) {
	raw, err := s.withDefinitions()
	if err != nil {
		return nil, err
	}
	return grammar.ParseSchema(o.Budget, raw, grammar.SchemaOptions{Spaces: true, Narrow: true})
}

// text are strings with a pattern, a format or a length.
func (s *argumentSchema) text(end string, avoid []string, o *ToolGrammarOptions) (*grammar.Grammar, error) {
	raw, err := s.withDefinitions()
	if err != nil {
		return nil, err
	}
	for _, a := range append([]string{end}, avoid...) {
		if strings.Contains(a, "\xff") {
			return nil, errors.New("pattern, format and length of a text are not supported in front of a control token")
		}
	}
	return grammar.ParseSchema(o.Budget, raw, grammar.SchemaOptions{Narrow: true,
		Notation: grammar.Notation{End: end, Avoid: strings.Join(avoid, "")}})
}

// withDefinitions is the schema with what its references name.
func (s *argumentSchema) withDefinitions() (json.RawMessage, error) {
	if !bytes.Contains(s.raw, []byte(`"$ref"`)) {
		return s.raw, nil
	}
	all := "{"
	for _, key := range [...]string{"$defs", "definitions"} {
		if s.root[key] != nil && s.keys[key] == nil {
			all += quoted(key) + ":" + string(s.root[key]) + ","
		}
	}
	rest := bytes.TrimSpace(s.raw)[1:]
	if bytes.Contains(rest, []byte(`"#"`)) || bytes.Contains(rest, []byte(`"#/properties`)) {
		return nil, errors.New("references to the whole schema are not supported between tags")
	}
	return json.RawMessage(all + string(rest)), nil
}
