package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// keyword is what one keyword of a schema demands.
type keyword struct {
	of typeSet // the types of values that it is about; 0: all
	// own adds the demand to the branch of the schema's own keywords. negate is the branches of what does not meet it.
	own    func(s *schema, o *object, v any, b *branch, at *place)
	negate func(s *schema, o *object, v any, at *place) ([]branch, error)
	// more are the branches of what other schemas in it demand of the same value.
	more func(s *schema, o *object, v any, at *place) []branch
}

// silent are keywords that belong to others, or name things: they neither demand anything nor are ignored.
var silent = []string{"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions",
	"$vocabulary", "then", "else", "minContains", "maxContains", "additionalItems"}

// thirds are keywords of draft 3 that demand something, and mean nothing to later ones.
var thirds = []string{"disallow", "extends", "divisibleBy"}

var keywords map[string]keyword

func init() { // the functions call each other through the table
	keywords = map[string]keyword{
		"type":  {own: ownType, negate: negateType},
		"enum":  {own: ownEnum, negate: negateEnum},
		"const": {own: ownEnum, negate: negateEnum},

		"minimum":          {of: isNumber, own: ownBound, negate: negateBound},
		"maximum":          {of: isNumber, own: ownBound, negate: negateBound},
		"exclusiveMinimum": {of: isNumber, own: ownBound, negate: negateBound},
		"exclusiveMaximum": {of: isNumber, own: ownBound, negate: negateBound},
		"multipleOf":       {of: isNumber, own: ownMultiple, negate: negateMultiple},

		"minLength": {of: isString, own: ownCount, negate: negateCount},
		"maxLength": {of: isString, own: ownCount, negate: negateCount},
		"pattern":   {of: isString, own: ownText, negate: negateText},
		"format":    {own: ownText, negate: negateText},

		"properties":           {of: isObject, own: ownMembers, negate: negateProperties},
		"patternProperties":    {of: isObject, own: ownMembers, negate: negateOthers},
		"additionalProperties": {of: isObject, own: ownMembers, negate: negateOthers},
		"propertyNames":        {of: isObject, own: ownMembers, negate: negateOthers},
		"required":             {of: isObject, own: ownRequired, negate: negateRequired},
		"minProperties":        {of: isObject, own: ownCount, negate: negateCount},
		"maxProperties":        {of: isObject, own: ownCount, negate: negateCount},
		"dependentRequired":    {of: isObject, more: moreDependent, negate: negateDependent},
		"dependentSchemas":     {of: isObject, more: moreDependent, negate: negateDependent},
		"dependencies":         {of: isObject, more: moreDependent, negate: negateDependent},

		"items":       {of: isArray, own: ownItems, negate: negateItems},
		"prefixItems": {of: isArray, own: ownItems, negate: negateItems},
		"minItems":    {of: isArray, own: ownCount, negate: negateCount},
		"maxItems":    {of: isArray, own: ownCount, negate: negateCount},
		"contains":    {of: isArray, own: ownContains, negate: negateContains},
		"uniqueItems": {of: isArray, own: ownUnique, negate: negateUnique},

		"$ref":          {more: moreReference, negate: negateReference},
		"$dynamicRef":   {more: moreReference, negate: negateReference},
		"$recursiveRef": {more: moreReference, negate: negateReference},
		"allOf":         {more: moreAll, negate: negateAll},
		"anyOf":         {more: moreAny, negate: negateAny},
		"oneOf":         {more: moreOne, negate: negateOne},
		"not":           {more: moreNot, negate: negateNot},
		"if":            {more: moreIf, negate: negateIf},

		"unevaluatedProperties": {of: isObject, negate: negateUnevaluated},
		"unevaluatedItems":      {of: isArray, negate: negateUnevaluated},
	}
}

