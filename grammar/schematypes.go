package grammar

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxBlanks is the longest indentation that SchemaOptions.Blanks allows.
const maxBlanks = 20

// shared is the rule of a part of JSON that many schemas use.
func (s *schema) shared(name string, body func() expression) rule {
	if r, ok := s.builtin[name]; ok {
		return r
	}
	r := s.add(&place{part: name}, choice{})
	s.builtin[name] = r
	s.bodies[r] = body()
	return r
}

// blank is what may stand between two JSON tokens.
func (s *schema) blank() expression {
	if !s.blanks {
		return sequence{}
	}
	return s.shared("blank", func() expression {
		indent := repeat{newClass(runeRange{' ', ' '}, runeRange{'\t', '\t'}), 0, maxBlanks}
		return choice{sequence{}, literal(" "), sequence{literal("\n"), indent}}
	})
}

// comma and colon with the blanks around them; after an opening and before a closing bracket there may be blanks too.
func (s *schema) comma() expression { return s.separator(",") }
func (s *schema) colon() expression { return s.separator(":") }

func (s *schema) separator(mark string) expression {
	if s.spaces {
		return literal(mark + " ")
	}
	return sequence{s.blank(), literal(mark), s.blank()}
}

func (s *schema) brackets(open, close string, inside expression) expression {
	return sequence{literal(open), s.blank(), inside, s.blank(), literal(close)}
}

// list is least to most of x, separated by commas; most < 0: any number.
func (s *schema) list(x expression, least, most int) expression {
	if most == 0 {
		return sequence{}
	}
	more := most
	if most > 0 {
		more--
	}
	all := sequence{x, repeat{sequence{s.comma(), x}, max(0, least-1), more}}
	if least == 0 {
		return choice{sequence{}, all}
	}
	return all
}

// any is any JSON value.
func (s *schema) any() expression {
	return s.shared("value", func() expression {
		v := s.builtin["value"]
		return choice{s.anyObject(), s.brackets("[", "]", s.list(v, 0, -1)), s.anyString(), s.anyNumber(),
			literal(s.constant(true)), literal(s.constant(false)), literal(s.constant(nil))}
	})
}

func (s *schema) anyObject() expression {
	return s.shared("object", func() expression {
		return s.brackets("{", "}", s.list(s.anyMember(false), 0, -1))
	})
}

// anyMember is a member of any object.
func (s *schema) anyMember(call bool) expression {
	name := s.anyString()
	if s.Names || call {
		name = s.otherName(nil, nil, call)
	}
	return sequence{name, s.assign(call), s.any()}
}

var (
	digit    = newClass(runeRange{'0', '9'})
	digit1   = newClass(runeRange{'1', '9'})
	hexDigit = newClass(runeRange{'0', '9'}, runeRange{'a', 'f'}, runeRange{'A', 'F'})

	// plain is the characters that stand for themselves in a JSON string (RFC 8259, section 7).
	plain = newClass(runeRange{' ', '!'}, runeRange{'#', '['}, runeRange{']', utf8.MaxRune})

	// escape is one escaped character. Surrogates are left out: one without its other half is no character.
	escape = sequence{literal(`\`), choice{
		oneOf(`"\/bfnrt`),
		sequence{literal("u"), choice{
			sequence{newClass(runeRange{'0', '9'}, runeRange{'a', 'c'}, runeRange{'A', 'C'}, runeRange{'e', 'f'},
				runeRange{'E', 'F'}),
				hexDigit, hexDigit, hexDigit},
			sequence{oneOf("dD"), newClass(runeRange{'0', '7'}), hexDigit, hexDigit},
		}},
	}}
)

// oneOf is one of some characters.
func oneOf(characters string) class {
	var all []runeRange
	for _, r := range characters {
		all = append(all, runeRange{r, r})
	}
	return newClass(all...)
}

