package chat

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Syntaxes that write arguments as text leave their types to the tool's schema.

// typeSet is a set of JSON's types. A number is an integer or has a fraction.
type typeSet uint8

const (
	stringType typeSet = 1 << iota
	integerType
	fractionType
	booleanType
	nullType
	arrayType
	objectType

	numberType = integerType | fractionType
	anyType    = objectType<<1 - 1
)

// typeNames are the types as JSON Schema calls them.
var typeNames = map[string]typeSet{
	"string": stringType, "number": numberType, "integer": integerType, "boolean": booleanType, "null": nullType,
	"array": arrayType, "object": objectType,
}

// typeOf is the type of a decoded value.
func typeOf(v any) typeSet {
	switch v := v.(type) {
	case string:
		return stringType
	case bool:
		return booleanType
	case nil:
		return nullType
	case []any:
		return arrayType
	case map[string]any:
		return objectType
	case json.Number:
		x, _ := v.Float64()
		return typeOf(x)
	case float64:
		if v != math.Trunc(v) {
			return fractionType
		}
	}
	return integerType
}

// A schemaView is a place in a tool's schema. The zero value knows nothing.
type schemaView struct{ root, at any }

// Bounds of what is looked up in one schema: references and compositions inside each other, and branches seen.
const (
	maxSchemaDepth  = 16
	maxSchemaVisits = 1 << 10
	visitValues     = 16 // listed values that count as a branch
)

// argumentsOf is the schema of a tool's arguments.
func argumentsOf(tools []Tool, name string) schemaView {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return schemaView{}
	}
	var root any
	if json.Unmarshal(tools[i].Parameters, &root) != nil {
		return schemaView{}
	}
	return schemaView{root, root}
}

// branches calls f for the objects that a schema is made of, by references and compositions.
func (s schemaView) branches(f func(o map[string]any)) {
	visits := 0
	var visit func(v any, depth int)
	visit = func(v any, depth int) {
		o, _ := v.(map[string]any)
		if visits++; o == nil || depth > maxSchemaDepth || visits > maxSchemaVisits {
			return
		}
		f(o)
		if ref, ok := o["$ref"].(string); ok {
			visit(s.find(ref), depth+1)
		}
		for _, key := range [...]string{"allOf", "anyOf", "oneOf"} {
			list, _ := o[key].([]any)
			for _, x := range list {
				visit(x, depth+1)
			}
		}
	}
	visit(s.at, 0)
}

// maxReference is how many bytes a reference may have. It may be followed once for each place that refers to it.
const maxReference = 1 << 10

// find is what a reference within the schema names; nil: nothing, or it is too long.
func (s schemaView) find(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok || len(ref) > maxReference {
		return nil
	}
	v := s.root
	for part := range strings.SplitSeq(pointer, "/") {
		o, _ := v.(map[string]any)
		if o == nil {
			return nil
		}
		v = o[pointerKey(part)]
	}
	return v
}

// pointerKey is the key that a part of a JSON pointer names.
func pointerKey(part string) string {
	return strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
}

// property is the schema of a member, items that of an array's items.
func (s schemaView) property(name string) schemaView {
	out := schemaView{root: s.root}
	s.branches(func(o map[string]any) {
		if p, _ := o["properties"].(map[string]any); p[name] != nil && out.at == nil {
			out.at = p[name]
		}
	})
	if out.at == nil {
		s.branches(func(o map[string]any) {
			if a, ok := o["additionalProperties"].(map[string]any); ok && out.at == nil {
				out.at = a
			}
		})
	}
	return out
}

func (s schemaView) items() schemaView {
	out := schemaView{root: s.root}
	s.branches(func(o map[string]any) {
		if i, ok := o["items"].(map[string]any); ok && out.at == nil {
			out.at = i
		}
	})
	return out
}

// types are those that a value may have; known is false where the schema does not say.
func (s schemaView) types() (set typeSet, known bool) {
	set = s.typesOf(s.at, new(int), 0)
	return set, set != anyType && set != 0
}

func (s schemaView) typesOf(v any, visits *int, depth int) typeSet {
	o, _ := v.(map[string]any)
	if *visits++; o == nil || depth > maxSchemaDepth || *visits > maxSchemaVisits {
		return anyType
	}
	set := anyType
	switch x := o["type"].(type) {
	case string:
		set = typeNames[x]
	case []any:
		set = 0
		for _, name := range x {
			text, _ := name.(string)
			set |= typeNames[text]
		}
	}
	if list, ok := o["enum"].([]any); ok {
		*visits += len(list) / visitValues
		var of typeSet
		for _, x := range list {
			of |= typeOf(x)
		}
		set &= of
	}
	if x, ok := o["const"]; ok {
		set &= typeOf(x)
	}
	if nullable, _ := o["nullable"].(bool); nullable {
		set |= nullType
	}
	if ref, ok := o["$ref"].(string); ok {
		set &= s.typesOf(s.find(ref), visits, depth+1)
	}
	all, _ := o["allOf"].([]any)
	for _, x := range all {
		set &= s.typesOf(x, visits, depth+1)
	}
	for _, key := range [...]string{"anyOf", "oneOf"} {
		if list, ok := o[key].([]any); ok {
			var either typeSet
			for _, x := range list {
				either |= s.typesOf(x, visits, depth+1)
			}
			set &= either
		}
	}
	return set
}

// textValue is a value that a syntax wrote as text, as JSON. Text that is a value of another type that the schema
// admits is that value, also as Python spells it; other text is a string. Where the schema says nothing, text is JSON
// if it can be, but for a string in quotes.
func (s schemaView) textValue(text string) string {
	types, known := s.types()
	return textValueOf(text, types, known)
}

// textValueOf is textValue by the types that the schema admits.
func textValueOf(text string, types typeSet, known bool) string {
	if known && types == stringType {
		return quoted(text)
	}
	trimmed := strings.TrimSpace(text)
	if value, of := literalValue(trimmed); value != "" && of != stringType && types&of != 0 {
		return value
	}
	if known && types&stringType == 0 && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return quoted(text)
}

// literalValue is text as JSON and its type: text that is JSON, or as Python writes a value; "" if it is neither.
func literalValue(text string) (value string, of typeSet) {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		return text, typeOf(v)
	}
	switch text {
	case "True":
		return "true", booleanType
	case "False":
		return "false", booleanType
	case "None":
		return "null", nullType
	}
	if text == "" || text[0] != '{' && text[0] != '[' {
		return "", 0
	}
	r := literalReader{s: text}
	if !r.value() || strings.TrimSpace(r.s) != "" {
		return "", 0
	}
	value = r.out.String()
	if value[0] == '{' {
		return value, objectType
	}
	return value, arrayType
}
