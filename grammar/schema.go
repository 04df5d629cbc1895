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
	// Blanks allows one space or line break with indentation between JSON tokens, as a model likes. Without it the text
	// has no blanks at all, and more of it is certain ([Constraint.Forced]).
	Blanks bool
	// Spaces writes one space behind each colon and comma between JSON tokens, as Python's json does and most models with
	// it; it is fixed as well.
	Spaces bool
	// Notation is how values are written where that is not JSON; it excludes Blanks.
	Notation Notation
}

// ParseSchema compiles a JSON Schema (2020-12, and what older drafts spell alike). Every text of the grammar is valid
// by the schema; not every valid text is in the grammar: members come in the order of properties, an object whose
// schema lists properties has no others unless additionalProperties asks for them, and their names hold no escapes.
//
// Supported: type (also a list), enum, const, properties, required, additionalProperties, items, prefixItems, minItems,
// maxItems, minLength, maxLength, pattern (regular expressions without backreferences and look-around; by itself),
// format (date, time, date-time, duration, email, hostname, ipv4, ipv6, uri, uuid), minimum, maximum, exclusiveMinimum,
// exclusiveMaximum (numbers are then written without exponent), multipleOf 1, anyOf, oneOf (as anyOf, of schemas that
// exclude each other by their types or constants), allOf (of one schema, or of objects), $ref to the same document,
// $defs, definitions, true and {}. Annotations (title, description, default, examples and the like) are ignored.
// Every other keyword is an error that names it and its place: it would not be enforced. A nil budget has the default
// limits and no end.
func ParseSchema(b *Budget, source []byte, o SchemaOptions) (*Grammar, error) {
	b = b.orDefault()
	v, err := parseJSON(b, source)
	switch {
	case err != nil:
		return nil, err
	case o.Blanks && o.Spaces:
		return nil, fmt.Errorf("%w: Blanks and Spaces exclude each other", ErrGrammar)
	case o.Blanks && o.Notation != (Notation{}):
		return nil, fmt.Errorf("%w: Blanks and a Notation exclude each other", ErrGrammar)
	}
	s := &schema{Budget: b, Notation: o.Notation, root: v, refs: map[*object]rule{}, builtin: map[string]rule{},
		blanks: o.Blanks, spaces: o.Spaces}
	top := &place{part: "#"}
	main := s.add(top, choice{})
	s.bodies[main] = s.value(v, top, 0)
	for len(s.waiting) > 0 && b.err == nil { // not where they are found: a hostile schema may chain all its rules
		w := s.waiting[len(s.waiting)-1]
		s.waiting = s.waiting[:len(s.waiting)-1]
		s.bodies[w.rule] = s.value(w.schema, s.places[w.rule], 1)
	}
	if s.Call && !s.called {
		s.fail(top, "the arguments of a call are an object, whose schema says so itself")
	}
	if b.err != nil {
		return nil, b.err
	}
	return compile(b, func(rule int) string { return s.places[rule].String() }, s.bodies, int(main))
}

// ParseJSON compiles the grammar of any JSON object: OpenAI's response_format json_object.
func ParseJSON(b *Budget, o SchemaOptions) (*Grammar, error) {
	return ParseSchema(b, []byte(`{"type":"object"}`), o)
}

// schema turns a JSON Schema into rules. It stops when its budget has failed.
type schema struct {
	*Budget
	Notation
	called  bool // the arguments of a call were written
	root    any
	places  []*place // of rules
	bodies  []expression
	refs    map[*object]rule // rules of the schemas that $refs name
	waiting []referred       // of refs, without a body yet
	builtin map[string]rule  // rules of JSON itself
	blanks  bool
	spaces  bool
}

// referred is a schema that a $ref names, and its rule.
type referred struct {
	rule   rule
	schema *object
}

// place is where something stands in a schema: a JSON pointer, from its end.
type place struct {
	up   *place
	part string
}

// at is a place inside of p.
func (p *place) at(part string) *place { return &place{p, part} }

// String is the pointer, shortened in the middle.
func (p *place) String() string {
	var parts []string
	for ; p != nil; p = p.up {
		parts = append(parts, p.part)
	}
	slices.Reverse(parts)
	path := strings.Join(parts, "/")
	if len(path) > 120 {
		path = path[:60] + "…" + path[len(path)-60:]
	}
	return path
}

