package grammar

import (
	"slices"
	"strconv"
	"strings"
)

// object is the objects of a branch; top: of the whole text.
func (s *schema) object(b *branch, at *place, top bool) expression {
	call := s.Call && top
	s.called = s.called || call
	for _, v := range b.excluded {
		o, ok := v.(*object)
		switch {
		case !ok:
		case len(o.all()) == 0:
			b.leastMembers = max(b.leastMembers, 1)
		default:
			s.refuse(at, "not", "of objects is not supported")
		}
	}
	open, close := "{", "}"
	if call {
		open, close = "", ""
	}
	var inside expression
	if len(b.some) == 0 {
		inside = s.inside(b, at, call)
	} else if x := s.someMember(b, at, call); len(x) > 0 {
		inside = x
	}
	if inside == nil {
		return choice{}
	}
	if call {
		return inside
	}
	return s.brackets(open, close, inside)
}

// someMember is the insides of an object in which there is a member of each of some parts: one that a schema lists, or
// for all parts left one other member.
func (s *schema) someMember(b *branch, at *place, call bool) (all choice) {
	if len(b.some) > maxPatterns {
		if !s.refuse(at, "not", "%d members that are not named is not supported", len(b.some)) {
			return nil
		}
		c := *b
		c.some = b.some[:maxPatterns]
		b = &c
	}
	x, rest := b.some[0], b.some[1:]
	names, listed := s.names(b)
	for _, name := range b.required {
		if !listed[name] {
			names = append(names, name)
		}
	}
	add := func(c branch) {
		if len(c.some) > 0 && c.other == nil {
			all = append(all, s.someMember(&c, at, call)...)
		} else if y := s.inside(&c, at, call); y != nil {
			all = append(all, y)
		}
	}
	for _, name := range names {
		if !s.take(branchBytes) || !s.terms.matches(s.terms.of(x.names), name) {
			continue
		}
		c := *b
		c.some = rest
		if c, ok := s.and(c, has(name, x.schema)); ok {
			add(c)
		}
	}
	c := *b
	c.some, c.other = nil, b.some
	add(c)
	return all
}

// property is a member that an object may have by its name.
type property struct {
	body     expression // "name": value
	required bool
}

// inside is what stands between the braces of an object.
func (s *schema) inside(b *branch, at *place, call bool) expression {
	names, listed := s.names(b)
	required := make(map[string]bool, len(b.required))
	for _, name := range b.required {
		required[name] = true
		if !listed[name] {
			listed[name] = true
			names = append(names, name)
		}
	}
	if len(names) == 0 && len(b.objects) == 0 && b.leastMembers <= 0 && b.mostMembers < 0 {
		if call {
			return s.list(s.anyMember(call), 0, -1)
		}
		return s.shared("members", func() expression { return s.list(s.anyMember(false), 0, -1) })
	}
	if s.Sorted {
		slices.SortStableFunc(names, s.order)
	}
	var list []property
	for _, name := range names {
		if s.err != nil {
			return nil
		}
		schemas := s.member(b, name)
		if !s.named(b, name) || slices.Contains(schemas, any(false)) {
			if required[name] {
				return s.nothing(at, "%.40q is required and forbidden", name)
			}
			continue
		}
		where := at.at("properties").at(name)
		s.take(len(name) + nodeBytes)
		body := sequence{literal(s.name(name, where, call)), s.assign(call), s.value(schemas, where)}
		list = append(list, property{s.add(where, body), required[name]})
	}
	few := b.other == nil && b.leastMembers > len(list) // others must be there
	others := s.others(b, nil, names, at, call, few)
	var must, behind expression
	if b.other != nil {
		if must = s.others(b, b.other, names, at, call, true); must == nil {
			return nil
		}
		var taken both
		for _, x := range b.other {
			taken = append(taken, x.names)
		}
		behind = s.others(b, []somePart{{complement{taken}, true}}, names, at, call, few)
	}
	if s.err != nil {
		return nil
	}
	if b.mostMembers < 0 && (b.leastMembers <= len(b.required) || b.leastMembers == len(b.required)+1 && must != nil) {
		return s.members(at, list, others, must, behind)
	}
	if must != nil {
		s.refuse(at, "not", "of a member that is not named, with a number of members, is not supported")
	}
	return s.counted(b, at, list, others)
}