// conditions are the branches of a schema.
func (s *schema) conditions(o *object) []branch {
	at := s.placeOf(o)
	if o.isNot {
		all, err := s.contrary(o.members[0].value)
		if err != nil && s.err == nil {
			s.refuse(at, "not", "%v", err)
			return []branch{free}
		}
		return all
	}
	members := s.effective(o)
	all, pending := []branch{free}, true
	for _, m := range members {
		k, known := keywords[m.key]
		switch {
		case !known:
			switch {
			case s.third && slices.Contains(thirds, m.key):
				s.refuse(at, m.key, "of draft 3 is not supported")
			case !slices.Contains(silent, m.key):
				s.ignore(at, m.key)
			}
			continue
		case k.more != nil:
			all = s.cross(all, k.more(s, o, m.value, at.at(m.key)))
		case k.own != nil && pending:
			pending = false
			own := free
			for _, m := range members {
				if k := keywords[m.key]; k.own != nil {
					k.own(s, o, m.value, &own, at.at(m.key))
					own.speaks |= k.of
				}
			}
			s.why = "no type of a value is left"
			s.narrowTypes(&own)
			if own.limited {
				all := own.values
				own.values = nil
				for _, v := range all {
					if s.probe(func() bool { return s.holds(&own, v) }) {
						own.values = append(own.values, v)
					}
				}
			}
			if own.limited && len(own.values) == 0 {
				s.why = "no value of const or enum is valid"
			}
			if own.types == 0 || own.limited && len(own.values) == 0 {
				s.nothing(at, "%s", s.why)
				all = nil
				break
			}
			all = s.cross(all, []branch{own})
		}
		if s.err != nil {
			return nil
		}
	}
	for _, m := range members {
		if m.key == "unevaluatedProperties" || m.key == "unevaluatedItems" {
			for i := range all {
				s.unevaluated(&all[i], m.key, m.value, at)
			}
		}
	}
	return all
}

// effective are the keywords of a schema that count: in old drafts a $ref stands for itself.
func (s *schema) effective(o *object) []member {
	if i := o.find("$ref"); i >= 0 && s.old {
		for _, m := range o.all() {
			if m.key != "$ref" {
				s.ignore(s.placeOf(o), m.key+" beside $ref")
			}
		}
		return o.members[i : i+1]
	}
	return o.all()
}

// negate are the branches of the values that are not valid by a schema.
func (s *schema) negate(o *object) ([]branch, error) {
	if o.isNot {
		return s.branches(o.members[0].value), nil
	}
	var all []branch
	for _, m := range s.effective(o) {
		k, ok := keywords[m.key]
		if !ok {
			continue
		}
		more, err := k.negate(s, o, m.value, s.placeOf(o).at(m.key))
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
		if len(all) > s.limits.Alternatives {
			s.Budget.beyond("Alternatives", s.limits.Alternatives)
		}
	}
	return all, nil
}

// with is a branch of some types.
func with(types typeSet) branch {
	b := free
	b.types, b.named = types, true
	return b
}

func ownType(s *schema, o *object, v any, b *branch, at *place) {
	set, ok := s.typeSet(v, at)
	if ok {
		b.types, b.named = b.types&set, true
	}
}

// typeSet reads the value of "type".
func (s *schema) typeSet(v any, at *place) (set typeSet, ok bool) {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	if len(list) == 0 {
		s.fail(at, "an empty list allows no value")
	}
	if len(list) > s.limits.Alternatives {
		s.beyond(at, "Alternatives", s.limits.Alternatives)
	}
	for _, x := range list {
		name, isName := x.(string)
		t := typeSets[name]
		switch {
		case !isName:
			s.fail(at, "a name or a list of names expected")
			return 0, false
		case t == 0:
			s.fail(at, "unknown type %.40q", name)
			return 0, false
		}
		set |= t
	}
	return set, s.err == nil
}

func negateType(s *schema, o *object, v any, at *place) ([]branch, error) {
	set, ok := s.typeSet(v, at)
	if !ok || set == anyType {
		return nil, nil
	}
	return []branch{with(anyType &^ set)}, nil
}

