package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// A schema is turned into branches: a value is valid if it is in one of them. A branch has no anyOf, oneOf, not or
// reference left at its own level: what several schemas demand of one value is put together in it. The schemas of
// members and items stay as they are, and become branches when their place is reached.

// typeSet are types of values. A number is an integer or has a fraction.
type typeSet uint8

const (
	isObject typeSet = 1 << iota
	isArray
	isString
	isInteger
	isFraction
	isBoolean
	isNull

	isNumber = isInteger | isFraction
	anyType  = isNull<<1 - 1
)

// typeSets are the types by name.
var typeSets = map[string]typeSet{"object": isObject, "array": isArray, "string": isString, "number": isNumber,
	"integer": isInteger, "boolean": isBoolean, "null": isNull}

// branch is a set of values: those of its types that hold for all of its parts.
type branch struct {
	types  typeSet
	named  bool    // a schema names the types, or values
	speaks typeSet // of which types the keywords are

	limited  bool  // to values
	values   []any // JSON
	excluded []any // values that are not in it

	texts       []expression // strings: in all of them
	least, most int          // characters; most < 0: any number

	lo, hi    *limit // numbers
	multiples []step

	objects                   []objectPart
	required                  []string
	leastMembers, mostMembers int
	some                      []somePart // members of each of them
	other                     []somePart // those of them that are one member without a listed name

	arrays                []arrayPart
	leastItems, mostItems int
	contains              []containsPart
	unique                *place // where uniqueItems is; nil: it is not
}

// step is multipleOf, or with not its contrary.
type step struct {
	decimal
	not bool
}

// objectPart is what one schema says about members, together.
type objectPart struct {
	properties *object
	patterns   []patternPart
	additional any  // schema of other members; nil: any
	names      any  // schema of names; nil: any
	silent     bool // does not count for unevaluatedProperties
}

// somePart demands a member: its name and its value.
type somePart struct {
	names  expression
	schema any
}

type patternPart struct {
	key    string // the regular expression
	names  expression
	schema any
}

// arrayPart is what one schema says about items.
type arrayPart struct {
	prefix []any
	items  any // schema of the items behind prefix; nil: any
	silent bool
}

type containsPart struct {
	schema      any
	least, most int
}

// free is every value.
var free = branch{types: anyType, most: -1, mostMembers: -1, mostItems: -1}

// branchBytes is what a branch takes in memory.
const branchBytes = 512

