package serve

import (
	"encoding/json"
	"strings"

	"github.com/specgo/spec"
	"github.com/specgo/spec/grammar"
)

func readResponseFormat(r *request, v value) *Error {
	kind, schema := "", value{}
	var wrapped value
	err := v.object(map[string]func(value) *Error{
		"type":        func(v value) (e *Error) { kind, e = v.oneOf("text", "json_object", "json_schema"); return },
		"json_schema": func(v value) *Error { wrapped = v; return nil },
		"schema":      func(v value) *Error { schema = v; return nil }, // llama.cpp's place
	})
	if err != nil {
		return err
	}
	if wrapped.raw != nil {
		if err := wrapped.object(schemaReaders(&schema)); err != nil {
			return err
		}
	}
	return r.setFormat(v, kind, schema)
}

// schemaReaders read the object in which OpenAI's API wraps a schema.
func schemaReaders(schema *value) map[string]func(value) *Error {
	return map[string]func(value) *Error{
		"name":        func(v value) *Error { _, err := v.text(); return err },
		"description": func(v value) *Error { _, err := v.text(); return err },
		"strict":      func(v value) *Error { _, err := v.boolean(); return err }, // schemas are always enforced
		"schema":      func(v value) *Error { *schema = v; return nil },
	}
}

func (r *tokenChoice) setFormat(v value, kind string, schema value) *Error {
	switch {
	case kind == "":
		return badField(v.path+".type", "missing")
	case kind == "text" && schema.raw != nil:
		return badField(schema.path, "a schema, and type is text")
	case kind == "text":
		r.free = true
		return nil
	case schema.raw != nil:
		return r.setConstraint(spec.Constraint{Kind: spec.JSONSchema, Source: schema.raw, Field: schema.path})
	case kind == "json_schema":
		return v.bad("has no schema")
	}
	return r.setConstraint(spec.Constraint{Kind: spec.AnyJSON, Field: v.path})
}

func readGrammar(r *request, v value) *Error {
	s, err := v.text()
	if err != nil || s == "" {
		r.free = err == nil
		return err
	}
	return r.setConstraint(spec.Constraint{Kind: spec.GBNF, Source: []byte(s), Field: v.path})
}

func readSchema(r *request, v value) *Error {
	return r.setConstraint(spec.Constraint{Kind: spec.JSONSchema, Source: v.raw, Field: v.path})
}

func readOllamaFormat(r *request, v value) *Error {
	if v.isObject() {
		return r.setConstraint(spec.Constraint{Kind: spec.JSONSchema, Source: v.raw, Field: v.path})
	}
	s, err := v.text()
	if err != nil || s != "json" && s != "" {
		return v.bad(`must be "json" or a JSON Schema`)
	}
	if s == "" {
		r.free = true
		return nil
	}
	return r.setConstraint(spec.Constraint{Kind: spec.AnyJSON, Field: v.path})
}

// readGuidedJSON reads a schema, or a text that is one.
func readGuidedJSON(r *request, v value) *Error {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		s, err := v.text()
		if err != nil {
			return err
		}
		if !json.Valid([]byte(s)) {
			return v.bad("not JSON")
		}
		v.raw = json.RawMessage(s)
	}
	return readSchema(r, v)
}

// readGuidedChoice reads the texts that an answer may be: a grammar of alternatives.
func readGuidedChoice(r *request, v value) *Error {
	texts, err := v.texts()
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return v.bad("must not be empty")
	}
	alternatives := make([]string, len(texts))
	for i, s := range texts {
		alternatives[i] = grammar.Literal(s)
	}
	source := "root ::= " + strings.Join(alternatives, " | ")
	return r.setConstraint(spec.Constraint{Kind: spec.GBNF, Source: []byte(source), Field: v.path})
}

// readGuidedRegex reads a regular expression.
func readGuidedRegex(r *request, v value) *Error {
	s, err := v.text()
	if err != nil {
		return err
	}
	return r.setConstraint(spec.Constraint{Kind: spec.Regex, Source: []byte(s), Field: v.path})
}

// readBannedStrings reads texts that are not in an answer.
func readBannedStrings(r *request, v value) *Error {
	texts, err := readStops(v)
	if err != nil || len(texts) == 0 {
		return err
	}
	return r.setConstraint(spec.Constraint{Kind: spec.Without, Source: encode(texts), Field: v.path})
}

// readStructured reads vLLM's object of one of several notations.
func readStructured(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"json":    func(v value) *Error { return readGuidedJSON(r, v) },
		"grammar": func(v value) *Error { return readGrammar(r, v) },
		"regex":   func(v value) *Error { return readGuidedRegex(r, v) },
		"choice":  func(v value) *Error { return readGuidedChoice(r, v) },
		"json_object": func(v value) *Error {
			on, err := v.boolean()
			if err != nil || !on {
				return err
			}
			return r.setConstraint(spec.Constraint{Kind: spec.AnyJSON, Field: v.path})
		},
		"disable_fallback":       func(v value) *Error { _, err := v.boolean(); return err },
		"disable_any_whitespace": func(v value) *Error { return onlyBool(v, false) },
	})
}