// listed are the values of enum or const.
func (s *schema) listed(o *object, v any, at *place) []any {
	if at.part == "const" {
		return []any{v}
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		s.fail(at, "a list of at least one value expected")
		return nil
	}
	if len(list) > s.limits.Alternatives {
		s.beyond(at, "Alternatives", s.limits.Alternatives)
		return nil
	}
	return list
}

func ownEnum(s *schema, o *object, v any, b *branch, at *place) {
	list := s.listed(o, v, at)
	if b.limited {
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return !contains(s, b.values, v) })
	}
	b.limited, b.named, b.values = true, true, list
}

func negateEnum(s *schema, o *object, v any, at *place) ([]branch, error) {
	b := free
	b.named, b.excluded = true, s.listed(o, v, at)
	return []branch{b}, nil
}

// bound reads minimum, maximum, exclusiveMinimum or exclusiveMaximum. Before draft 6 the exclusive ones are booleans.
func (s *schema) bound(o *object, v any, at *place) (l *limit, upper bool) {
	upper = at.part == "maximum" || at.part == "exclusiveMaximum"
	open := at.part == "exclusiveMinimum" || at.part == "exclusiveMaximum"
	if _, isBool := v.(bool); isBool && open {
		return nil, upper
	}
	number, _ := v.(json.Number)
	d, ok := s.decimal(number, at)
	if !ok {
		return nil, upper
	}
	if !open {
		name := "exclusiveMinimum"
		if upper {
			name = "exclusiveMaximum"
		}
		beside, _ := o.get(name)
		open = beside == true
	}
	return &limit{d, open}, upper
}

func ownBound(s *schema, o *object, v any, b *branch, at *place) {
	if l, upper := s.bound(o, v, at); upper {
		b.hi = tighterLimit(b.hi, l, -1)
	} else {
		b.lo = tighterLimit(b.lo, l, 1)
	}
}

func negateBound(s *schema, o *object, v any, at *place) ([]branch, error) {
	l, upper := s.bound(o, v, at)
	if l == nil {
		return nil, nil
	}
	b := with(isNumber)
	if other := (&limit{l.decimal, !l.open}); upper {
		b.lo = other
	} else {
		b.hi = other
	}
	return []branch{b}, nil
}

func (s *schema) step(v any, at *place) (d decimal, ok bool) {
	number, _ := v.(json.Number)
	if d, ok = s.decimal(number, at); ok && (d.negative || d.isZero()) {
		s.fail(at, "a number above 0 expected")
		return d, false
	}
	return d, ok
}

func ownMultiple(s *schema, o *object, v any, b *branch, at *place) {
	d, ok := s.step(v, at)
	if !ok {
		return
	}
	if d.integer == "1" && d.fraction == "" {
		b.types &^= isFraction
	} else if _, _, fits := d.scaled(); !fits {
		s.refuse(at.up, at.part, "%.40s has too many digits", appendJSON(nil, v))
		return
	}
	b.multiples = extend(b.multiples, []step{{d, false}})
}

func negateMultiple(s *schema, o *object, v any, at *place) ([]branch, error) {
	d, ok := s.step(v, at)
	if !ok {
		return nil, nil
	}
	if _, _, fits := d.scaled(); !fits {
		return nil, errors.New("not of a multipleOf with many digits is not supported")
	}
	b := with(isNumber)
	b.multiples = []step{{d, true}}
	return []branch{b}, nil
}

// countOf is the branch of a count: what the keyword says of it, and its contrary.
func (s *schema) countOf(key string, n int, not bool) (b branch, ok bool) {
	least, most := n, -1
	switch upper := key[:3] == "max"; {
	case upper && not:
		least = n + 1
	case upper:
		least, most = 0, n
	case not && n == 0:
		return b, false
	case not:
		least, most = 0, n-1
	}
	b = free
	switch key[3:] {
	case "Length":
		b.least, b.most = least, most
	case "Items":
		b.leastItems, b.mostItems = least, most
	case "Properties":
		b.leastMembers, b.mostMembers = least, most
	}
	return b, true
}