// tighter is the smaller of two bounds of which a negative one is none.
func tighter(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// extend is a and b in a list that neither shares.
func extend[T any](a, b []T) []T {
	if len(b) == 0 {
		return a
	}
	return append(slices.Clip(a), b...)
}

// and is the values of both; false: there is none, as far as that shows.
func (s *schema) and(a, b branch) (branch, bool) {
	lists := len(a.objects) + len(b.objects) + len(a.arrays) + len(b.arrays) + len(a.texts) + len(b.texts) +
		len(a.excluded) + len(b.excluded) + len(a.required) + len(b.required)
	if !s.take(branchBytes+64*lists) || !s.spend(len(a.required)*len(b.required)/8) {
		return a, false
	}
	r := branch{
		types: a.types & b.types, named: a.named || b.named, speaks: a.speaks | b.speaks,
		limited: a.limited || b.limited, values: a.values, excluded: extend(a.excluded, b.excluded),
		texts: extend(a.texts, b.texts), least: max(a.least, b.least), most: tighter(a.most, b.most),
		lo: tighterLimit(a.lo, b.lo, 1), hi: tighterLimit(a.hi, b.hi, -1), multiples: extend(a.multiples, b.multiples),
		objects: extend(a.objects, b.objects), required: a.required, some: extend(a.some, b.some),
		leastMembers: max(a.leastMembers, b.leastMembers), mostMembers: tighter(a.mostMembers, b.mostMembers),
		arrays: extend(a.arrays, b.arrays), leastItems: max(a.leastItems, b.leastItems),
		mostItems: tighter(a.mostItems, b.mostItems), contains: extend(a.contains, b.contains), unique: a.unique,
	}
	if r.unique == nil {
		r.unique = b.unique
	}
	for _, name := range b.required {
		if !slices.Contains(r.required, name) {
			r.required = append(slices.Clip(r.required), name)
		}
	}
	if b.limited {
		r.values = b.values
	}
	if r.limited {
		all := r.values
		r.values = nil
		for _, v := range all {
			if a.limited && b.limited && !contains(s, a.values, v) {
				continue
			}
			if s.probe(func() bool { return s.holds(&r, v) }) {
				r.values = append(r.values, v)
			}
		}
		return r, len(r.values) > 0
	}
	s.narrowTypes(&r)
	if r.types == isObject && len(a.objects) > 0 && len(b.objects) > 0 {
		for _, name := range r.required {
			if s.err == nil && a.lists(name) && b.lists(name) && s.never(s.member(&r, name)) {
				return r, false
			}
		}
	}
	return r, r.types != 0
}

// lists reports whether a schema names a member.
func (b *branch) lists(name string) bool {
	return slices.ContainsFunc(b.objects, func(p objectPart) bool { return p.properties.find(name) >= 0 })
}

// narrowTypes leaves out types of which the branch has no value, as far as that shows at once.
func (s *schema) narrowTypes(b *branch) {
	if b.most >= 0 && b.most < b.least {
		b.types &^= isString
		s.why = fmt.Sprintf("maxLength %d is less than minLength %d", b.most, b.least)
	}
	if b.lo != nil && b.hi != nil {
		if c := signed(b.lo.decimal, b.hi.decimal); c > 0 || c == 0 && (b.lo.open || b.hi.open) {
			b.types &^= isNumber
			s.why = "no number is within the bounds"
		} else if c == 0 && b.lo.fraction == "" {
			b.types &^= isFraction
		}
	}
	if b.mostItems >= 0 && b.mostItems < b.leastItems {
		b.types &^= isArray
		s.why = fmt.Sprintf("maxItems %d is less than minItems %d", b.mostItems, b.leastItems)
	}
	if b.mostMembers >= 0 && b.mostMembers < max(b.leastMembers, len(b.required)) {
		b.types &^= isObject
		s.why = fmt.Sprintf("maxProperties %d is less than what must be there", b.mostMembers)
	}
	if b.types&isObject == 0 {
		return
	}
	for _, name := range b.required {
		if !s.spend(1 + len(b.objects)) {
			return
		}
		if slices.Contains(s.member(b, name), any(false)) {
			b.types &^= isObject
			s.why = fmt.Sprintf("%.40q is required and forbidden", name)
			return
		}
	}
}

// cross is the branches of values that are in one of a and one of b.
func (s *schema) cross(a, b []branch) []branch {
	if len(a) == 1 && a[0].isFree() {
		return b
	}
	if len(b) == 1 && b[0].isFree() {
		return a
	}
	var all []branch
	for _, x := range a {
		for _, y := range b {
			if s.err != nil {
				return nil
			}
			if r, ok := s.and(x, y); ok {
				if all = append(all, r); len(all) > s.limits.Alternatives {
					s.Budget.beyond("Alternatives", s.limits.Alternatives)
				}
			}
		}
	}
	return all
}

// isFree reports whether every value is in the branch.
func (b *branch) isFree() bool {
	return b.types == anyType && !b.named && b.speaks == 0 && !b.limited && len(b.excluded) == 0
}

// goal is the branches of several schemas together.
func (s *schema) goal(schemas []any) []branch {
	if len(schemas) == 1 {
		return s.branches(schemas[0])
	}
	key := s.keyOf(schemas)
	if all, ok := s.goals[key]; ok {
		return all
	}
	before := s.guessed
	s.guessed = false
	s.goals[key] = []branch{free} // while it is looked for
	all := []branch{free}
	for _, x := range schemas {
		all = s.cross(all, s.branches(x))
	}
	if s.goals[key] = all; s.guessed {
		delete(s.goals, key)
	}
	s.guessed = s.guessed || before
	return all
}

// maxProbes is how deep members are looked into for one of which no value is valid.
const maxProbes = 3

// probe asks about schemas in the middle of looking for branches: what refers to itself counts as valid.
func (s *schema) probe(ask func() bool) bool {
	if s.probes == maxProbes {
		return true
	}
	before := s.guessed
	s.probes++
	ok := ask()
	s.probes--
	s.guessed = before
	return ok
}

// never reports whether it shows that no value is valid by all of the schemas.
func (s *schema) never(schemas []any) bool {
	return !s.probe(func() bool { return !slices.Contains(schemas, any(false)) && len(s.goal(schemas)) > 0 })
}

// keyOf is the same for the same schemas.
func (s *schema) keyOf(schemas []any) string {
	ids := make([]int, 0, len(schemas))
	for _, x := range schemas {
		switch x := x.(type) {
		case bool:
			if !x {
				return "false"
			}
		case *object:
			id, ok := s.ids[x]
			if !ok {
				id = len(s.ids) + 1
				s.ids[x] = id
			}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	s.take(16 * len(ids))
	return fmt.Sprint(slices.Compact(ids))
}

// branches are those of one schema. A schema that is met again while they are looked for refers to itself.
func (s *schema) branches(v any) []branch {
	o, ok := v.(*object)
	if !ok {
		if v == true {
			return []branch{free}
		}
		if v != false {
			s.fail(nil, "a schema is an object or a boolean, not %.40s", appendJSON(nil, v))
		}
		return nil
	}
	f := s.found[o]
	switch {
	case f == nil:
		f = &found{}
		s.found[o] = f
	case f.under && s.probes > 0:
		s.guessed = true
		return []branch{free}
	case f.under:
		s.fail(s.placeOf(o), "the schema refers to itself before a value begins: left-recursive")
		return nil
	case f.done:
		return f.branches
	}
	if s.depth++; s.depth > s.limits.Nesting {
		s.beyond(s.placeOf(o), "Nesting", s.limits.Nesting)
	}
	before := s.guessed
	s.guessed, f.under = false, true
	if s.take(nodeBytes) {
		f.branches = s.conditions(o)
	}
	f.under, f.done = false, !s.guessed
	s.guessed = s.guessed || before
	s.depth--
	return f.branches
}

// found are the branches of a schema, and of its contrary.
type found struct {
	under, done bool
	branches    []branch

	contraryDone bool
	contrary     []branch
	reason       error // why the contrary is not known
}

// contrary are the branches of the values that are not valid by a schema.
func (s *schema) contrary(v any) ([]branch, error) {
	o, ok := v.(*object)
	s.branches(v) // for its errors
	if !ok {
		return s.branches(v == false), nil
	}
	f := s.found[o]
	if f.contraryDone || s.err != nil {
		return f.contrary, f.reason
	}
	if s.depth++; s.depth > s.limits.Nesting {
		s.beyond(s.placeOf(o), "Nesting", s.limits.Nesting)
	}
	before := s.guessed
	s.guessed = false
	not, reason := s.negate(o)
	f.contrary, f.reason = slices.Clone(not), reason
	for i := range f.contrary { // what is found in a "not" is not evaluated
		b := &f.contrary[i]
		b.objects, b.arrays = slices.Clone(b.objects), slices.Clone(b.arrays)
		for j := range b.objects {
			b.objects[j].silent = true
		}
		for j := range b.arrays {
			b.arrays[j].silent = true
		}
	}
	s.depth--
	f.contraryDone = !s.guessed
	s.guessed = s.guessed || before
	return f.contrary, f.reason
}

// not is the schema of the values that are not valid by v.
func (s *schema) not(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case *object:
		if v.isNot {
			return v.members[0].value
		}
		n := s.nots[v]
		if n == nil {
			n = &object{isNot: true}
			n.add("not", v)
			s.nots[v] = n
			s.sites[n] = s.sites[v]
		}
		return n
	}
	return false
}

// holds reports whether a value is in a branch, whatever values it is limited to.
func (s *schema) holds(b *branch, v any) bool {
	if !s.spend(4) || b.types&typeOf(v) == 0 || contains(s, b.excluded, v) {
		return false
	}
	switch v := v.(type) {
	case string:
		n := utf8.RuneCountInString(v)
		if n < b.least || b.most >= 0 && n > b.most {
			return false
		}
		for _, x := range b.texts {
			if !s.terms.matches(s.terms.of(x), v) {
				return false
			}
		}
	case json.Number:
		d, ok := parseDecimal(string(v), s.limits.Digits)
		if !ok {
			return false
		}
		return s.within(b, d)
	case []any:
		return s.holdsItems(b, v)
	case *object:
		return s.holdsMembers(b, v)
	}
	return true
}

// numberSteps is what a division of two numbers of a schema counts as, beside their digits.
const numberSteps = 12

// within reports whether a number is within the bounds and the steps of a branch.
func (s *schema) within(b *branch, d decimal) bool {
	if b.lo != nil {
		if c := signed(d, b.lo.decimal); c < 0 || c == 0 && b.lo.open {
			return false
		}
	}
	if b.hi != nil {
		if c := signed(d, b.hi.decimal); c > 0 || c == 0 && b.hi.open {
			return false
		}
	}
	for _, m := range b.multiples {
		if !s.spend(numberSteps+d.digits()+m.digits()) || d.isMultiple(m.decimal) == m.not {
			return false
		}
	}
	return true
}

// is reports whether a value is valid by a schema.
func (s *schema) is(schemas []any, v any) bool {
	for _, x := range schemas {
		if !s.spend(1) || !slices.ContainsFunc(s.branches(x), func(b branch) bool {
			if b.limited && !contains(s, b.values, v) {
				return false
			}
			return s.holds(&b, v)
		}) {
			return false
		}
	}
	return true
}

func (s *schema) holdsItems(b *branch, list []any) bool {
	if len(list) < b.leastItems || b.mostItems >= 0 && len(list) > b.mostItems {
		return false
	}
	for i, x := range list {
		if !s.is(b.item(i), x) {
			return false
		}
		if b.unique != nil && contains(s, list[:i], x) {
			return false
		}
	}
	for _, c := range b.contains {
		n := 0
		for _, x := range list {
			if s.is([]any{c.schema}, x) {
				n++
			}
		}
		if n < c.least || c.most >= 0 && n > c.most {
			return false
		}
	}
	return true
}

func (s *schema) holdsMembers(b *branch, o *object) bool {
	n := len(o.all())
	if n < b.leastMembers || b.mostMembers >= 0 && n > b.mostMembers {
		return false
	}
	for _, name := range b.required {
		if o.find(name) < 0 {
			return false
		}
	}
	for _, x := range b.some {
		if !slices.ContainsFunc(o.all(), func(m member) bool {
			return s.terms.matches(s.terms.of(x.names), m.key) && s.is([]any{x.schema}, m.value)
		}) {
			return false
		}
	}
	for _, m := range o.all() {
		if !s.named(b, m.key) || !s.is(s.member(b, m.key), m.value) {
			return false
		}
	}
	return true
}

// named reports whether a member may have a name.
func (s *schema) named(b *branch, name string) bool {
	for _, p := range b.objects {
		if p.names != nil && !s.is([]any{p.names}, name) {
			return false
		}
	}
	return true
}

// member are the schemas of a member.
func (s *schema) member(b *branch, name string) (all []any) {
	for _, p := range b.objects {
		v, listed := p.properties.get(name)
		if listed {
			all = append(all, v)
		}
		for _, x := range p.patterns {
			if s.terms.matches(s.terms.of(x.names), name) {
				all = append(all, x.schema)
				listed = true
			}
		}
		if !listed && p.additional != nil {
			all = append(all, p.additional)
		}
	}
	return all
}

// item are the schemas of an item.
func (b *branch) item(i int) (all []any) {
	for _, p := range b.arrays {
		if i < len(p.prefix) {
			all = append(all, p.prefix[i])
		} else if p.items != nil {
			all = append(all, p.items)
		}
	}
	return all
}

// contains reports whether a value is in a list. 1 and 1.0 are equal, and members have no order.
func contains(s *schema, list []any, v any) bool {
	return slices.ContainsFunc(list, func(x any) bool { return s.equal(x, v) })
}

func (s *schema) equal(a, b any) bool {
	if !s.spend(1) {
		return false
	}
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		if !s.spend((len(a) + len(b)) / 8) {
			return false
		}
		x, ok1 := parseDecimal(string(a), s.limits.Digits)
		y, ok2 := parseDecimal(string(b), s.limits.Digits)
		return ok1 && ok2 && x == y
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, s.equal)
	case *object:
		b, ok := b.(*object)
		if !ok || len(a.all()) != len(b.all()) {
			return false
		}
		for _, m := range a.all() {
			v, ok := b.get(m.key)
			if !ok || !s.equal(m.value, v) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, *object:
		return false
	}
	return a == b
}

// typeOf is the type of a value.
func typeOf(v any) typeSet {
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBoolean
	case string:
		return isString
	case []any:
		return isArray
	case json.Number:
		if integral(string(v)) {
			return isInteger
		}
		return isFraction
	}
	return isObject
}
