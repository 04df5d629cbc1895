package grammar

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// SchemaOptions say how the JSON text that follows a schema is written. The zero value is useful.
type SchemaOptions struct {
	// Blanks allows one space or line break with indentation between JSON tokens, as a model likes. Without it the text has no blanks at all, and more of it is certain ([Constraint.Forced]).
	Blanks bool
	// Spaces writes one space behind each colon and comma between JSON tokens, as Python's json does and most models with it; it is fixed as well.
	Spaces bool
	// Notation is how values are written where that is not JSON; it excludes Blanks.
	Notation Notation
}

// ParseSchema compiles a JSON Schema (2020-12, and what older drafts spell alike). Every text of the grammar is valid by the schema; not
// every valid text is in the grammar: members come in the order of properties, an object whose schema lists properties has no others unless
// additionalProperties asks for them, and their names hold no escapes.
//
// Supported: type (also a list), enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems, minLength,
// maxLength, pattern (regular expressions without backreferences and look-around; by itself), format (date, time, date-time, duration, email,
// hostname, ipv4, ipv6, uri, uuid), minimum, maximum, exclusiveMinimum, exclusiveMaximum (numbers are then written without exponent), multipleOf 1, anyOf, oneOf
// (as anyOf, of schemas that exclude each other by their types or constants), allOf (of one schema, or of objects), $ref to the same document, $defs, definitions, true and {}.
// Annotations (title, description, default, examples and the like) are ignored. Every other keyword is an error that names it and its place: it would not be enforced.
func ParseSchema(source []byte, o SchemaOptions) (*Grammar, error) {
	v, err := parseJSON(source)
	switch {
	case err != nil:
		return nil, err
	case o.Blanks && o.Spaces:
		return nil, fmt.Errorf("%w: Blanks and Spaces exclude each other", ErrGrammar)
	case o.Blanks && o.Notation != (Notation{}):
		return nil, fmt.Errorf("%w: Blanks and a Notation exclude each other", ErrGrammar)
	}
	s := &schema{Notation: o.Notation, root: v, refs: map[string]rule{}, builtin: map[string]rule{}, blanks: o.Blanks, spaces: o.Spaces}
	root := s.value(v, "#", 0)
	if s.Call && !s.called {
		s.fail("#", "the arguments of a call are an object, whose schema says so itself")
	}
	if s.err != nil {
		return nil, s.err
	}
	main := s.add("root", root)
	return compile(s.names, s.bodies, int(main))
}

// ParseJSON compiles the grammar of any JSON object: OpenAI's response_format json_object.
func ParseJSON(o SchemaOptions) (*Grammar, error) {
	return ParseSchema([]byte(`{"type":"object"}`), o)
}

// schema turns a JSON Schema into rules.
type schema struct {
	Notation
	called  bool // the arguments of a call were written
	root    any
	names   []string
	bodies  []expression
	refs    map[string]rule // rules of $refs, by JSON pointer
	builtin map[string]rule // rules of JSON itself
	blanks  bool
	spaces  bool
	err     error
}

// fail keeps the first error; path is a JSON pointer into the schema.
func (s *schema) fail(path, format string, args ...any) expression {
	if s.err == nil {
		if len(path) > 120 {
			path = path[:60] + "…" + path[len(path)-60:]
		}
		s.err = fmt.Errorf("%w: schema %s: %s", ErrGrammar, path, fmt.Sprintf(format, args...))
	}
	return choice{}
}

// maxRules bounds a schema's rules: a $ref is compiled once, so only the schema's own size counts.
const maxRules = 1 << 16

func (s *schema) add(name string, body expression) rule {
	if len(s.names) >= maxRules {
		s.fail("#", "more than %d rules", maxRules)
	}
	s.names, s.bodies = append(s.names, name), append(s.bodies, body)
	return rule(len(s.names) - 1)
}

// Keywords that say nothing about which values are valid.
var annotations = []string{"title", "description", "default", "examples", "example", "$comment", "$schema", "$id", "id", "$anchor", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "$defs", "definitions"}

// Keywords of each type.
var keywordsOf = map[string][]string{
	"object":  {"properties", "required", "additionalProperties"},
	"array":   {"items", "prefixItems", "minItems", "maxItems"},
	"string":  {"minLength", "maxLength", "pattern", "format"},
	"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	"boolean": nil,
	"null":    nil,
}