// names are the names that schemas of a branch list, in order.
func (s *schema) names(b *branch) (names []string, listed map[string]bool) {
	listed = map[string]bool{}
	for _, p := range b.objects {
		for _, m := range p.properties.all() {
			if s.take(nodeBytes) && !listed[m.key] {
				listed[m.key] = true
				names = append(names, m.key)
			}
		}
	}
	return names, listed
}

// maxPatterns bounds the patternProperties of a branch: a name may match any of their subsets.
const maxPatterns = 8

// others is a member that no schema of the branch lists; nil: there is none. Which schemas its value has depends on
// the patterns that its name matches. must: one that is of these parts, too. wanted: a narrow grammar has it too.
func (s *schema) others(b *branch, must []somePart, names []string, at *place, call, wanted bool) expression {
	var patterns []patternPart
	asked, lists := false, len(b.required) > 0
	for _, p := range b.objects {
		asked = asked || p.additional != nil || p.names != nil && p.properties == nil
		lists = lists || p.properties != nil || len(p.patterns) > 0
		for _, x := range p.patterns {
			if !slices.ContainsFunc(patterns, func(y patternPart) bool { return y.key == x.key }) {
				patterns = append(patterns, x)
			}
		}
	}
	allowed := both{}
	for _, p := range b.objects {
		if p.names != nil {
			allowed = append(allowed, s.stringsOf(p.names, at.at("propertyNames")))
		}
	}
	for _, x := range must {
		allowed = append(allowed, x.names)
	}
	if len(patterns) > maxPatterns {
		left := s.refuse(at, "patternProperties", "%d patterns for one object, at most %d", len(patterns), maxPatterns)
		name := s.otherName(allowed, names, at, call)
		if !left || name == nil {
			return nil
		}
		return s.add(at.at("additionalProperties"), sequence{name, s.assign(call), s.any()})
	}
	var all choice
	for set := range 1 << len(patterns) {
		if set == 0 && s.Narrow && lists && !asked && !wanted {
			continue
		}
		text := slices.Clip(allowed)
		matched := func(key string) bool {
			i := slices.IndexFunc(patterns, func(x patternPart) bool { return x.key == key })
			return set>>i&1 == 1
		}
		for i, x := range patterns {
			if set>>i&1 == 1 {
				text = append(text, x.names)
			} else {
				text = append(text, complement{x.names})
			}
		}
		var schemas []any
		for _, x := range must {
			schemas = append(schemas, x.schema)
		}
		for _, p := range b.objects {
			found := false
			for _, x := range p.patterns {
				if matched(x.key) {
					schemas = append(schemas, x.schema)
					found = true
				}
			}
			if !found && p.additional != nil {
				schemas = append(schemas, p.additional)
			}
		}
		if slices.Contains(schemas, any(false)) {
			continue
		}
		name := s.otherName(text, names, at, call)
		if name == nil {
			continue
		}
		where := at.at("additionalProperties")
		all = append(all, sequence{name, s.assign(call), s.value(schemas, where)})
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return s.add(at.at("additionalProperties"), all[0])
	}
	return s.add(at.at("additionalProperties"), all)
}

// stringsOf is the strings that are valid by a schema.
func (s *schema) stringsOf(v any, at *place) expression {
	var all choice
	for _, b := range s.branches(v) {
		if b.types&isString == 0 {
			continue
		}
		if b.limited {
			for _, v := range b.values {
				if text, ok := v.(string); ok && s.holds(&b, v) {
					all = append(all, literal(text))
				}
			}
			continue
		}
		if x := s.characters(&b); x != nil {
			all = append(all, x)
		} else {
			return anyText
		}
	}
	return all
}

