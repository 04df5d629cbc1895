package grammar

import (
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
	// Narrow leaves out what a schema allows and does not speak of: members of an object that lists some and has no
	// additionalProperties, items behind prefixItems without items, and values of other types than its keywords are about.
	// Members that minProperties demands, and items that contains does, are not left out.
	Narrow bool
	// Relaxed leaves out assertions that a grammar cannot hold, instead of refusing the schema. [Grammar.Ignored] lists
	// them; texts may then be invalid by the schema.
	Relaxed bool
	// AnyOrder lets the members of an object come in any order, those that the schema lists among others. Objects whose
	// number of members is bounded, or that demand one that is not named, keep the order of the schema. Fewer tokens are
	// forced. It excludes Notation.Sorted.
	AnyOrder bool
	// Notation is how values are written where that is not JSON; it excludes Blanks.
	Notation Notation
}

// ParseSchema compiles a JSON Schema of the drafts 4 to 2020-12. Every text of the grammar is valid by the schema; not
// every valid text is in the grammar: listed members come in the order of the schema, unless AnyOrder is set, and
// their names have no escapes. See docs/GRAMMAR.md for the keywords. An assertion that a grammar cannot hold is an
// error that names the keyword and its place; [Grammar.Ignored] lists annotations. A nil budget has the default limits
// and no end.
func ParseSchema(b *Budget, source []byte, o SchemaOptions) (*Grammar, error) {
	b = b.orDefault()
	v, err := parseJSON(b, source)
	switch {
	case err != nil:
		return nil, err
	case o.Blanks && o.Spaces:
		return nil, fmt.Errorf("%w: Blanks and Spaces exclude each other", ErrGrammar)
	case o.AnyOrder && o.Notation.Sorted:
		return nil, fmt.Errorf("%w: AnyOrder and a Notation that is Sorted exclude each other", ErrGrammar)
	case o.Blanks && o.Notation != (Notation{}):
		return nil, fmt.Errorf("%w: Blanks and a Notation exclude each other", ErrGrammar)
	}
	s := &schema{Budget: b, Notation: o.Notation, SchemaOptions: o, terms: newTerms(b, nil), builtin: map[string]rule{},
		document: newDocument(b, v), ids: map[*object]int{}, found: map[*object]*found{}, nots: map[*object]*object{},
		goals: map[string][]branch{}, rules: map[string]rule{},
		expressions: map[string]expression{}, ignored: map[string]string{}}
	top := s.value([]any{v}, &place{part: "#"})
	for len(s.waiting) > 0 && b.err == nil { // not where they are found: a hostile schema may chain all its rules
		w := s.waiting[len(s.waiting)-1]
		s.waiting = s.waiting[:len(s.waiting)-1]
		s.bodies[w.rule] = s.oneOf(s.goal(w.schemas), s.places[w.rule], w.rule == top)
	}
	if s.Call && !s.called {
		s.fail(&place{part: "#"}, "the arguments of a call are an object, whose schema says so itself")
	}
	if b.err != nil {
		return nil, b.err
	}
	p := &pruning{restriction: &restriction{Budget: b, terms: s.terms, quoted: s.terms}}
	if !p.prune(s.bodies)[top] && b.err == nil {
		if s.empty == "" {
			s.empty = "schema #: no finite value is valid"
		}
		return nil, fmt.Errorf("%w: %s", ErrGrammar, s.empty)
	}
	if err := leftRecursion(b, func(rule int) string { return s.places[rule].String() }, s.bodies); err != nil {
		return nil, err
	}
	g := compile(b, s.bodies, int(top))
	if b.err != nil {
		return nil, b.err
	}
	g.json = s.Quote == "" && s.End == "" && !s.Names && !s.Call
	for keyword, place := range s.ignored {
		g.ignored = append(g.ignored, place+": "+keyword)
	}
	slices.Sort(g.ignored)
	return g, nil
}

// ParseJSON compiles the grammar of any JSON object: OpenAI's response_format json_object.
func ParseJSON(b *Budget, o SchemaOptions) (*Grammar, error) {
	return ParseSchema(b, []byte(`{"type":"object"}`), o)
}

// Ignored lists what a schema says that has no effect on the grammar, each keyword once with the place where it was met
// first: annotations such as title, keywords and formats that the specification does not know, and with
// [SchemaOptions.Relaxed] the assertions that were left out.
func (g *Grammar) Ignored() []string { return slices.Clone(g.ignored) }