func ownCount(s *schema, o *object, v any, b *branch, at *place) {
	var n int
	switch text, _ := v.(json.Number); {
	case at.part[:3] == "max" && beyond(string(text), s.limits.Repetitions):
		n = s.limits.Repetitions // less is allowed than could be
	default:
		n = s.count(v, at)
	}
	c, _ := s.countOf(at.part, n, false)
	b.least, b.most = max(b.least, c.least), tighter(b.most, c.most)
	b.leastItems, b.mostItems = max(b.leastItems, c.leastItems), tighter(b.mostItems, c.mostItems)
	b.leastMembers, b.mostMembers = max(b.leastMembers, c.leastMembers), tighter(b.mostMembers, c.mostMembers)
}

func negateCount(s *schema, o *object, v any, at *place) ([]branch, error) {
	b, ok := s.countOf(at.part, s.count(v, at), true)
	if !ok {
		return nil, nil
	}
	b.types, b.named = keywords[at.part].of, true
	return []branch{b}, nil
}

// beyond reports whether a whole number is greater than most.
func beyond(number string, most int) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n > most
}

// count reads a number that counts something.
func (s *schema) count(v any, at *place) int {
	number, _ := v.(json.Number)
	d, ok := s.decimal(number, at)
	if !ok {
		return 0
	}
	if d.negative || d.fraction != "" {
		s.fail(at, "a whole number expected")
		return 0
	}
	n, err := strconv.Atoi(d.integer)
	if err != nil || n > s.limits.Repetitions {
		s.beyond(at, "Repetitions", s.limits.Repetitions)
		return 0
	}
	return n
}

// strings is what pattern or format says; nil: nothing that counts.
func (s *schema) strings(o *object, v any, at *place) expression {
	text, ok := v.(string)
	if !ok {
		s.fail(at, "a text expected")
		return nil
	}
	if at.part == "pattern" {
		return s.expression(text, at)
	}
	f, ok := formats[text]
	if !ok {
		s.ignore(at.up, "format "+strconv.Quote(text))
		return nil
	}
	if f.pattern == "" {
		s.refuse(at.up, at.part, "%.40q cannot be held by a grammar", text)
		return nil
	}
	return s.expression(f.pattern, at)
}

// expression reads a regular expression once.
func (s *schema) expression(source string, at *place) expression {
	x, ok := s.expressions[source]
	if !ok {
		var err error
		if x, err = parsePattern(s.Budget, source); err != nil {
			if !errors.Is(err, ErrLimit) && s.refuse(at.up, at.part, "%v", err) {
				return anyText
			}
			return anyText
		}
		s.expressions[source] = x
	}
	return x
}

func ownText(s *schema, o *object, v any, b *branch, at *place) {
	if bounds, ok := integerFormats[fmt.Sprint(v)]; ok && at.part == "format" {
		lo, _ := parseDecimal(bounds[0], len(bounds[0]))
		hi, _ := parseDecimal(bounds[1], len(bounds[1]))
		b.lo, b.hi = tighterLimit(b.lo, &limit{lo, false}, 1), tighterLimit(b.hi, &limit{hi, false}, -1)
		b.speaks |= isNumber
		return
	}
	if x := s.strings(o, v, at); x != nil {
		b.texts = extend(b.texts, []expression{x})
		b.speaks |= isString
	}
}

func negateText(s *schema, o *object, v any, at *place) ([]branch, error) {
	if _, ok := integerFormats[fmt.Sprint(v)]; ok && at.part == "format" {
		return nil, errors.New("the contrary of a format of integers is not supported")
	}
	x := s.strings(o, v, at)
	if x == nil {
		return nil, nil
	}
	b := with(isString)
	b.texts = []expression{complement{x}}
	return []branch{b}, nil
}

// listOf reads a list of names.
func (s *schema) listOf(v any, at *place) (names []string) {
	list, ok := v.([]any)
	if !ok {
		s.fail(at, "a list of names expected")
		return nil
	}
	for _, x := range list {
		name, ok := x.(string)
		if !ok || !s.take(nodeBytes) {
			s.fail(at, "a list of names expected")
			return nil
		}
		names = append(names, name)
	}
	return names
}