// character is one character of a JSON string.
func (s *schema) character() expression {
	return s.shared("character", func() expression { return choice{plain, escape} })
}

func (s *schema) anyString() expression {
	return s.shared("string", func() expression {
		if s.Quote != "" {
			return s.quoted(0, -1, nil)
		}
		return sequence{literal(`"`), repeat{s.character(), 0, -1}, literal(`"`)}
	})
}

// maxDigits bounds a number's integer and fraction digits: what binary64 can tell apart, so that a reader's value is
// the text's.
const maxDigits = 15

func (s *schema) anyInteger() expression {
	return s.shared("integer", func() expression {
		return sequence{repeat{literal("-"), 0, 1},
			choice{literal("0"), sequence{digit1, repeat{digit, 0, maxDigits - 1}}}}
	})
}

func (s *schema) anyNumber() expression {
	return s.shared("number", func() expression {
		exponent := sequence{oneOf("eE"), repeat{oneOf("+-"), 0, 1}, digit, repeat{digit, 0, 1}}
		fraction := sequence{literal("."), repeat{digit, 1, maxDigits}}
		return sequence{s.anyInteger(), repeat{fraction, 0, 1}, repeat{exponent, 0, 1}}
	})
}

// count reads a bound that counts something.
func (s *schema) count(o *object, key string, path *place, absent int) int {
	v, ok := o.get(key)
	if !ok {
		return absent
	}
	number, _ := v.(json.Number)
	d, ok := s.decimal(number, path.at(key))
	switch {
	case !ok:
		return absent
	case d.negative || d.fraction != "":
		s.fail(path.at(key), "a whole number expected")
		return absent
	}
	n, err := strconv.Atoi(d.integer)
	if err != nil || n > s.limits.Repetitions {
		s.beyond(path.at(key), "Repetitions", s.limits.Repetitions)
		return absent
	}
	return n
}

func (s *schema) array(o *object, path *place, depth int) expression {
	least, most := s.count(o, "minItems", path, 0), s.count(o, "maxItems", path, -1)
	if most >= 0 && most < least {
		return s.fail(path, "maxItems %d is less than minItems %d", most, least)
	}
	var prefix []expression
	if v, ok := o.get("prefixItems"); ok {
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return s.fail(path.at("prefixItems"), "a list of at least one schema expected")
		}
		for i, x := range list {
			where := path.at("prefixItems").at(strconv.Itoa(i))
			prefix = append(prefix, s.add(where, s.value(x, where, depth+1)))
		}
	}
	var item expression
	switch v, ok := o.get("items"); {
	case !ok && prefix != nil:
		// Others would be valid too; none are written unless they are asked for.
		if least > len(prefix) {
			item = s.any()
		}
	case !ok:
		item = s.any()
	case v == false:
	default:
		item = s.add(path.at("items"), s.value(v, path.at("items"), depth+1))
	}
	if item == nil && least > len(prefix) {
		return s.fail(path, "minItems %d, and no schema allows so many", least)
	}
	inside := s.items(path, prefix, item, least, most)
	return s.brackets("[", "]", inside)
}

// items is an array's inside: as many of prefix as there is room for, then item.
func (s *schema) items(path *place, prefix []expression, item expression, least, most int) expression {
	if len(prefix) == 0 {
		if item == nil {
			return sequence{}
		}
		return s.list(item, least, most)
	}
	// (p1 (, p2 (, p3 rest)?)?)? with the question marks where least allows them
	n := len(prefix)
	if most >= 0 && most < n {
		n = most
	}
	inside := expression(sequence{})
	if n == len(prefix) && item != nil && most != n {
		more := most
		if most >= 0 {
			more -= n
		}
		inside = repeat{sequence{s.comma(), item}, max(0, least-n), more}
	}
	for i := n - 1; i >= 0; i-- {
		part := sequence{prefix[i], inside}
		if i > 0 {
			part = sequence{s.comma(), prefix[i], inside}
		}
		inside = part
		if i >= least {
			inside = choice{sequence{}, part}
		}
		inside = s.add(path.at("from "+strconv.Itoa(i)), inside) // flat, however long the list is
	}
	return inside
}