// fail keeps the first error.
func (s *schema) fail(at *place, format string, args ...any) expression {
	if s.err == nil {
		s.Budget.fail(fmt.Errorf("%w: schema %s: %s", ErrGrammar, at, fmt.Sprintf(format, args...)))
	}
	return choice{}
}

// beyond is a limit's error.
func (s *schema) beyond(at *place, limit string, most int) expression {
	if s.err == nil {
		s.Budget.fail(fmt.Errorf("schema %s: %w", at, exceeded(limit, most)))
	}
	return choice{}
}

// nodeBytes is what a part of an expression takes in memory, and a step.
const nodeBytes = 128

// add is a new rule.
func (s *schema) add(at *place, body expression) rule {
	if len(s.bodies) >= s.limits.Rules {
		s.beyond(at, "Rules", s.limits.Rules)
	}
	s.take(nodeBytes)
	s.places, s.bodies = append(s.places, at), append(s.bodies, body)
	return rule(len(s.bodies) - 1)
}

// Keywords that say nothing about which values are valid.
var annotations = []string{"title", "description", "default", "examples", "example", "$comment", "$schema", "$id", "id",
	"$anchor", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "$defs", "definitions"}

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
func (s *schema) value(v any, path *place, depth int) expression {
	if !s.take(nodeBytes) {
		return choice{}
	}
	if depth > s.limits.Nesting {
		return s.beyond(path, "Nesting", s.limits.Nesting)
	}
	if yes, ok := v.(bool); ok {
		if !yes {
			return s.fail(path, "false allows no value")
		}
		return s.any()
	}
	o, ok := v.(*object)
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
			return s.fail(path.at("enum"), "a list of at least one value expected")
		}
		x = s.constants(o, path, list)
	} else if any, ok := use("anyOf"); ok {
		x = s.alternatives(any, path.at("anyOf"), depth, false)
	} else if one, ok := use("oneOf"); ok {
		x = s.alternatives(one, path.at("oneOf"), depth, true)
	} else if all, ok := use("allOf"); ok {
		x = s.all(o, all, path, depth, &known)
	} else {
		x = s.typed(o, path, depth, &known)
	}
	for _, m := range o.all() {
		if s.spend(1) && !slices.Contains(known, m.key) {
			return s.fail(path, "keyword %.60q is not supported here", m.key)
		}
	}
	return x
}

// typed is a value of the schema's type or types.
func (s *schema) typed(o *object, path *place, depth int, known *[]string) expression {
	*known = append(*known, "type")
	var names []string
	switch t, _ := o.get("type"); t := t.(type) {
	case nil:
		// Keywords of one type choose that type: values of other types would be valid too, by default.
		for _, name := range types {
			if name != "integer" && slices.ContainsFunc(keywordsOf[name], func(key string) bool { return o.find(key) >= 0 }) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return s.any()
		}
	case string:
		names = []string{t}
	case []any:
		if names = o.typeNames(); len(names) == 0 {
			return s.fail(path.at("type"), "an empty list allows no value")
		}
		if len(names) > s.limits.Alternatives {
			return s.beyond(path.at("type"), "Alternatives", s.limits.Alternatives)
		}
		if slices.Contains(names, "number") {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "integer" })
		}
	default:
		return s.fail(path.at("type"), "a name or a list of names expected")
	}
	var all choice
	for _, name := range names {
		keywords, ok := keywordsOf[name]
		if !ok {
			return s.fail(path.at("type"), "unknown type %.40q", name)
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

// typeNames are the names that "type" gives; none if it gives none.
func (o *object) typeNames() (names []string) {
	switch t, _ := o.get("type"); t := t.(type) {
	case string:
		return []string{t}
	case []any:
		for _, e := range t {
			name, _ := e.(string)
			names = append(names, name)
		}
	}
	return names
}

// constants is one of some values, as far as they have the schema's type, if it names one.
func (s *schema) constants(o *object, path *place, values []any) expression {
	if len(values) > s.limits.Alternatives {
		return s.beyond(path.at("enum"), "Alternatives", s.limits.Alternatives)
	}
	names := o.typeNames()
	var all choice
	for _, v := range values {
		if !s.spend(1 + len(names)) {
			break
		}
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return hasType(v, n) }) {
			continue
		}
		text := s.write(v, path)
		s.take(len(text) + nodeBytes)
		all = append(all, literal(text))
	}
	if len(all) == 0 {
		return s.fail(path, "no value of const or enum has the type %.60q", names)
	}
	return all
}