// schema turns a JSON Schema into rules. It stops when its budget has failed.
type schema struct {
	*Budget
	Notation
	SchemaOptions
	*document
	terms *terms

	// Branches.
	ids        map[*object]int // of schemas that are told apart
	found      map[*object]*found
	nots       map[*object]*object
	goals      map[string][]branch
	depth      int  // of schemas whose branches are looked for
	references int  // of $refs that lead to one another
	probes     int  // of questions inside of that
	guessed    bool // an answer took what was under way as valid

	// Rules.
	places      []*place
	bodies      []expression
	rules       map[string]rule       // of goals
	waiting     []waiting             // rules without a body yet
	builtin     map[string]rule       // of JSON itself
	expressions map[string]expression // of regular expressions and formats
	called      bool                  // the arguments of a call were written
	why         string                // what left out a type last
	empty       string                // why a schema has no value: the first reason
	ignored     map[string]string     // first places, by keyword
}

// waiting are schemas, of which together a rule is made.
type waiting struct {
	rule    rule
	schemas []any
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
	if p == nil {
		return "#"
	}
	var parts []string
	for ; p != nil; p = p.up {
		part := shortened(p.part)
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	slices.Reverse(parts)
	return shortened(strings.Join(parts, "/"))
}

// shortened is a text without its middle where it is long.
func shortened(s string) string {
	if len(s) > 120 {
		s = s[:60] + "…" + s[len(s)-60:]
	}
	return s
}

// fail keeps the first error.
func (s *schema) fail(at *place, format string, args ...any) expression {
	if s.err == nil {
		s.Budget.fail(fmt.Errorf("%w: schema %s: %s", ErrGrammar, at, fmt.Sprintf(format, args...)))
	}
	return choice{}
}

// refuse is the error of an assertion that a grammar cannot hold. True: it is left out.
func (s *schema) refuse(at *place, keyword, format string, args ...any) bool {
	if !s.Relaxed {
		s.fail(at.at(keyword), format, args...)
		return false
	}
	s.ignore(at, keyword)
	return true
}

// ignore lists a keyword.
func (s *schema) ignore(at *place, keyword string) {
	if _, ok := s.ignored[keyword]; !ok && s.take(nodeBytes+len(keyword)) {
		s.ignored[keyword] = at.String()
	}
}

// nothing is the expression of what no value is valid by, and keeps the first reason.
func (s *schema) nothing(at *place, format string, args ...any) expression {
	if s.empty == "" {
		s.empty = fmt.Sprintf("schema %s: %s", at, fmt.Sprintf(format, args...))
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

// value is the rule of the values that are valid by all of the schemas.
func (s *schema) value(schemas []any, at *place) rule {
	key := s.keyOf(schemas)
	r, ok := s.rules[key]
	if !ok {
		r = s.add(at, choice{})
		s.rules[key] = r
		s.waiting = append(s.waiting, waiting{r, schemas})
	}
	return r
}

// oneOf is the expression of a value of one of the branches; top: of the whole text.
func (s *schema) oneOf(branches []branch, at *place, top bool) expression {
	if len(branches) == 0 {
		return s.nothing(at, "no value is valid")
	}
	var all choice
	for i := range branches {
		if s.take(nodeBytes) {
			all = append(all, s.branch(&branches[i], at, top)...)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// branch is the expressions of the values of a branch.
func (s *schema) branch(b *branch, at *place, top bool) (all choice) {
	if b.limited {
		for _, v := range b.values {
			if s.holds(b, v) {
				text := s.write(v, at)
				s.take(len(text) + nodeBytes)
				all = append(all, literal(text))
			}
		}
		if len(all) == 0 {
			s.nothing(at, "no value of const or enum is valid")
		}
		return all
	}
	set := b.types
	if s.Narrow && !b.named && set&b.speaks != 0 {
		set &= b.speaks
	}
	if set == anyType && b.speaks == 0 && len(b.excluded) == 0 && !top {
		return choice{s.any()}
	}
	if set == 0 {
		s.nothing(at, "no type of a value is left")
	}
	if set&isObject != 0 {
		all = append(all, s.object(b, at, top))
	}
	if set&isArray != 0 {
		all = append(all, s.array(b, at))
	}
	if set&isString != 0 {
		all = append(all, s.string(b, at))
	}
	if set&isNumber != 0 {
		all = append(all, s.number(b, at, set&isNumber))
	}
	for _, v := range []any{true, false, nil} {
		if set&typeOf(v) != 0 && !contains(s, b.excluded, v) {
			all = append(all, literal(s.constant(v)))
		}
	}
	return all
}

// document is a schema's source with the places and the names of its parts.
type document struct {
	root      any
	old       bool             // of draft 7 or before: a $ref excludes what stands beside it
	third     bool             // of draft 3
	sites     map[*object]site // of all objects
	resources map[string]any   // by absolute URI, without fragment
	anchors   map[string]any   // by URI and fragment
	dynamic   map[string]int   // how many $dynamicAnchors have a name, and $recursiveAnchors none
}

// site is where an object of a schema stands.
type site struct {
	*place
	base string // URI that references in it are relative to
}

func newDocument(b *Budget, root any) *document {
	d := &document{root: root, sites: map[*object]site{}, resources: map[string]any{"": root}, anchors: map[string]any{},
		dynamic: map[string]int{}}
	o, _ := root.(*object)
	draft := ""
	if v, ok := o.get("$schema"); ok {
		draft, _ = v.(string)
	}
	draft = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(draft, "https"), "http"), "#")
	d.old = strings.HasPrefix(draft, "://json-schema.org/draft-0") || draft == "://json-schema.org/schema"
	d.third = draft == "://json-schema.org/draft-03/schema"
	id := "$id"
	if draft == "" || draft == "://json-schema.org/draft-04/schema" || draft == "://json-schema.org/draft-03/schema" {
		id = "id"
	}
	var walk func(v any, at site, as content)
	walk = func(v any, at site, as content) {
		if !b.take(nodeBytes) {
			return
		}
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				walk(x, site{at.at(strconv.Itoa(i)), at.base}, as)
			}
		case *object:
			for _, key := range []string{"$id", id} {
				name, ok := v.get(key)
				text, isText := name.(string)
				if !ok || !isText || as != aSchema || d.old && v.find("$ref") >= 0 ||
					draft == "" && key == "id" && !strings.HasPrefix(text, "#") { // unknown to the newest draft, which it then is
					continue
				}
				if draft == "" && at.up != nil && v.find("$ref") >= 0 {
					b.fail(fmt.Errorf("%w: schema %s: $id beside $ref counts in some drafts only; $schema says which it is",
						ErrGrammar, at.place))
				}
				if !b.take(len(at.base) + len(text)) { // the name is as long as both
					return
				}
				uri, fragment, _ := strings.Cut(resolveURI(at.base, text), "#")
				if uri != at.base || at.up == nil {
					at.base = uri
					d.resources[uri] = v
				}
				if fragment != "" {
					d.anchors[uri+"#"+fragment] = v
				}
			}
			for _, key := range []string{"$anchor", "$dynamicAnchor"} {
				if name, ok := v.get(key); ok && as == aSchema {
					if text, ok := name.(string); ok && b.take(len(at.base)+len(text)) {
						d.anchors[at.base+"#"+text] = v
						if key == "$dynamicAnchor" {
							d.dynamic[text]++
						}
					}
				}
			}
			if recursive, _ := v.get("$recursiveAnchor"); recursive == true && as == aSchema {
				d.dynamic[""]++
			}
			d.sites[v] = at
			for _, m := range v.all() {
				walk(m.value, site{at.at(m.key), at.base}, as.inside(m.key))
			}
		}
	}
	walk(root, site{place: &place{part: "#"}}, aSchema)
	return d
}

// content is what stands in a place of a schema.
type content uint8

const (
	aSchema content = iota // or a list of schemas
	named                  // schemas by names
	data                   // no schema: names of resources in it do not count
)

// inside is what stands under a key.
func (c content) inside(key string) content {
	_, known := keywords[key]
	switch {
	case c == named:
		return aSchema
	case c == data, key == "enum", key == "const", !known && !slices.Contains(silent, key):
		return data
	case slices.Contains([]string{"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs",
		"definitions"}, key):
		return named
	}
	return aSchema
}

// resolveURI is a reference in a document with a base.
func resolveURI(base, ref string) string {
	b, err1 := url.Parse(base)
	r, err2 := url.Parse(ref)
	if err1 != nil || err2 != nil {
		return ref
	}
	return b.ResolveReference(r).String()
}

// placeOf is where a schema stands.
func (s *schema) placeOf(o *object) *place { return s.sites[o].place }

// lookup finds what a $ref of o names: a part of this document, by a JSON pointer (RFC 6901) in a URI fragment, or by
// an anchor.
func (s *schema) lookup(o *object, ref string) (any, bool) {
	base := s.sites[o].base
	if !s.spend(1 + len(base) + len(ref)) {
		return nil, false
	}
	uri, fragment, _ := strings.Cut(ref, "#")
	if uri == "" {
		uri = base
	} else {
		uri, _, _ = strings.Cut(resolveURI(base, uri), "#")
	}
	v, ok := s.resources[uri]
	pointer, err := url.PathUnescape(fragment)
	if !ok || err != nil {
		return nil, false
	}
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		v, ok = s.anchors[uri+"#"+pointer]
		return v, ok
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