func (s *schema) object(o *object, path *place, depth int) expression {
	v, listed := o.get("properties")
	properties, ok := v.(*object)
	if listed && !ok {
		return s.fail(path.at("properties"), "an object expected")
	}
	additional, asked := o.get("additionalProperties")
	required := map[string]bool{}
	if v, ok := o.get("required"); ok {
		names, ok := v.([]any)
		if !ok {
			return s.fail(path.at("required"), "a list of names expected")
		}
		others := any(true)
		if asked {
			others = additional
		}
		properties = properties.clone()
		for _, e := range names {
			name, ok := e.(string)
			if !ok || !s.take(nodeBytes) {
				return s.fail(path.at("required"), "a list of names expected")
			}
			required[name] = true
			if properties.find(name) < 0 {
				if additional == false {
					return s.fail(path.at("required"), "%.40q is required and additionalProperties forbids it", name)
				}
				properties.add(name, others)
			}
		}
	}
	call := s.isCall(path, depth)
	s.called = s.called || call
	if len(properties.all()) == 0 && (!asked || additional == true) && !listed {
		if call {
			return s.list(s.anyMember(call), 0, -1)
		}
		return s.anyObject()
	}
	var list []property
	for _, p := range s.sorted(properties) {
		if p.value == false && !required[p.key] {
			continue // a member that must not be there
		}
		where := path.at("properties").at(p.key)
		s.take(len(p.key) + nodeBytes)
		key := literal(s.name(p.key, where, call))
		body := s.add(where, sequence{key, s.assign(call), s.value(p.value, where, depth+1)})
		list = append(list, property{body, required[p.key]})
	}
	// Other members, behind the listed ones.
	var other expression
	if asked && additional != false {
		var names []string
		for _, p := range properties.all() {
			names = append(names, p.key)
		}
		where := path.at("additionalProperties")
		key := s.otherName(names, where, call)
		other = s.add(where, sequence{key, s.assign(call), s.value(additional, where, depth+1)})
	}
	if call {
		return s.members(path, list, other)
	}
	return s.brackets("{", "}", s.members(path, list, other))
}

// property is a member that an object's schema lists.
type property struct {
	body     expression // "name": value
	required bool
}

// members is an object's inside: rule i is what may stand from member i on, once with and once without a member
// before it.
func (s *schema) members(path *place, list []property, other expression) expression {
	first, later := expression(sequence{}), expression(sequence{})
	if other != nil {
		more := repeat{sequence{s.comma(), other}, 0, -1}
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
		first = s.add(path.at("from "+strconv.Itoa(i)), first)
		later = s.add(path.at("after "+strconv.Itoa(i)), later)
	}
	return first
}

// except is a string of characters of set that is none of names: a rule for each beginning of a name.
func (s *schema) except(names []string, set class, path *place) expression {
	type beginning struct {
		rule  rule
		rests []string // of the names that begin so
	}
	first := s.add(path, choice{})
	for waiting := []beginning{{first, names}}; len(waiting) > 0 && s.err == nil; {
		b := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		heads := map[rune]int{} // places in waiting
		var all choice
		var taken []runeRange
		isName := false
		for _, n := range b.rests {
			r, size := utf8.DecodeRuneInString(n)
			if isName = isName || n == ""; n == "" || !s.take(exceptBytes) || !set.has(r) {
				continue
			}
			at, ok := heads[r]
			if !ok {
				at = len(waiting)
				heads[r] = at
				waiting = append(waiting, beginning{rule: s.add(path, choice{})})
				taken = append(taken, runeRange{r, r})
				all = append(all, sequence{class{{r, r}}, waiting[at].rule})
			}
			waiting[at].rests = append(waiting[at].rests, n[size:])
		}
		if !isName {
			all = append(all, sequence{})
		}
		s.bodies[b.rule] = append(all, sequence{set.minus(newClass(taken...)), repeat{set, 0, -1}})
	}
	return first
}