// hasType reports whether a value has the type of a name.
func hasType(v any, name string) bool {
	return name == typeOf(v) || name == "number" && typeOf(v) == "integer"
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
		if integral(string(v)) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// alternatives is anyOf or oneOf.
func (s *schema) alternatives(v any, path *place, depth int, exclusive bool) expression {
	list, ok := v.([]any)
	switch {
	case !ok || len(list) == 0:
		return s.fail(path, "a list of at least one schema expected")
	case len(list) > s.limits.Alternatives:
		return s.beyond(path, "Alternatives", s.limits.Alternatives)
	case exclusive && len(list) > 1 && !s.exclude(list):
		return s.fail(path, "the schemas may both hold for one value; that exactly one does is not enforced: use anyOf")
	}
	var all choice
	for i, x := range list {
		all = append(all, s.value(x, path.at(strconv.Itoa(i)), depth+1))
	}
	return all
}

// exclude reports whether no value is valid by two of the schemas: their types differ, or their constants do, or
// those of a common required member.
func (s *schema) exclude(list []any) bool {
	d := difference{schema: s, seen: map[[2]*object]bool{}, kinds: map[*object]*kind{}}
	for i, a := range list {
		for _, b := range list[i+1:] {
			if !d.of(a, b, 0) {
				return false
			}
		}
	}
	return true
}

// difference looks for what tells two schemas apart.
type difference struct {
	*schema
	seen  map[[2]*object]bool // whether they differ; false while that is looked for: it must show in finite depth
	kinds map[*object]*kind
}

func (d *difference) of(a, b any, depth int) bool {
	x, y := d.resolve(a), d.resolve(b)
	if x == nil || y == nil || depth > d.limits.Nesting || !d.take(nodeBytes) {
		return false
	}
	pair := [2]*object{x, y}
	known, ok := d.seen[pair]
	if !ok {
		d.seen[pair] = false
		known = d.kind(x).differs(d.kind(y)) || d.members(x, y, depth)
		d.seen[pair] = known
	}
	return known
}

// kind is what a schema says of its values directly.
type kind struct {
	types     []string        // none: any
	constants map[string]bool // nil: it names none
	required  map[string]bool
}

func (d *difference) kind(o *object) *kind {
	if k := d.kinds[o]; k != nil {
		return k
	}
	k := &kind{required: map[string]bool{}}
	d.kinds[o] = k
	var list []any
	if c, ok := o.get("const"); ok {
		list, k.constants = []any{c}, map[string]bool{}
	} else if e, ok := o.get("enum"); ok {
		list, _ = e.([]any)
		k.constants = map[string]bool{}
	} else {
		k.types = o.typeNames()
	}
	for _, v := range list {
		text := string(appendJSON(nil, v))
		if !d.take(len(text) + nodeBytes) {
			break
		}
		if k.constants[text] = true; !slices.Contains(k.types, typeOf(v)) {
			k.types = append(k.types, typeOf(v))
		}
	}
	v, _ := o.get("required")
	names, _ := v.([]any)
	for _, e := range names {
		if name, ok := e.(string); ok && d.take(nodeBytes) {
			k.required[name] = true
		}
	}
	return k
}

// differs reports whether the types or the constants differ.
func (k *kind) differs(o *kind) bool {
	numeric := func(k *kind) bool { return slices.Contains(k.types, "number") || slices.Contains(k.types, "integer") }
	common := slices.ContainsFunc(k.types, func(t string) bool { return slices.Contains(o.types, t) })
	if len(k.types) > 0 && len(o.types) > 0 && !common && !(numeric(k) && numeric(o)) {
		return true
	}
	// numbers may be equal and spelled differently
	if k.constants == nil || o.constants == nil || numeric(k) || numeric(o) {
		return false
	}
	for c := range k.constants {
		if o.constants[c] {
			return false
		}
	}
	return true
}

// members reports whether a member that both schemas require differs.
func (d *difference) members(x, y *object, depth int) bool {
	properties := func(o *object) *object {
		v, _ := o.get("properties")
		list, _ := v.(*object)
		return list
	}
	px, py := properties(x), properties(y)
	rx, ry := d.kind(x).required, d.kind(y).required
	for _, m := range px.all() {
		other, ok := py.get(m.key)
		if d.spend(1) && ok && rx[m.key] && ry[m.key] && d.of(m.value, other, depth+1) {
			return true
		}
	}
	return false
}

// resolve is the object of a schema, behind its $refs; nil if there is none.
func (s *schema) resolve(v any) *object {
	for n := 0; ; n++ {
		o, ok := v.(*object)
		if !ok {
			return nil
		}
		ref, ok := o.get("$ref")
		if !ok {
			return o
		}
		if n == s.limits.References {
			s.Budget.fail(fmt.Errorf("schema: $ref: %w", exceeded("References", s.limits.References)))
			return nil
		}
		name, _ := ref.(string)
		if v, ok = s.lookup(name); !ok {
			return nil
		}
	}
}

// all is allOf: of one schema, or of objects whose members are put together.
func (s *schema) all(o *object, v any, path *place, depth int, known *[]string) expression {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return s.fail(path.at("allOf"), "a list of at least one schema expected")
	}
	rest := &object{}
	for _, m := range o.all() {
		if m.key != "allOf" && !slices.Contains(annotations, m.key) {
			rest.add(m.key, m.value)
		}
	}
	if len(list) == 1 && len(rest.members) == 0 {
		return s.value(list[0], path.at("allOf").at("0"), depth+1)
	}
	parts := append([]any{rest}, list...)
	properties := &object{}
	var required []any
	for i, p := range parts {
		where := path.at("allOf").at(strconv.Itoa(i - 1))
		part := s.resolve(p)
		if part == nil || !s.take(nodeBytes) {
			return s.fail(where, "allOf of several schemas takes objects only")
		}
		for _, m := range part.all() {
			switch m.key {
			case "type":
				if m.value != "object" {
					return s.fail(where, "allOf of several schemas takes objects only")
				}
			case "properties":
				more, ok := m.value.(*object)
				if !ok {
					return s.fail(where.at("properties"), "an object expected")
				}
				for _, p := range more.all() {
					if s.take(nodeBytes) && !properties.add(p.key, p.value) {
						return s.fail(where, "property %.40q is in two of the schemas", p.key)
					}
				}
			case "required":
				more, ok := m.value.([]any)
				if !ok {
					return s.fail(where.at("required"), "a list expected")
				}
				s.take(nodeBytes * len(more))
				required = append(required, more...)
			default:
				if !slices.Contains(annotations, m.key) {
					return s.fail(where, "keyword %.60q is not supported inside allOf", m.key)
				}
			}
		}
	}
	for _, m := range rest.members {
		*known = append(*known, m.key)
	}
	together := &object{}
	together.add("properties", properties)
	together.add("required", required)
	return s.object(together, path, depth)
}

// lookup finds what a $ref names: "#" or "#/…", a JSON pointer (RFC 6901) in a URI fragment.
func (s *schema) lookup(ref string) (any, bool) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok || !s.spend(1+len(ref)) {
		return nil, false
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
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
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case *object:
			if v, ok = x.get(part); !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) || part != strconv.Itoa(i) {
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
func (s *schema) reference(v any, path *place) expression {
	name, ok := v.(string)
	if !ok {
		return s.fail(path.at("$ref"), "a string expected")
	}
	target, ok := s.lookup(name)
	if !ok {
		return s.fail(path.at("$ref"), "%.80q is not in this document", name)
	}
	o, ok := target.(*object)
	if !ok { // true or false
		return s.value(target, &place{part: name}, 1)
	}
	r, ok := s.refs[o]
	if !ok {
		r = s.add(&place{part: name}, choice{})
		s.refs[o] = r
		s.waiting = append(s.waiting, referred{r, o})
	}
	return r
}