// types in the order in which a value without "type" is tried.
var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// value is the expression of a value that is valid by the schema v.
func (s *schema) value(v any, path string, depth int) expression {
	if s.err != nil {
		return choice{}
	}
	if depth > maxNesting {
		return s.fail(path, "nested deeper than %d", maxNesting)
	}
	if yes, ok := v.(bool); ok {
		if !yes {
			return s.fail(path, "false allows no value")
		}
		return s.any()
	}
	o, ok := v.(object)
	if !ok {
		return s.fail(path, "a schema is an object or a boolean, not %.40s", appendJSON(nil, v))
	}
	known := slices.Clone(annotations)
	use := func(key string) (any, bool) {
		known = append(known, key)
		return o.get(key)
	}
	var x expression
	if ref, ok := use("$ref"); ok {
		x = s.reference(ref, path)
	} else if c, ok := use("const"); ok {
		use("type")
		x = s.constants(o, path, []any{c})
	} else if e, ok := use("enum"); ok {
		use("type")
		list, isList := e.([]any)
		if !isList || len(list) == 0 {
			return s.fail(path+"/enum", "a list of at least one value expected")
		}
		x = s.constants(o, path, list)
	} else if any, ok := use("anyOf"); ok {
		x = s.alternatives(any, path+"/anyOf", depth, false)
	} else if one, ok := use("oneOf"); ok {
		x = s.alternatives(one, path+"/oneOf", depth, true)
	} else if all, ok := use("allOf"); ok {
		x = s.all(o, all, path, depth, &known)
	} else {
		x = s.typed(o, path, depth, &known)
	}
	for _, m := range o {
		if !slices.Contains(known, m.key) {
			return s.fail(path, "keyword %q is not supported here", m.key)
		}
	}
	return x
}

// typed is a value of the schema's type or types.
func (s *schema) typed(o object, path string, depth int, known *[]string) expression {
	*known = append(*known, "type")
	var names []string
	switch t, _ := o.get("type"); t := t.(type) {
	case nil:
		// Keywords of one type choose that type: values of other types would be valid too, by default.
		for _, name := range types {
			if name != "integer" && slices.ContainsFunc(o, func(m member) bool { return slices.Contains(keywordsOf[name], m.key) }) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return s.any()
		}
	case string:
		names = []string{t}
	case []any:
		for _, e := range t {
			name, _ := e.(string)
			names = append(names, name)
		}
		if len(names) == 0 {
			return s.fail(path+"/type", "an empty list allows no value")
		}
		if slices.Contains(names, "number") {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "integer" })
		}
	default:
		return s.fail(path+"/type", "a name or a list of names expected")
	}
	var all choice
	for _, name := range names {
		keywords, ok := keywordsOf[name]
		if !ok {
			return s.fail(path+"/type", "unknown type %.40q", name)
		}
		*known = append(*known, keywords...)
		switch name {
		case "object":
			all = append(all, s.object(o, path, depth))
		case "array":
			all = append(all, s.array(o, path, depth))
		case "string":
			all = append(all, s.string(o, path))
		case "number", "integer":
			all = append(all, s.number(o, path, name == "integer"))
		case "boolean":
			all = append(all, choice{literal(s.constant(true)), literal(s.constant(false))})
		case "null":
			all = append(all, literal(s.constant(nil)))
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// constants is one of some values, as far as they have the schema's type, if it names one.
func (s *schema) constants(o object, path string, values []any) expression {
	var names []string
	switch t, _ := o.get("type"); t := t.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, e := range t {
			name, _ := e.(string)
			names = append(names, name)
		}
	}
	var all choice
	for _, v := range values {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return n == typeOf(v) || n == "number" && typeOf(v) == "integer" }) {
			continue
		}
		if s.Notation == (Notation{}) {
			all = append(all, literal(appendJSON(nil, v)))
		} else {
			all = append(all, literal(s.write(v, path)))
		}
	}
	if len(all) == 0 {
		return s.fail(path, "no value of const or enum has the type %q", names)
	}
	return all
}

// typeOf is the name of a value's type.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case json.Number:
		if d, ok := parseDecimal(string(v)); ok && d.fraction == "" {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// alternatives is anyOf or oneOf.
func (s *schema) alternatives(v any, path string, depth int, exclusive bool) expression {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return s.fail(path, "a list of at least one schema expected")
	}
	if exclusive && len(list) > 1 && !s.exclude(list) {
		return s.fail(path, "the schemas may both hold for one value; that exactly one does is not enforced: use anyOf")
	}
	var all choice
	for i, x := range list {
		all = append(all, s.value(x, path+"/"+strconv.Itoa(i), depth+1))
	}
	return all
}

// exclude reports whether no value is valid by two of the schemas: their types differ, or their constants do, or those of a common required member.
func (s *schema) exclude(list []any) bool {
	for i, a := range list {
		for _, b := range list[i+1:] {
			if !s.differ(a, b, 0) {
				return false
			}
		}
	}
	return true
}

