package grammar

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Notation is how the values of a schema are written where that is not JSON: the arguments of tool calls, in the
// formats of some models. The zero value is JSON. Numbers are JSON's in every notation.
type Notation struct {
	// Quote stands before and behind each string, whose characters have no escapes; it may be a [ControlToken]. "":
	// strings are JSON's.
	Quote string
	// Names of members have no quotes; a name that could not be told from what is around it is refused.
	Names bool
	// Sorted members come in the order of their names, upper and lower case alike, instead of that of properties.
	Sorted bool
	// Python writes True, False, None.
	Python bool
	// Call: the schema is an object's, and its members are written as the arguments of a call: a=1, b=2, without braces.
	Call bool
	// End: the schema is a string's, which is written as it is, without quotes and escapes, up to End, which is in none,
	// as is Avoid where it is not "".
	End, Avoid string
}

// wordDelimiters cannot be in a name without quotes.
const wordDelimiters = " \n\t\r,:=(){}[]<>\"'"

// constant is a word of the notation.
func (s *schema) constant(v any) string {
	if !s.Python {
		return string(appendJSON(nil, v))
	}
	switch v {
	case nil:
		return "None"
	case true:
		return "True"
	}
	return "False"
}

// write is a fixed value.
func (s *schema) write(v any, path *place) string {
	if s.Notation == (Notation{}) {
		return string(appendJSON(nil, v))
	}
	list := func(open, end string, n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return open + strings.Join(items, s.mark(",")) + end
	}
	switch v := v.(type) {
	case *object:
		members := s.sorted(v)
		return list("{", "}", len(members), func(i int) string {
			return s.name(members[i].key, path, false) + s.mark(":") + s.write(members[i].value, path)
		})
	case []any:
		return list("[", "]", len(v), func(i int) string { return s.write(v[i], path) })
	case string:
		if s.End != "" {
			if strings.Contains(v, s.End) || s.Avoid != "" && strings.Contains(v, s.Avoid) {
				s.fail(path, "the text %.40q has the end of the notation in it", v)
			}
			return v + s.End
		}
		if s.Quote == "" {
			return quote(v)
		}
		if strings.Contains(v, s.Quote) {
			s.fail(path, "the text %.40q has the quote of the notation in it", v)
		}
		return s.Quote + v + s.Quote
	case json.Number:
		return string(v)
	}
	return s.constant(v)
}

// mark is a comma or colon inside of a fixed value, which has no blanks that are optional.
func (s *schema) mark(m string) string {
	if s.Spaces {
		return m + " "
	}
	return m
}

// sorted are members in the order in which they are written.
func (s *schema) sorted(o *object) []member {
	if !s.Sorted {
		return o.all()
	}
	return slices.SortedStableFunc(slices.Values(o.all()), func(a, b member) int { return s.order(a.key, b.key) })
}

// order is that of names in a notation that sorts them.
func (s *schema) order(a, b string) int {
	s.spend(1 + min(len(a), len(b)))
	return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
}

// name is how the name of a member, or of a call's argument, is written.
func (s *schema) name(name string, path *place, call bool) string {
	if !s.Names && !call {
		return s.write(name, path)
	}
	if name == "" || strings.ContainsAny(name, wordDelimiters) {
		s.fail(path, "the name %.40q cannot be written without quotes", name)
	}
	return name
}

// assign stands between the name of a member and its value.
func (s *schema) assign(call bool) expression {
	if call {
		return literal("=")
	}
	return s.colon()
}

// quoted is any text in the notation's quotes, of least to most characters.
func (s *schema) quoted(least, most int, path *place) expression {
	if strings.HasPrefix(s.Quote, controlMark) {
		return sequence{literal(s.Quote), repeat{anyRune, least, most}, literal(s.Quote)}
	}
	if least > 0 || most >= 0 {
		return s.fail(path, "the length of a text is not supported between quotes that are text")
	}
	return sequence{literal(s.Quote), seek{[]string{s.Quote}, false}}
}
