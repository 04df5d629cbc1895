package jinja

import (
	"sort"
	"strconv"
	"strings"
)

// jsonStyle are the arguments of tojson.
type jsonStyle struct {
	indent      string
	multiline   bool
	item, colon string // separators
	ascii, sort bool
}

// filterTojson takes its arguments in the order that model hubs give them.
func filterTojson(m *machine, v Value, a args) Value {
	given := m.bind("tojson", a, "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	st := jsonStyle{item: ", ", colon: ": ", ascii: m.flag(given[0]), sort: m.flag(given[3])}
	switch x := given[1].(type) {
	case nil, None:
	case Text:
		st.multiline, st.indent = true, x.s
	default:
		st.multiline, st.indent = true, strings.Repeat(" ", min(max(0, m.integer("tojson", x)), 100))
	}
	if st.multiline {
		st.item = ","
	}
	if l, ok := given[2].(*List); ok && len(l.Items) == 2 {
		st.item, st.colon = m.str("tojson", l.Items[0]).s, m.str("tojson", l.Items[1]).s
	}
	b := m.builder()
	m.json(b, v, &st, 0)
	return b.done()
}

func (m *machine) json(b *builder, v Value, st *jsonStyle, depth int) {
	m.step(1)
	if depth > maxNest {
		m.fail(ErrLimit, "tojson: a value nested more than %d deep", maxNest)
	}
	line := func(depth int) {
		if st.multiline {
			b.lit("\n")
			m.spend(depth * len(st.indent))
			b.lit(strings.Repeat(st.indent, depth))
			m.read(depth * len(st.indent))
		}
	}
	switch v := v.(type) {
	case None:
		b.lit("null")
	case bool:
		b.lit(strconv.FormatBool(v))
	case int64:
		b.lit(strconv.FormatInt(v, 10))
	case Whole:
		b.lit(string(v))
	case float64:
		switch s := formatFloat(v); s {
		case "inf":
			b.lit("Infinity")
		case "-inf":
			b.lit("-Infinity")
		case "nan":
			b.lit("NaN")
		default:
			b.lit(s)
		}
	case Text:
		b.lit(`"`)
		b.text(m.mapRunes(v, func(_ int, r rune) string { return jsonRune(r, st.ascii) }))
		b.lit(`"`)
	case *List:
		if v.kind == aRange {
			m.fail(ErrRuntime, "tojson: a value of type range")
		}
		if len(v.Items) == 0 {
			b.lit("[]")
			break
		}
		b.lit("[")
		for i, x := range v.Items {
			if i > 0 {
				b.lit(st.item)
			}
			line(depth + 1)
			m.json(b, x, st, depth+1)
		}
		line(depth)
		b.lit("]")
		return
	case *Dict:
		if len(v.keys) == 0 {
			b.lit("{}")
			break
		}
		m.spend(8 * len(v.keys))
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		if st.sort {
			sort.SliceStable(order, func(i, k int) bool { return m.less(v.keys[order[i]], v.keys[order[k]], 0) })
		}
		b.lit("{")
		for n, i := range order {
			if n > 0 {
				b.lit(st.item)
			}
			line(depth + 1)
			switch k := v.keys[i].(type) {
			case Text:
				m.json(b, k, st, depth+1)
			case *List:
				m.fail(ErrRuntime, "tojson: a key of type %s", typeName(k))
			default:
				b.lit(`"`)
				m.json(b, k, st, depth+1)
				b.lit(`"`)
			}
			b.lit(st.colon)
			m.json(b, v.values[i], st, depth+1)
		}
		line(depth)
		b.lit("}")
		return
	default:
		m.fail(ErrRuntime, "tojson: a value of type %s", typeName(v))
	}
}

// jsonRune escapes one character as Python's json module does.
func jsonRune(r rune, ascii bool) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	switch {
	case r < 0x20, ascii && r >= 0x7f && r < 0x10000:
		return hexEscape(`\u`, r, 4)
	case ascii && r >= 0x10000:
		r -= 0x10000
		return hexEscape(`\u`, 0xd800+r>>10, 4) + hexEscape(`\u`, 0xdc00+r&0x3ff, 4)
	}
	return string(r)
}
