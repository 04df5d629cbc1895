package jinja

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

type filterFunc func(m *machine, v Value, a args) Value

// filterTable holds the filters by name. Those that need nothing but strings
// are the methods of strings, by the same functions.
var filterTable = map[string]filterFunc{
	"abs": func(m *machine, v Value, a args) Value {
		m.bind("abs", a)
		i, f, isInt, ok := number(m.defined(v))
		switch {
		case !ok:
			m.fail(ErrRuntime, "abs: a number is needed, not %s", typeName(v))
		case !isInt:
			return math.Abs(f)
		case i < 0:
			return m.integers("-", 0, i)
		}
		return i
	},
	"attr": func(m *machine, v Value, a args) Value {
		name := m.str("attr", m.bind("attr", a, "name")[0]).s
		if d, ok := v.(*Dict); ok { // an attribute, never an entry
			if f := m.method(d, name); f != nil {
				return f
			}
			return undefined{"a dict has no attribute '" + name + "'"}
		}
		return m.attr(v, name)
	},
	"batch": func(m *machine, v Value, a args) Value {
		given := m.bind("batch", a, "linecount", "fill_with?")
		n := m.integer("batch", given[0])
		if n < 1 {
			m.fail(ErrRuntime, "batch: a size of %d", n)
		}
		var out []Value
		for part := range slices.Chunk(m.items(v, "batch"), n) {
			items := slices.Clone(part)
			if _, none := given[1].(None); given[1] != nil && !none {
				m.spend((n - len(items)) * valueBytes)
				for len(items) < n {
					items = append(items, given[1])
				}
			}
			out = append(out, m.list(items))
		}
		return m.generator(m.list(out).Items)
	},
	"capitalize": textFilter("capitalize"),
	"center": func(m *machine, v Value, a args) Value {
		given := m.bind("center", a, "width?")
		if given[0] == nil {
			given[0] = int64(80)
		}
		return m.callMethod(m.text(v), "center", args{pos: given})
	},
	"count":   filterLength,
	"default": filterDefault,
	"d":       filterDefault,
	"dictsort": func(m *machine, v Value, a args) Value {
		given := m.bind("dictsort", a, "case_sensitive?", "by?", "reverse?")
		by := 0
		if given[1] != nil {
			switch m.str("dictsort", given[1]).s {
			case "key":
			case "value":
				by = 1
			default:
				m.fail(ErrRuntime, `dictsort: by is neither "key" nor "value"`)
			}
		}
		d, ok := v.(*Dict)
		if !ok {
			m.fail(ErrRuntime, "dictsort: a dict is needed, not %s", typeName(v))
		}
		pairs := m.pairs(d)
		m.sort(pairs, m.flag(given[2]), func(x Value) Value {
			return m.fold(x.(*List).Items[by], m.flag(given[0]))
		})
		return m.list(pairs)
	},
	"e":      filterEscape,
	"escape": filterEscape,
	"forceescape": func(m *machine, v Value, a args) Value {
		m.bind("forceescape", a)
		t := m.text(v)
		t.safe = false
		return m.escape(t)
	},
	"first": func(m *machine, v Value, a args) Value {
		m.bind("first", a)
		if g, ok := v.(*generator); ok {
			if g.fill(m); len(g.items) == 0 {
				return undefined{"first: no first item, the sequence is empty"}
			}
			x := g.items[0]
			g.items = g.items[1:]
			return x
		}
		items := m.items(v, "first")
		if len(items) == 0 {
			return undefined{"first: no first item, the sequence is empty"}
		}
		return items[0]
	},
	"float": func(m *machine, v Value, a args) Value {
		given := m.bind("float", a, "default?")
		if t, ok := m.defined(v).(Text); ok {
			if f, ok := m.parseFloat(t.s); ok {
				return f
			}
		}
		if _, f, _, ok := number(v); ok {
			return f
		}
		if given[0] != nil {
			return given[0]
		}
		return 0.0
	},
	"format": func(m *machine, v Value, a args) Value {
		if len(a.names) > 0 {
			if len(a.pos) > 0 {
				m.fail(ErrRuntime, "format: arguments with and without names")
			}
			d := &Dict{}
			for i, name := range a.names {
				m.setItem(d, m.lit(name), a.values[i])
			}
			return m.percent(m.text(v), d)
		}
		return m.percent(m.text(v), &List{Items: a.pos, kind: aTuple})
	},
	"groupby": func(m *machine, v Value, a args) Value {
		given := m.bind("groupby", a, "attribute", "default?", "case_sensitive?")
		key := func(x Value) Value {
			k := m.path(x, given[0])
			if _, ok := k.(undefined); ok && given[1] != nil {
				k = given[1]
			}
			return k
		}
		items := slices.Clone(m.list(m.items(v, "groupby")).Items)
		m.sort(items, false, func(x Value) Value { return m.fold(key(x), m.flag(given[2])) })
		var out []Value
		var last *List
		for _, x := range items {
			k := m.fold(key(x), m.flag(given[2]))
			if last != nil && m.equal(m.fold(key(last.Items[0]), m.flag(given[2])), k, 0) {
				m.spend(valueBytes)
				last.Items = append(last.Items, x)
				continue
			}
			last = m.list([]Value{x})
			group := m.tuple(key(x), last)
			group.attrs = []string{"grouper", "list"}
			out = append(out, group)
		}
		return m.list(out)
	},
	"indent": filterIndent,
	"int": func(m *machine, v Value, a args) Value {
		given := m.bind("int", a, "default?", "base?")
		base := 10
		if given[1] != nil {
			base = m.integer("int", given[1])
		}
		switch v := m.defined(v).(type) {
		case Text:
			m.chars(len(v.s))
			m.spend(2 * len(v.s)) // in lower case, without underscores
			s := strings.TrimFunc(v.s, isSpace)
			digits := s
			if base == 16 || base == 8 || base == 2 {
				digits = strings.TrimPrefix(strings.ToLower(s), map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
			}
			if base >= 2 { // one above 36 is refused as what is no number
				i, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), base, 64)
				if errors.Is(err, strconv.ErrRange) {
					m.fail(ErrLimit, "int: an integer of more than 64 bits")
				}
				if err == nil {
					return i
				}
			}
			if f, ok := m.parseFloat(s); ok && f-f == 0 { // the text of an infinity is no number
				return m.whole(f)
			}
		case float64:
			if v == v {
				return m.whole(v)
			}
		default:
			if i, _, _, ok := number(v); ok {
				return i
			}
		}
		if given[0] != nil {
			return given[0]
		}
		return int64(0)
	},
	"items": func(m *machine, v Value, a args) Value {
		m.bind("items", a)
		switch v := v.(type) {
		case undefined:
			return &generator{}
		case *Dict:
			return m.generator(m.pairs(v))
		}
		m.fail(ErrRuntime, "items: a dict is needed, not %s", typeName(v))
		return nil
	},
	"join": func(m *machine, v Value, a args) Value {
		given := m.bind("join", a, "d?", "attribute?")
		var sep Text
		if given[0] != nil {
			sep = m.text(given[0])
		}
		b := m.builder()
		for i, x := range m.items(v, "join") {
			if given[1] != nil {
				x = m.path(x, given[1])
			}
			if i > 0 {
				b.text(sep)
			}
			b.text(m.text(x))
		}
		return b.done()
	},
	"last": func(m *machine, v Value, a args) Value {
		m.bind("last", a)
		if _, ok := v.(*generator); ok {
			m.fail(ErrRuntime, "last: a generator cannot be reversed")
		}
		items := m.items(v, "last")
		if len(items) == 0 {
			return undefined{"last: no last item, the sequence is empty"}
		}
		last := items[len(items)-1]
		if t, ok := last.(Text); ok { // of a text it is a part of it, where iterating makes plain ones
			if of, ok := v.(Text); ok {
				t.safe = of.safe
				return t
			}
		}
		return last
	},
	"length": filterLength,
	"list": func(m *machine, v Value, a args) Value {
		m.bind("list", a)
		return m.list(m.items(v, "list"))
	},
	"lower":  textFilter("lower"),
	"map":    filterMap,
	"max":    extreme("max", func(m *machine, a, b Value) bool { return m.less(b, a, 0) }),
	"min":    extreme("min", func(m *machine, a, b Value) bool { return m.less(a, b, 0) }),
	"reject": choose("reject", false, false), "rejectattr": choose("rejectattr", true, false),
	"select": choose("select", false, true), "selectattr": choose("selectattr", true, true),
	"replace": func(m *machine, v Value, a args) Value {
		given := m.bind("replace", a, "old", "new", "count?")
		pos := []Value{m.text(given[0]), m.text(given[1])}
		t := m.text(v)
		t.safe = false // without autoescape Jinja makes plain text of it
		if _, none := given[2].(None); given[2] != nil && !none {
			pos = append(pos, given[2])
		}
		return m.callMethod(t, "replace", args{pos: pos})
	},
	"reverse": func(m *machine, v Value, a args) Value {
		m.bind("reverse", a)
		if t, ok := v.(Text); ok {
			b := m.builder()
			runes := m.runes(t)
			for _, r := range slices.Backward(runes) {
				b.text(r.(Text))
			}
			return b.like(t)
		}
		items := slices.Clone(m.list(m.items(v, "reverse")).Items)
		slices.Reverse(items)
		if _, ok := v.(*generator); ok { // which Python cannot reverse: Jinja makes a list of it
			return m.list(items)
		}
		return m.generator(items)
	},
	"round": func(m *machine, v Value, a args) Value {
		given := m.bind("round", a, "precision?", "method?")
		i, f, isInt, ok := number(m.defined(v))
		if !ok {
			m.fail(ErrRuntime, "round: a number is needed, not %s", typeName(v))
		}
		places := 0
		if given[0] != nil {
			places = m.integer("round", given[0])
		}
		if places > 20 {
			m.fail(ErrUnsupported, "round: a precision of %d", places)
		}
		method := "common"
		if given[1] != nil {
			method = m.str("round", given[1]).s
		}
		scale := math.Pow(10, float64(places))
		switch method {
		case "common":
			if places < 0 {
				return roundTens(i, f, isInt, -places)
			}
			if isInt {
				return i
			}
			r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', places, 64), 64)
			return r
		case "ceil":
			return (math.Ceil(f*scale) + 0) / scale // an integer in Python: none is -0
		case "floor":
			return (math.Floor(f*scale) + 0) / scale
		}
		m.fail(ErrRuntime, "round: the method %q", method)
		return nil
	},
	"safe": func(m *machine, v Value, a args) Value {
		m.bind("safe", a)
		t := m.text(v)
		t.safe = true
		return t
	},
	"slice": func(m *machine, v Value, a args) Value {
		given := m.bind("slice", a, "slices", "fill_with?")
		n := m.integer("slice", given[0])
		items := m.items(v, "slice")
		if n < 1 || n > len(items)+1000 {
			m.fail(ErrRuntime, "slice: %d slices", n)
		}
		m.step(n)
		var out []Value
		size, extra := len(items)/n, len(items)%n
		for i, at := 0, 0; i < n; i++ {
			k := at + size
			if i < extra {
				k++
			}
			part := m.list(slices.Clone(items[at:k]))
			if _, none := given[1].(None); given[1] != nil && !none && i >= extra {
				m.spend(valueBytes)
				part.Items = append(part.Items, given[1])
			}
			out = append(out, part)
			at = k
		}
		return m.generator(out)
	},
	"sort": func(m *machine, v Value, a args) Value {
		given := m.bind("sort", a, "reverse?", "case_sensitive?", "attribute?")
		items := slices.Clone(m.list(m.items(v, "sort")).Items)
		by := []Value{given[2]}
		if t, ok := given[2].(Text); ok {
			by = nil
			for part := range strings.SplitSeq(t.s, ",") {
				m.step(1)
				m.spend(textBytes)
				by = append(by, lit(part))
			}
		}
		m.sort(items, m.flag(given[0]), func(x Value) Value {
			m.spend(len(by) * valueBytes)
			key := m.list(nil) // as in Jinja also of one: of lists equal items are not ordered, as two of none
			for _, attr := range by {
				k := x
				if _, none := attr.(None); attr != nil && !none {
					k = m.path(x, attr)
				}
				key.Items = append(key.Items, m.fold(k, m.flag(given[1])))
			}
			return key
		})
		return m.list(items)
	},
	"string": func(m *machine, v Value, a args) Value {
		m.bind("string", a)
		return m.text(v)
	},
	"sum": func(m *machine, v Value, a args) Value {
		given := m.bind("sum", a, "attribute?", "start?")
		var sum Value = int64(0)
		if given[1] != nil {
			sum = given[1]
		}
		for _, x := range m.items(v, "sum") {
			if _, none := given[0].(None); given[0] != nil && !none {
				x = m.path(x, given[0])
			}
			sum = m.arith("+", sum, x)
		}
		return sum
	},
	"title": func(m *machine, v Value, a args) Value {
		m.bind("title", a)
		t := m.text(v)
		t.safe = false // Jinja joins the parts to a plain text
		start := true
		return m.mapRunes(t, func(_ int, r rune) string {
			first := start
			start = r == '-' || r == '(' || r == '{' || r == '[' || r == '<' || isSpace(r)
			switch {
			case start:
				return string(r)
			case first:
				return upperRune(r)
			}
			return strings.ToLower(string(r))
		})
	},
	"tojson": filterTojson,
	"trim": func(m *machine, v Value, a args) Value {
		return m.callMethod(m.text(v), "strip", args{pos: m.bind("trim", a, "chars?")})
	},
	"truncate": func(m *machine, v Value, a args) Value {
		given := m.bind("truncate", a, "length?", "killwords?", "end?", "leeway?")
		length, leeway, end := 255, 5, lit("...")
		if given[0] != nil {
			length = m.integer("truncate", given[0])
		}
		if given[2] != nil {
			end = m.str("truncate", given[2])
		}
		if given[3] != nil {
			leeway = m.integer("truncate", given[3])
		}
		if length < m.length(end) || leeway < 0 {
			m.fail(ErrRuntime, "truncate: a length of %d", length)
		}
		if n := filterLength(m, v, args{}).(int64); n <= int64(length+leeway) {
			return v
		}
		t := m.str("truncate", v)
		at := m.places(t)
		t = t.slice(0, at.of(length-m.length(end)))
		if !m.flag(given[1]) {
			if k := strings.LastIndexByte(t.s, ' '); k >= 0 {
				t = t.slice(0, k)
			}
		}
		return m.concat(t, end)
	},
	"unique": func(m *machine, v Value, a args) Value {
		given := m.bind("unique", a, "case_sensitive?", "attribute?")
		var seen Dict
		var out []Value
		for _, x := range m.items(v, "unique") {
			k := x
			if given[1] != nil {
				k = m.path(x, given[1])
			}
			k = m.fold(k, m.flag(given[0]))
			if _, ok := m.get(&seen, k); !ok {
				m.setItem(&seen, k, true)
				out = append(out, x)
			}
		}
		return m.generator(m.list(out).Items)
	},
	"upper": textFilter("upper"),
	"urlencode": func(m *machine, v Value, a args) Value {
		m.bind("urlencode", a)
		t, ok := v.(Text)
		if !ok {
			m.fail(ErrUnsupported, "urlencode of a %s", typeName(v))
		}
		b := m.builder()
		m.chars(len(t.s))
		for i := range len(t.s) {
			c := t.s[i]
			plain := unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) || strings.IndexByte("_.-~/", c) >= 0
			if c < 0x80 && plain {
				b.text(t.slice(i, i+1))
			} else {
				const hex = "0123456789ABCDEF"
				b.from(string([]byte{'%', hex[c>>4], hex[c&15]}), Origin(t.o[i]))
			}
		}
		return b.done()
	},
	"pprint":   filterPprint,
	"wordwrap": filterWordwrap,
	"xmlattr":  filterXmlattr,
	"wordcount": func(m *machine, v Value, a args) Value {
		m.bind("wordcount", a)
		t := m.text(v)
		m.chars(len(t.s))
		words, inWord := int64(0), false
		for _, r := range t.s {
			was := inWord
			inWord = r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
			words += intOf(inWord && !was)
		}
		return words
	},
}