// exceptBytes is what a character of a name takes in except.
const exceptBytes = 768

func (s *schema) string(o *object, path *place) expression {
	least, most := s.count(o, "minLength", path, 0), s.count(o, "maxLength", path, -1)
	if most >= 0 && most < least {
		return s.fail(path, "maxLength %d is less than minLength %d", most, least)
	}
	bounded := least > 0 || most >= 0
	pattern, hasPattern := o.get("pattern")
	format, hasFormat := o.get("format")
	switch {
	case hasPattern && hasFormat, (hasPattern || hasFormat) && bounded:
		return s.fail(path, "pattern, format and a length are supported one at a time")
	case hasPattern:
		text, ok := pattern.(string)
		if !ok {
			return s.fail(path.at("pattern"), "a regular expression expected")
		}
		x, err := s.pattern(text)
		if err != nil {
			return s.fail(path.at("pattern"), "%v", err)
		}
		return x
	case hasFormat:
		name, _ := format.(string)
		text, ok := formats[name]
		if !ok {
			return s.fail(path.at("format"), "%.40q is not supported", name)
		}
		return s.shared("format "+name, func() expression {
			x, err := s.pattern("^(" + text + ")$")
			if err != nil {
				return s.fail(path.at("format"), "%v", err)
			}
			return x
		})
	case !bounded:
		return s.anyString()
	case s.Quote != "":
		return s.quoted(least, most, path)
	}
	return sequence{literal(`"`), repeat{s.character(), least, most}, literal(`"`)}
}

// formats are regular expressions of JSON Schema's formats. Each matches valid texts only, not all of them: no leap
// day, no leap second, no literal address in a mail address, no compressed IPv6 form but "::" itself between whole
// groups.
var formats = map[string]string{
	"date":      datePattern,
	"time":      timePattern,
	"date-time": datePattern + `T` + timePattern,
	"duration": `P((\d{1,4}Y(\d{1,2}M(\d{1,3}D)?)?|\d{1,3}M(\d{1,3}D)?|\d{1,4}D)(T` + clockPattern + `)?|` +
		`T` + clockPattern + `|\d{1,3}W)`,
	"email":    `[A-Za-z0-9_%+-]{1,20}(\.[A-Za-z0-9_%+-]{1,20}){0,3}@` + hostPattern,
	"hostname": hostPattern,
	"ipv4":     `(` + octetPattern + `\.){3}` + octetPattern,
	"ipv6":     `([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,6}(:[0-9a-fA-F]{1,4})|::1?`,
	"uri": `[a-z][a-z0-9+.-]{0,10}://[A-Za-z0-9-]{1,40}(\.[A-Za-z0-9-]{1,40}){0,5}(:\d{1,4})?` +
		`(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*(\?[A-Za-z0-9._~&=+-]*)?(#[A-Za-z0-9._~&=+-]*)?`,
	"uuid": `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
}

// Parts of formats. A host has no "--", hence no xn--: what follows that must be valid Punycode.
const (
	datePattern = `\d{4}-((01|03|05|07|08|10|12)-(0[1-9]|[12]\d|3[01])|(04|06|09|11)-(0[1-9]|[12]\d|30)|` +
		`02-(0[1-9]|1\d|2[0-8]))`
	timePattern  = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
	clockPattern = `(\d{1,3}H(\d{1,3}M(\d{1,3}S)?)?|\d{1,3}M(\d{1,3}S)?|\d{1,3}S)`
	hostPattern  = `[A-Za-z0-9](-?[A-Za-z0-9]){0,15}(\.[A-Za-z0-9](-?[A-Za-z0-9]){0,15}){0,4}`
	octetPattern = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
)