// objectOf reads an object.
func (s *schema) objectOf(v any, at *place) *object {
	o, ok := v.(*object)
	if !ok {
		s.fail(at, "an object expected")
	}
	return o
}

func ownRequired(s *schema, o *object, v any, b *branch, at *place) {
	names := s.listOf(v, at)
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			b.required = append(b.required, name)
		}
	}
}

// lacks is the objects without a member; has those with one, which is valid by a schema.
func lacks(name string) branch {
	b := with(isObject)
	p := &object{}
	p.add(name, false)
	b.objects = []objectPart{{properties: p, silent: true}}
	return b
}

func has(name string, v any) branch {
	b := with(isObject)
	b.required = []string{name}
	if v != true {
		p := &object{}
		p.add(name, v)
		b.objects = []objectPart{{properties: p, silent: true}}
	}
	return b
}

func negateRequired(s *schema, o *object, v any, at *place) (all []branch, err error) {
	for _, name := range s.listOf(v, at) {
		s.take(branchBytes)
		all = append(all, lacks(name))
	}
	return all, nil
}

// ownMembers reads the keywords about members together, at the first of them.
func ownMembers(s *schema, o *object, v any, b *branch, at *place) {
	if len(b.objects) > 0 {
		return
	}
	var p objectPart
	for _, m := range o.all() {
		at := at.up.at(m.key)
		switch m.key {
		case "properties":
			p.properties = s.objectOf(m.value, at)
		case "patternProperties":
			for _, x := range s.objectOf(m.value, at).all() {
				part := patternPart{x.key, s.expression(x.key, at.at(x.key)), x.value}
				if _, known := s.expressions[x.key]; !known { // left out: any name may match it, and have any value
					part.schema = true
				}
				p.patterns = append(p.patterns, part)
			}
		case "additionalProperties":
			p.additional = m.value
		case "propertyNames":
			p.names = m.value
		}
	}
	b.objects = []objectPart{p}
}

func negateProperties(s *schema, o *object, v any, at *place) (all []branch, err error) {
	for _, m := range s.objectOf(v, at).all() {
		if m.value != true && s.take(branchBytes) {
			all = append(all, has(m.key, s.not(m.value)))
		}
	}
	return all, nil
}

// negateOthers is a member whose name is spoken of and whose value, or name, is not valid.
func negateOthers(s *schema, o *object, v any, at *place) (all []branch, err error) {
	own := free
	ownMembers(s, o, v, &own, at)
	p := own.objects[0]
	add := func(names expression, v any) {
		if v != true && s.take(branchBytes) {
			b := with(isObject)
			b.leastMembers, b.some = 1, []somePart{{names, s.not(v)}}
			all = append(all, b)
		}
	}
	switch at.part {
	case "patternProperties":
		for _, x := range p.patterns {
			add(x.names, x.schema)
		}
	case "propertyNames":
		add(complement{s.stringsOf(v, at)}, false)
	default:
		names := both{}
		for _, m := range p.properties.all() {
			names = append(names, complement{literal(m.key)})
		}
		for _, x := range p.patterns {
			names = append(names, complement{x.names})
		}
		if x, _ := v.(*object); x == nil || len(x.all()) > 0 {
			add(names, v)
		}
	}
	return all, nil
}

// ownItems reads the keywords about items together, at the first of them.
func ownItems(s *schema, o *object, v any, b *branch, at *place) {
	if len(b.arrays) > 0 {
		return
	}
	var p arrayPart
	read := func(key string, v any) {
		list, ok := v.([]any)
		if !ok {
			s.fail(at.up.at(key), "a list of schemas expected")
		}
		p.prefix = list
	}
	if v, ok := o.get("prefixItems"); ok {
		read("prefixItems", v)
	}
	switch v, ok := o.get("items"); v.(type) {
	case []any: // before 2020-12
		read("items", v)
		if v, ok := o.get("additionalItems"); ok {
			p.items = v
		}
	default:
		if ok {
			p.items = v
		}
	}
	b.arrays = []arrayPart{p}
}

