package jinja

import (
	"slices"
	"strings"
	"unicode"
)

// method returns the method name of v as a function, nil if it has none.
func (m *machine) method(v Value, name string) Value {
	switch v := v.(type) {
	case Text:
		if f := textMethods[name]; f != nil {
			return m.function(name, func(m *machine, a args) Value {
				m.operands(v, a)
				return f(m, v, a)
			})
		}
		if name == "format" {
			return m.function(name, func(m *machine, a args) Value {
				m.operands(v, a)
				return m.format(v, a)
			})
		}
	case *Dict:
		if f := dictMethods[name]; f != nil {
			return m.function(name, func(m *machine, a args) Value {
				m.operands(nil, a)
				return f(m, v, a)
			})
		}
	case *List:
		if f := listMethods[name]; f != nil && (v.kind == aList || name == "count" || name == "index") {
			return m.function(name, func(m *machine, a args) Value {
				m.operands(nil, a)
				return f(m, v, a)
			})
		}
	}
	if slices.Contains(mutators[typeName(v)], name) {
		return m.function(name, func(m *machine, _ args) Value {
			m.fail(ErrRuntime, "%s.%s: a template may not change a value", typeName(v), name)
			return nil
		})
	}
	return nil
}

// mutators are the methods that Python has and the sandbox forbids.
var mutators = map[string][]string{
	"list": {"clear", "extend", "insert", "remove", "reverse", "sort"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// callMethod calls a method of a text.
func (m *machine) callMethod(t Text, name string, a args) Value {
	m.operands(t, a)
	return textMethods[name](m, t, a)
}

var dictMethods = map[string]func(m *machine, d *Dict, a args) Value{
	"get": func(m *machine, d *Dict, a args) Value {
		given := m.bind("get", a, "key", "default?")
		if v, ok := m.get(d, given[0]); ok {
			return v
		}
		if given[1] != nil {
			return given[1]
		}
		return None{}
	},
	"keys": func(m *machine, d *Dict, a args) Value {
		m.bind("keys", a)
		m.spend(listBytes)
		return &view{"dict_keys", d.keys}
	},
	"values": func(m *machine, d *Dict, a args) Value {
		m.bind("values", a)
		m.spend(listBytes)
		return &view{viewOfValues, d.values}
	},
	"items": func(m *machine, d *Dict, a args) Value {
		m.bind("items", a)
		m.spend(listBytes)
		return &view{"dict_items", m.pairs(d)}
	},
	"copy": func(m *machine, d *Dict, a args) Value {
		m.bind("copy", a)
		return d
	},
}

var listMethods = map[string]func(m *machine, l *List, a args) Value{
	"append": (*machine).appendItem,
	"copy": func(m *machine, l *List, a args) Value {
		m.bind("copy", a)
		return m.list(slices.Clone(l.Items))
	},
	"pop": (*machine).popItem,
	"count": func(m *machine, l *List, a args) Value {
		x, n := m.bind("count", a, "value")[0], int64(0)
		for _, v := range l.Items {
			n += intOf(m.equal(v, x, 0))
		}
		return n
	},
	"index": func(m *machine, l *List, a args) Value {
		x := m.bind("index", a, "value")[0]
		for i, v := range l.Items {
			if m.equal(v, x, 0) {
				return int64(i)
			}
		}
		m.fail(ErrRuntime, "index: the value is not in the list")
		return nil
	},
}

type textMethod func(m *machine, t Text, a args) Value

var textMethods = map[string]textMethod{
	"capitalize": mapMethod("capitalize", func(i int, r rune) string {
		if i == 0 {
			return titleRune(r)
		}
		return strings.ToLower(string(r))
	}),
	"casefold": mapMethod("casefold", func(_ int, r rune) string {
		if r == 'ß' {
			return "ss"
		}
		return strings.ToLower(string(r))
	}),
	"lower": mapMethod("lower", func(_ int, r rune) string { return strings.ToLower(string(r)) }),
	"swapcase": mapMethod("swapcase", func(_ int, r rune) string {
		if unicode.IsUpper(r) {
			return strings.ToLower(string(r))
		}
		return upperRune(r)
	}),
	"upper": mapMethod("upper", func(_ int, r rune) string { return upperRune(r) }),
	"title": func(m *machine, t Text, a args) Value {
		m.bind("title", a)
		inWord := false
		return m.mapRunes(t, func(_ int, r rune) string {
			was := inWord
			inWord = unicode.IsLetter(r)
			switch {
			case !inWord:
				return string(r)
			case was:
				return strings.ToLower(string(r))
			}
			return titleRune(r)
		})
	},
	"center": func(m *machine, t Text, a args) Value { return m.pad(t, "center", a) },
	"ljust":  func(m *machine, t Text, a args) Value { return m.pad(t, "ljust", a) },
	"rjust":  func(m *machine, t Text, a args) Value { return m.pad(t, "rjust", a) },
	"zfill": func(m *machine, t Text, a args) Value {
		n := m.integer("zfill", m.bind("zfill", a, "width")[0]) - m.length(t)
		if n <= 0 {
			return t
		}
		sign := 0
		if t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
			sign = 1
		}
		out := m.concat(t.slice(0, sign), m.repeat(lit("0"), int64(n)).(Text))
		return m.concat(out, t.slice(sign, len(t.s)))
	},
	"count": func(m *machine, t Text, a args) Value {
		given := m.bind("count", a, "sub", "start?", "end?")
		if given[1] != nil || given[2] != nil {
			var ok bool
			if t, ok = m.between("count", t, given[1], given[2]); !ok {
				return int64(0)
			}
		}
		return int64(strings.Count(t.s, m.str("count", given[0]).s))
	},
	"find":       find("find", strings.Index, false),
	"rfind":      find("rfind", strings.LastIndex, false),
	"index":      find("index", strings.Index, true),
	"rindex":     find("rindex", strings.LastIndex, true),
	"startswith": affix("startswith", strings.HasPrefix),
	"endswith":   affix("endswith", strings.HasSuffix),
	"isalnum": is("isalnum", func(s string) bool {
		return all(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	}),
	"isalpha":   is("isalpha", func(s string) bool { return all(s, unicode.IsLetter) }),
	"isdecimal": is("isdecimal", func(s string) bool { return all(s, unicode.IsDigit) }),
	"isdigit":   is("isdigit", func(s string) bool { return all(s, isDigit) }),
	"isnumeric": is("isnumeric", func(s string) bool { return all(s, unicode.IsNumber) }),
	"isspace":   is("isspace", func(s string) bool { return all(s, isSpace) }),
	"isascii": is("isascii", func(s string) bool {
		return s == "" ||
			all(s, func(r rune) bool { return r < 0x80 })
	}),
	"islower": is("islower", func(s string) bool { return cased(s, unicode.IsLower) }),
	"isupper": is("isupper", func(s string) bool { return cased(s, unicode.IsUpper) }),
	"join": func(m *machine, t Text, a args) Value {
		b := m.builder()
		for i, v := range m.items(m.bind("join", a, "iterable")[0], "join") {
			if i > 0 {
				b.text(t)
			}
			b.text(m.joins(m.str("join", v), t))
		}
		return b.like(t)
	},
	"strip":  strip("strip", true, true),
	"lstrip": strip("lstrip", true, false),
	"rstrip": strip("rstrip", false, true),
	"removeprefix": func(m *machine, t Text, a args) Value {
		p := m.str("removeprefix", m.bind("removeprefix", a, "prefix")[0]).s
		if strings.HasPrefix(t.s, p) {
			return t.slice(len(p), len(t.s))
		}
		return t
	},
	"removesuffix": func(m *machine, t Text, a args) Value {
		p := m.str("removesuffix", m.bind("removesuffix", a, "suffix")[0]).s
		if strings.HasSuffix(t.s, p) {
			return t.slice(0, len(t.s)-len(p))
		}
		return t
	},
	"replace": func(m *machine, t Text, a args) Value {
		given := m.bind("replace", a, "old", "new", "count?")
		n := -1
		if given[2] != nil {
			n = m.integer("replace", given[2])
		}
		return m.replace(t, m.str("replace", given[0]), m.joins(m.str("replace", given[1]), t), n)
	},
	"split":  func(m *machine, t Text, a args) Value { return m.split("split", t, a, false) },
	"rsplit": func(m *machine, t Text, a args) Value { return m.split("rsplit", t, a, true) },
	"splitlines": func(m *machine, t Text, a args) Value {
		lines := m.splitLines(t, m.flag(m.bind("splitlines", a, "keepends?")[0]))
		return m.texts(lines)
	},
	"partition": func(m *machine, t Text, a args) Value {
		sep := m.separator("partition", m.bind("partition", a, "sep")[0])
		if k := strings.Index(t.s, sep); k >= 0 {
			return m.tuple(t.slice(0, k), t.slice(k, k+len(sep)), t.slice(k+len(sep), len(t.s)))
		}
		return m.tuple(t, t.slice(0, 0), t.slice(0, 0))
	},
	"rpartition": func(m *machine, t Text, a args) Value {
		sep := m.separator("rpartition", m.bind("rpartition", a, "sep")[0])
		if k := strings.LastIndex(t.s, sep); k >= 0 {
			return m.tuple(t.slice(0, k), t.slice(k, k+len(sep)), t.slice(k+len(sep), len(t.s)))
		}
		return m.tuple(t.slice(0, 0), t.slice(0, 0), t)
	},
}

func (m *machine) tuple(items ...Value) *List {
	l := m.list(items)
	l.kind = aTuple
	return l
}

func (m *machine) texts(parts []Text) *List {
	m.spend(listBytes + len(parts)*valueBytes)
	items := make([]Value, len(parts))
	for i, t := range parts {
		items[i] = t
	}
	return &List{Items: items, own: true}
}

// isDigit is Unicode's Numeric_Type Decimal or Digit.
func isDigit(r rune) bool { return unicode.IsDigit(r) || unicode.Is(digits, r) }

// digits are those of Numeric_Type Digit: in circles, raised, and of scripts that write no decimal numbers with them.
var digits = &unicode.RangeTable{R16: []unicode.Range16{
	{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1}, {0x2074, 0x2079, 1},
	{0x2080, 0x2089, 1}, {0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1}, {0x24ea, 0x24ea, 1},
	{0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1}, {0x278a, 0x2792, 1},
}, R32: []unicode.Range32{
	{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1},
}, LatinOffset: 2}

func upperRune(r rune) string {
	if r == 'ß' {
		return "SS"
	}
	return strings.ToUpper(string(r))
}

func titleRune(r rune) string {
	if r == 'ß' {
		return "Ss"
	}
	return string(unicode.ToTitle(r))
}

func mapMethod(name string, f func(i int, r rune) string) textMethod {
	return func(m *machine, t Text, a args) Value {
		m.bind(name, a)
		return m.mapRunes(t, f)
	}
}

func is(name string, f func(s string) bool) textMethod {
	return func(m *machine, t Text, a args) Value {
		m.bind(name, a)
		m.chars(len(t.s))
		return f(t.s)
	}
}

func (m *machine) pad(t Text, name string, a args) Value {
	given := m.bind(name, a, "width", "fillchar?")
	n := m.integer(name, given[0]) - m.length(t)
	fill := lit(" ")
	if given[1] != nil {
		if fill = m.str(name, given[1]); m.length(fill) != 1 {
			m.fail(ErrRuntime, "%s: the fill must be one character", name)
		}
	}
	if n <= 0 {
		return t
	}
	left := 0
	switch name {
	case "rjust":
		left = n
	case "center": // Python puts the odd space on the left of an odd width
		left = n/2 + n&(m.length(t)+n)&1
	}
	out := m.concat(m.repeat(fill, int64(left)).(Text), t)
	return m.concat(out, m.repeat(fill, int64(n-left)).(Text))
}
