package jinja

import (
	"strings"
	"unicode"
)

type testFunc func(m *machine, v Value, a args) bool

// testTable holds the tests by name.
var testTable = map[string]testFunc{
	"boolean": typeTest[bool],
	"callable": func(_ *machine, v Value, _ args) bool {
		switch v.(type) {
		case undefined, *function, *loop:
			return true
		}
		return false
	},
	"defined": func(m *machine, v Value, a args) bool {
		m.bind("defined", a)
		_, ok := v.(undefined)
		return !ok
	},
	"divisibleby": func(m *machine, v Value, a args) bool {
		n := m.bind("divisibleby", a, "num")[0]
		return m.equal(m.arith("%", v, n), int64(0), 0)
	},
	"eq": comparison("=="), "equalto": comparison("=="), "==": comparison("=="),
	"ne": comparison("!="), "!=": comparison("!="),
	"lt": comparison("<"), "lessthan": comparison("<"), "<": comparison("<"),
	"le": comparison("<="), "<=": comparison("<="),
	"gt": comparison(">"), "greaterthan": comparison(">"), ">": comparison(">"),
	"ge": comparison(">="), ">=": comparison(">="),
	"in": comparison("in"),
	"escaped": func(_ *machine, v Value, _ args) bool {
		t, ok := v.(Text)
		return ok && t.safe
	},
	"even":  func(m *machine, v Value, _ args) bool { return m.equal(m.arith("%", v, int64(2)), int64(0), 0) },
	"odd":   func(m *machine, v Value, _ args) bool { return m.equal(m.arith("%", v, int64(2)), int64(1), 0) },
	"false": func(_ *machine, v Value, _ args) bool { return v == Value(false) },
	"true":  func(_ *machine, v Value, _ args) bool { return v == Value(true) },
	"filter": func(m *machine, v Value, _ args) bool {
		t, ok := v.(Text)
		return ok && m.filters[t.s] != nil
	},
	"test": func(m *machine, v Value, _ args) bool {
		t, ok := v.(Text)
		return ok && m.tests[t.s] != nil
	},
	"float":   typeTest[float64],
	"integer": func(m *machine, v Value, a args) bool { return typeTest[int64](m, v, a) || typeTest[Whole](m, v, a) },
	"iterable": func(_ *machine, v Value, _ args) bool {
		switch v.(type) {
		case undefined, Text, *List, *Dict, *view, *generator, *loop:
			return true
		}
		return false
	},
	"lower": func(m *machine, v Value, _ args) bool { return truth(m.callMethod(m.text(v), "islower", args{})) },
	"upper": func(m *machine, v Value, _ args) bool { return truth(m.callMethod(m.text(v), "isupper", args{})) },
	"mapping": func(_ *machine, v Value, _ args) bool {
		_, ok := v.(*Dict)
		return ok
	},
	"none": typeTest[None],
	"number": func(_ *machine, v Value, _ args) bool {
		_, _, _, ok := number(v)
		_, whole := v.(Whole)
		return ok || whole
	},
	"sameas": func(m *machine, v Value, a args) bool {
		other := m.bind("sameas", a, "other")[0]
		switch v := v.(type) {
		case None, bool, int64, *List, *Dict, *namespace, *function:
			return v == other
		}
		m.fail(ErrUnsupported, "sameas of a %s", typeName(v))
		return false
	},
	"sequence": func(_ *machine, v Value, _ args) bool {
		switch v.(type) {
		case undefined, Text, *List, *Dict:
			return true
		}
		return false
	},
	"string": typeTest[Text],
	"undefined": func(m *machine, v Value, a args) bool {
		m.bind("undefined", a)
		_, ok := v.(undefined)
		return ok
	},
}

func typeTest[T Value](_ *machine, v Value, _ args) bool {
	_, ok := v.(T)
	return ok
}

func comparison(op string) testFunc {
	return func(m *machine, v Value, a args) bool {
		return m.compare(op, v, m.bind(op, a, "other")[0])
	}
}

// cased says whether every letter that has a case satisfies is, and there is one.
func cased(s string, is func(rune) bool) bool {
	found := false
	for _, r := range s {
		if unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) {
			if !is(r) {
				return false
			}
			found = true
		}
	}
	return found
}

// all says whether s is not empty and all its characters satisfy is.
func all(s string, is func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0
}