func (s *schema) differ(a, b any, depth int) bool {
	x, y := s.resolve(a), s.resolve(b)
	if x == nil || y == nil || depth > 8 {
		return false
	}
	kinds := func(o object) (types, constants []string) {
		if c, ok := o.get("const"); ok {
			return []string{typeOf(c)}, []string{string(appendJSON(nil, c))}
		}
		if e, ok := o.get("enum"); ok {
			list, _ := e.([]any)
			for _, v := range list {
				types, constants = append(types, typeOf(v)), append(constants, string(appendJSON(nil, v)))
			}
			return types, constants
		}
		switch t, _ := o.get("type"); t := t.(type) {
		case string:
			types = []string{t}
		case []any:
			for _, e := range t {
				name, _ := e.(string)
				types = append(types, name)
			}
		}
		return types, nil
	}
	tx, cx := kinds(x)
	ty, cy := kinds(y)
	common := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
	}
	numeric := func(t []string) bool { return slices.Contains(t, "number") || slices.Contains(t, "integer") }
	if len(tx) > 0 && len(ty) > 0 && !common(tx, ty) && !(numeric(tx) && numeric(ty)) {
		return true
	}
	if cx != nil && cy != nil && !numeric(tx) && !numeric(ty) { // numbers may be equal and spelled differently
		return !common(cx, cy)
	}
	px, _ := x.get("properties")
	py, _ := y.get("properties")
	ox, _ := px.(object)
	oy, _ := py.(object)
	rx, _ := x.get("required")
	ry, _ := y.get("required")
	lx, _ := rx.([]any)
	ly, _ := ry.([]any)
	for _, m := range ox {
		other, ok := oy.get(m.key)
		if ok && slices.Contains(lx, any(m.key)) && slices.Contains(ly, any(m.key)) && s.differ(m.value, other, depth+1) {
			return true
		}
	}
	return false
}

// resolve is the object of a schema, behind its $refs; nil if there is none.
func (s *schema) resolve(v any) object {
	for range 32 {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		ref, ok := o.get("$ref")
		if !ok {
			return o
		}
		name, _ := ref.(string)
		if v, ok = s.lookup(name); !ok {
			return nil
		}
	}
	return nil
}

// all is allOf: of one schema, or of objects whose members are put together.
func (s *schema) all(o object, v any, path string, depth int, known *[]string) expression {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return s.fail(path+"/allOf", "a list of at least one schema expected")
	}
	rest := slices.DeleteFunc(slices.Clone(o), func(m member) bool { return m.key == "allOf" || slices.Contains(annotations, m.key) })
	if len(list) == 1 && len(rest) == 0 {
		return s.value(list[0], path+"/allOf/0", depth+1)
	}
	parts := []any{rest}
	parts = append(parts, list...)
	var properties object
	var required []any
	for i, p := range parts {
		where := path + "/allOf/" + strconv.Itoa(i-1)
		part := s.resolve(p)
		if part == nil {
			return s.fail(where, "allOf of several schemas takes objects only")
		}
		for _, m := range part {
			switch m.key {
			case "type":
				if m.value != "object" {
					return s.fail(where, "allOf of several schemas takes objects only")
				}
			case "properties":
				more, ok := m.value.(object)
				if !ok {
					return s.fail(where+"/properties", "an object expected")
				}
				for _, p := range more {
					if _, twice := properties.get(p.key); twice {
						return s.fail(where, "property %.40q is in two of the schemas", p.key)
					}
					properties = append(properties, p)
				}
			case "required":
				more, ok := m.value.([]any)
				if !ok {
					return s.fail(where+"/required", "a list expected")
				}
				required = append(required, more...)
			default:
				if !slices.Contains(annotations, m.key) {
					return s.fail(where, "keyword %q is not supported inside allOf", m.key)
				}
			}
		}
	}
	for _, m := range rest {
		*known = append(*known, m.key)
	}
	return s.object(object{{"properties", properties}, {"required", required}}, path, depth)
}

// lookup finds what a $ref names: "#" or "#/…", a JSON pointer (RFC 6901) in a URI fragment.
func (s *schema) lookup(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	v := s.root
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case object:
			if v, ok = x.get(part); !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// reference is a rule of its own for each schema that a $ref names: schemas may refer to themselves.
func (s *schema) reference(v any, path string) expression {
	name, ok := v.(string)
	if !ok {
		return s.fail(path+"/$ref", "a string expected")
	}
	if r, ok := s.refs[name]; ok {
		return r
	}
	target, ok := s.lookup(name)
	if !ok {
		return s.fail(path+"/$ref", "%.80q is not in this document", name)
	}
	r := s.add(name, choice{})
	s.refs[name] = r
	s.bodies[r] = s.value(target, name, 1)
	return r
}