func negateItems(s *schema, o *object, v any, at *place) (all []branch, err error) {
	own := free
	ownItems(s, o, v, &own, at)
	p := own.arrays[0]
	if at.part == "items" && o.find("prefixItems") >= 0 {
		return nil, nil // told with prefixItems
	}
	for i, x := range p.prefix {
		if x == true || !s.take(branchBytes) {
			continue
		}
		b := with(isArray)
		prefix := make([]any, i+1)
		for j := range prefix {
			prefix[j] = true
		}
		prefix[i] = s.not(x)
		b.leastItems, b.arrays = i+1, []arrayPart{{prefix: prefix, silent: true}}
		all = append(all, b)
	}
	if p.items == nil || p.items == true {
		return all, nil
	}
	b := with(isArray)
	switch {
	case p.items == false:
		b.leastItems = len(p.prefix) + 1
	case len(p.prefix) > 0:
		return nil, errors.New("the contrary of items behind others is not supported")
	default:
		b.contains = []containsPart{{s.not(p.items), 1, -1}}
	}
	return append(all, b), nil
}

// containsOf reads contains with its counts.
func (s *schema) containsOf(o *object, v any, at *place) containsPart {
	c := containsPart{v, 1, -1}
	if n, ok := o.get("minContains"); ok {
		c.least = s.count(n, at.up.at("minContains"))
	}
	if n, ok := o.get("maxContains"); ok {
		c.most = s.count(n, at.up.at("maxContains"))
	}
	return c
}

func ownContains(s *schema, o *object, v any, b *branch, at *place) {
	if c := s.containsOf(o, v, at); c.least > 0 || c.most >= 0 {
		b.contains = extend(b.contains, []containsPart{c})
		b.leastItems = max(b.leastItems, c.least)
		if c.most >= 0 && c.most < c.least {
			b.types &^= isArray
		}
	}
}

func negateContains(s *schema, o *object, v any, at *place) (all []branch, err error) {
	c := s.containsOf(o, v, at)
	if c.least > 0 {
		b := with(isArray)
		if b.contains = []containsPart{{v, 0, c.least - 1}}; c.least == 1 {
			b.contains, b.arrays = nil, []arrayPart{{items: s.not(v), silent: true}}
		}
		all = append(all, b)
	}
	if c.most >= 0 {
		b := with(isArray)
		b.leastItems, b.contains = c.most+1, []containsPart{{v, c.most + 1, -1}}
		all = append(all, b)
	}
	return all, nil
}

func ownUnique(s *schema, o *object, v any, b *branch, at *place) {
	if v == true {
		b.unique = at
	}
}

func negateUnique(s *schema, o *object, v any, at *place) ([]branch, error) {
	if v == true {
		return nil, errors.New("the contrary of uniqueItems is not supported")
	}
	return nil, nil
}

// target is what a reference names.
func (s *schema) target(o *object, v any, at *place) (any, bool) {
	name, ok := v.(string)
	if !ok {
		s.fail(at, "a string expected")
		return nil, false
	}
	target, ok := s.lookup(o, name)
	if !ok {
		s.fail(at, "%.80q is not in this document", name)
	}
	_, anchor, _ := strings.Cut(name, "#")
	if at.part != "$ref" && s.dynamic[anchor] > 1 {
		ok = s.refuse(at.up, at.part, "%.80q may mean several schemas", name)
	}
	return target, ok
}

func moreReference(s *schema, o *object, v any, at *place) []branch {
	target, ok := s.target(o, v, at)
	if s.references++; s.references > s.limits.References {
		s.beyond(at, "References", s.limits.References)
	}
	defer func() { s.references-- }()
	if !ok {
		return nil
	}
	return s.branches(target)
}

func negateReference(s *schema, o *object, v any, at *place) ([]branch, error) {
	target, ok := s.target(o, v, at)
	if !ok {
		return nil, nil
	}
	return s.contrary(target)
}

