package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// order writes values as a schema orders their keys: those that it lists first, as they come in it, then the others as
// they are.
type order struct{ root any }

// object is a JSON object in the order of its source.
type object struct {
	keys   []string
	values map[string]any
}

func newOrder(schema []byte) order { return order{parse(schema)} }

// parse reads one JSON value. Numbers keep their spelling.
func parse(source []byte) any {
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	var value func() any
	value = func() any {
		t, _ := d.Token()
		switch t {
		case json.Delim('['):
			list := []any{}
			for d.More() {
				list = append(list, value())
			}
			d.Token()
			return list
		case json.Delim('{'):
			o := &object{values: map[string]any{}}
			for d.More() {
				key, _ := d.Token()
				name := key.(string)
				o.keys = append(o.keys, name)
				o.values[name] = value()
			}
			d.Token()
			return o
		}
		return t
	}
	return value()
}

// write is a value as compact JSON.
func (r order) write(data []byte) []byte { return r.append(nil, parse(data), []any{r.root}) }

func (r order) append(b []byte, v any, within []any) []byte {
	schemas := r.expand(within)
	switch v := v.(type) {
	case *object:
		var names []string
		for _, s := range schemas {
			if p, ok := s.values["properties"].(*object); ok {
				names = append(names, p.keys...)
			}
		}
		place := func(key string) int {
			if i := slices.Index(names, key); i >= 0 {
				return i
			}
			return len(names)
		}
		keys := slices.Clone(v.keys)
		slices.SortStableFunc(keys, func(a, b string) int { return place(a) - place(b) })
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			var inside []any
			for _, s := range schemas {
				if p, ok := s.values["properties"].(*object); ok && p.values[k] != nil {
					inside = append(inside, p.values[k])
				} else if a, ok := s.values["additionalProperties"]; ok {
					inside = append(inside, a)
				}
				if p, ok := s.values["patternProperties"].(*object); ok {
					for _, key := range p.keys {
						inside = append(inside, p.values[key])
					}
				}
			}
			b = r.append(append(appendString(b, k), ':'), v.values[k], inside)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var inside []any
			for _, s := range schemas {
				for _, key := range []string{"items", "prefixItems", "additionalItems"} {
					if list, ok := s.values[key].([]any); !ok {
						inside = append(inside, s.values[key])
					} else if i < len(list) {
						inside = append(inside, list[i])
					}
				}
			}
			b = r.append(b, x, inside)
		}
		return append(b, ']')
	case string:
		return appendString(b, v)
	case json.Number:
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

func appendString(b []byte, s string) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return append(b, bytes.TrimSpace(text.Bytes())...)
}

// expand are the objects of schemas, and of those that they are made of.
func (r order) expand(schemas []any) (all []*object) {
	var visit func(v any)
	visit = func(v any) {
		s, ok := v.(*object)
		if !ok || slices.Contains(all, s) {
			return
		}
		all = append(all, s)
		for _, key := range s.keys {
			switch x := s.values[key]; key {
			case "$ref":
				if name, ok := x.(string); ok {
					visit(r.find(name))
				}
			case "allOf", "anyOf", "oneOf":
				list, _ := x.([]any)
				for _, x := range list {
					visit(x)
				}
			case "if", "then", "else":
				visit(x)
			}
		}
	}
	for _, s := range schemas {
		visit(s)
	}
	return all
}

// find is what a $ref in this document names.
func (r order) find(ref string) any {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil {
		return nil
	}
	v := r.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case *object:
			if part != "" {
				v = x.values[part]
			}
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(x) {
				v = x[i]
			}
		}
	}
	return v
}