// otherName is the name of a member that is in text and none of names; nil: there is none.
func (s *schema) otherName(text both, names []string, at *place, call bool) expression {
	set := anyText
	switch {
	case s.Names || call:
		set = repeat{wordClass, 1, -1}
		text = append(slices.Clip(text), set)
	case s.Quote != "" && !strings.HasPrefix(s.Quote, controlMark) && len(text)+len(names) > 0:
		s.fail(at.at("additionalProperties"), "other names than those of properties are not supported in this notation")
		return nil
	}
	if len(names) > 0 {
		taken := make(choice, len(names))
		for i, name := range names {
			taken[i] = literal(name)
		}
		text = append(slices.Clip(text), complement{taken})
	}
	if len(text) > 0 && !s.terms.live(s.terms.of(text)) {
		return nil
	}
	if s.Names || call {
		if len(text) == 1 {
			return set
		}
		return lazy{text, true}
	}
	if len(text) == 0 {
		return s.anyString()
	}
	return s.quote(text)
}

// members is an object's inside: rule i is what may stand from member i on, once with and once without a member
// before it. Behind them come others, and one that must be there. What stands behind that one has no name that it could
// have: the last of equal names is the one that counts. In any order they are an expression of their own.
func (s *schema) members(at *place, list []property, other, must, behind expression) expression {
	if s.AnyOrder && must == nil && (len(list) > 1 || len(list) == 1 && other != nil) {
		comma := s.shared("comma", func() expression { return s.comma() })
		return s.add(at.at("members"), anyOrder{list, comma, other})
	}
	first, later := expression(sequence{}), expression(sequence{})
	if other == nil {
		other = choice{}
	}
	if behind == nil {
		behind = choice{}
	}
	more := repeat{sequence{s.comma(), other}, 0, -1}
	if must != nil {
		last := sequence{must, repeat{sequence{s.comma(), behind}, 0, -1}}
		first = sequence{repeat{sequence{other, s.comma()}, 0, -1}, last}
		later = sequence{more, s.comma(), last}
	} else {
		first, later = choice{sequence{}, sequence{other, more}}, more
	}
	for i, p := range slices.Backward(list) {
		here := sequence{p.body, later}
		behind := sequence{s.comma(), p.body, later}
		if p.required {
			first, later = here, behind
		} else {
			first, later = choice{here, first}, choice{behind, later}
		}
		first = s.add(at.at("from "+strconv.Itoa(i)), first)
		later = s.add(at.at("after "+strconv.Itoa(i)), later)
	}
	return first
}

// counted is members with a number of them: a rule for each member and count. Members that are not listed could be the
// same one twice, so that for the fewest all of them count as one.
func (s *schema) counted(b *branch, at *place, list []property, other expression) expression {
	least, most := b.leastMembers, b.mostMembers
	limit := max(least, most) // counts beyond it are not told apart
	if most < 0 {
		limit = least
	}
	open := other != nil && (most < 0 || most > 0)
	reach := len(list)
	if open {
		reach++
	}
	if reach < least {
		if !open {
			return s.nothing(at, "minProperties %d, and no so many members are allowed", least)
		}
		if !s.refuse(at, "minProperties", "%d of members whose names are not listed is not supported", least) {
			return nil
		}
		least = reach
	}
	comma := func(n int, x expression) expression {
		if n == 0 {
			return x
		}
		return sequence{s.comma(), x}
	}
	limit = min(limit, len(list)+max(0, most))
	// rest[n] is what follows n members, all of which are before place i.
	rest := make([]expression, limit+2)
	for n := range rest {
		var all choice
		if n >= least && (most < 0 || n <= most) {
			all = append(all, sequence{})
		}
		if open && (most < 0 || n < most) && n+1 >= least {
			more := repeat{sequence{s.comma(), other}, 0, -1}
			if most >= 0 {
				more.most = most - n - 1
			}
			all = append(all, sequence{comma(n, other), more})
		}
		rest[n] = all
	}
	for i, p := range slices.Backward(list) {
		next := make([]expression, len(rest))
		for n := range rest {
			if !s.take(nodeBytes) {
				return nil
			}
			after := min(n+1, len(rest)-1)
			var all choice
			if most < 0 || n < most {
				all = append(all, sequence{comma(n, p.body), rest[after]})
			}
			if !p.required {
				all = append(all, rest[n])
			}
			next[n] = s.add(at.at("from "+strconv.Itoa(i)), all)
		}
		rest = next
	}
	return rest[0]
}