// schemas reads a list of schemas.
func (s *schema) schemas(v any, at *place) []any {
	list, ok := v.([]any)
	switch {
	case !ok || len(list) == 0:
		s.fail(at, "a list of at least one schema expected")
	case len(list) > s.limits.Alternatives:
		s.beyond(at, "Alternatives", s.limits.Alternatives)
		return nil
	}
	return list
}

func moreAll(s *schema, o *object, v any, at *place) []branch {
	all := []branch{free}
	for _, x := range s.schemas(v, at) {
		all = s.cross(all, s.branches(x))
	}
	return all
}

func negateAll(s *schema, o *object, v any, at *place) (all []branch, err error) {
	for _, x := range s.schemas(v, at) {
		more, err := s.contrary(x)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

func moreAny(s *schema, o *object, v any, at *place) (all []branch) {
	for _, x := range s.schemas(v, at) {
		all = append(all, s.branches(x)...)
	}
	return all
}

func negateAny(s *schema, o *object, v any, at *place) ([]branch, error) {
	all := []branch{free}
	for _, x := range s.schemas(v, at) {
		more, err := s.contrary(x)
		if err != nil {
			return nil, err
		}
		all = s.cross(all, more)
	}
	return all, nil
}

// moreOne is each schema without the values of the others: of those that are told apart from it nothing is taken.
func moreOne(s *schema, o *object, v any, at *place) (all []branch) {
	list := s.schemas(v, at)
	parts := make([][]branch, len(list))
	for i, x := range list {
		parts[i] = s.branches(x)
	}
	if s.distinct(parts) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for i, p := range parts {
		for j := range parts {
			if i == j || s.err != nil || len(p) == 0 || len(s.cross(p, parts[j])) == 0 {
				continue
			}
			others, err := s.contrary(list[j])
			if err != nil {
				if s.err == nil && s.refuse(at.up, at.part, "%d and %d may both hold for one value: %v; use anyOf", i, j, err) {
					continue
				}
				return nil
			}
			p = s.cross(p, others)
		}
		all = append(all, p...)
	}
	return all
}

// distinct reports whether all parts are values, none of them twice.
func (s *schema) distinct(parts [][]branch) bool {
	seen := map[string]bool{}
	for _, p := range parts {
		here := map[string]bool{}
		for _, b := range p {
			for _, v := range b.values {
				text := string(appendJSON(nil, v))
				if !s.take(len(text)+nodeBytes) || seen[text] || typeOf(v)&(isString|isBoolean|isNull) == 0 {
					return false
				}
				here[text] = true
			}
			if !b.limited {
				return false
			}
		}
		for text := range here {
			seen[text] = true
		}
	}
	return true
}

// negateOne is what no schema holds for, and what two do.
func negateOne(s *schema, o *object, v any, at *place) ([]branch, error) {
	all, err := negateAny(s, o, v, at)
	if err != nil {
		return nil, err
	}
	list := s.schemas(v, at)
	for i, x := range list {
		for _, y := range list[i+1:] {
			all = append(all, s.cross(s.branches(x), s.branches(y))...)
		}
	}
	return all, nil
}

func moreNot(s *schema, o *object, v any, at *place) []branch {
	all, err := s.contrary(v)
	if err != nil && s.err == nil {
		s.refuse(at.up, at.part, "%v", err)
		return []branch{free}
	}
	return all
}

func negateNot(s *schema, o *object, v any, at *place) ([]branch, error) { return s.branches(v), nil }

// choices are "if" with "then" and with "else", which are true where they are not there.
func choices(o *object) (then, otherwise any) {
	then, otherwise = true, true
	if v, ok := o.get("then"); ok {
		then = v
	}
	if v, ok := o.get("else"); ok {
		otherwise = v
	}
	return then, otherwise
}

func moreIf(s *schema, o *object, v any, at *place) []branch {
	then, otherwise := choices(o)
	if then == true && otherwise == true {
		return []branch{free}
	}
	not, err := s.contrary(v)
	if err != nil {
		if s.err == nil {
			s.refuse(at.up, at.part, "%v", err)
		}
		return []branch{free}
	}
	return append(slices.Clip(s.cross(s.branches(v), s.branches(then))), s.cross(not, s.branches(otherwise))...)
}

func negateIf(s *schema, o *object, v any, at *place) (all []branch, err error) {
	then, otherwise := choices(o)
	not, err := s.contrary(v)
	if err != nil {
		return nil, err
	}
	for i, x := range []any{then, otherwise} {
		more, err := s.contrary(x)
		if err != nil {
			return nil, err
		}
		all = append(all, s.cross([][]branch{s.branches(v), not}[i], more)...)
	}
	return all, nil
}

// dependents calls f for each name that demands something: other names, or a schema of the whole object.
func (s *schema) dependents(v any, at *place, f func(name string, required []string, schema any)) {
	for _, m := range s.objectOf(v, at).all() {
		list, isList := m.value.([]any)
		switch {
		case at.part == "dependentSchemas", at.part == "dependencies" && !isList:
			if name, ok := m.value.(string); ok { // draft 3
				f(m.key, []string{name}, true)
			} else {
				f(m.key, nil, m.value)
			}
		case !isList:
			s.fail(at.at(m.key), "a list of names expected")
		default:
			f(m.key, s.listOf(list, at.at(m.key)), true)
		}
	}
}

func moreDependent(s *schema, o *object, v any, at *place) []branch {
	all := []branch{free}
	s.dependents(v, at, func(name string, required []string, schema any) {
		b := has(name, true)
		seen := map[string]bool{name: true}
		for _, r := range required { // their number is one of members
			if !seen[r] {
				seen[r] = true
				b.required = append(b.required, r)
			}
		}
		there := s.cross([]branch{b}, s.branches(schema))
		all = s.cross(all, append([]branch{with(anyType &^ isObject), lacks(name)}, there...))
	})
	for i := range all { // the keyword names no type
		all[i].speaks |= isObject
	}
	return all
}

func negateDependent(s *schema, o *object, v any, at *place) (all []branch, err error) {
	s.dependents(v, at, func(name string, required []string, schema any) {
		for _, r := range required {
			all = append(all, s.cross([]branch{has(name, true)}, []branch{lacks(r)})...)
		}
		not, e := s.contrary(schema)
		if e != nil {
			err = e
		}
		all = append(all, s.cross([]branch{has(name, true)}, not)...)
	})
	return all, err
}

func negateUnevaluated(s *schema, o *object, v any, at *place) ([]branch, error) {
	if v == true {
		return nil, nil
	}
	return nil, fmt.Errorf("the contrary of %s is not supported", at.part)
}

// unevaluated adds to a branch of a schema what the schema says of the members or items that no other keyword of the
// branch is about.
func (s *schema) unevaluated(b *branch, key string, v any, at *place) {
	if key == "unevaluatedItems" {
		p := arrayPart{items: v}
		for _, a := range b.arrays {
			if a.silent {
				continue
			}
			if a.items != nil {
				return
			}
			for len(p.prefix) < len(a.prefix) {
				p.prefix = append(p.prefix, true)
			}
		}
		if len(b.contains) > 0 && v != true {
			s.refuse(at, key, "beside contains it is not supported")
			return
		}
		b.arrays, b.speaks = extend(b.arrays, []arrayPart{p}), b.speaks|isArray
		return
	}
	p := objectPart{properties: &object{}, additional: v}
	for _, o := range b.objects {
		if o.silent {
			continue
		}
		if o.additional != nil {
			return
		}
		for _, m := range o.properties.all() {
			if s.take(nodeBytes) {
				p.properties.add(m.key, true)
			}
		}
		for _, x := range o.patterns {
			p.patterns = append(p.patterns, patternPart{x.key, x.names, true})
		}
	}
	b.objects, b.speaks = extend(b.objects, []objectPart{p}), b.speaks|isObject
}
