package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// textFilter makes a filter of a method of strings without arguments.
func textFilter(name string) filterFunc {
	return func(m *machine, v Value, a args) Value {
		m.bind(name, a)
		return m.callMethod(m.text(v), name, a)
	}
}

func filterLength(m *machine, v Value, a args) Value {
	m.bind("length", a)
	switch v := v.(type) {
	case undefined:
		return int64(0)
	case Text:
		return int64(m.length(v))
	case *List:
		return int64(len(v.Items))
	case *Dict:
		return int64(len(v.keys))
	case *view:
		return int64(len(v.items))
	}
	m.fail(ErrRuntime, "length: a %s has none", typeName(v))
	return nil
}

func filterDefault(m *machine, v Value, a args) Value {
	given := m.bind("default", a, "default_value?", "boolean?")
	if _, ok := v.(undefined); ok || m.flag(given[1]) && !truth(v) {
		if given[0] == nil {
			return Text{}
		}
		return given[0]
	}
	return v
}

func filterEscape(m *machine, v Value, a args) Value {
	m.bind("escape", a)
	t := m.text(v)
	if t.safe {
		return t
	}
	return m.escape(t)
}

func filterIndent(m *machine, v Value, a args) Value {
	given := m.bind("indent", a, "width?", "first?", "blank?")
	t := m.str("indent", m.defined(v))
	indent := lit("    ")
	switch w := given[0].(type) {
	case nil:
	case Text:
		indent = w
	default:
		n := m.integer("indent", w)
		m.spend(max(n, 0))
		indent = lit(strings.Repeat(" ", max(n, 0)))
	}
	b := m.builder()
	// Jinja appends a line end first, so that one at the end is kept.
	for i, line := range m.splitLines(m.concat(t, lit("\n")), false) {
		if i > 0 {
			b.lit("\n")
		}
		if m.flag(given[1]) && i == 0 || i > 0 && (line.s != "" || m.flag(given[2])) {
			b.text(indent)
		}
		b.text(line)
	}
	return b.like(t)
}

func (m *machine) parseFloat(s string) (float64, bool) {
	m.chars(len(s))
	m.spend(len(s))
	s = strings.ReplaceAll(strings.TrimFunc(s, isSpace), "_", "")
	if len(s) > 1 && strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// fold prepares a value for comparison: texts in lower case, unless case counts.
func (m *machine) fold(v Value, caseSensitive bool) Value {
	if t, ok := v.(Text); ok && !caseSensitive {
		m.chars(len(t.s))
		return m.lit(strings.ToLower(t.s))
	}
	return v
}

// pairs returns the entries of d as tuples.
func (m *machine) pairs(d *Dict) []Value {
	m.spend(len(d.keys) * entryBytes)
	m.step(len(d.keys))
	out := make([]Value, len(d.keys))
	for i, k := range d.keys {
		out[i] = &List{Items: []Value{k, d.values[i]}, kind: aTuple}
	}
	return out
}

// sort sorts items by key; equal ones keep their order.
func (m *machine) sort(items []Value, reverse bool, key func(Value) Value) {
	m.spend(len(items) * 2 * valueBytes)
	type keyed struct{ k, v Value }
	all := make([]keyed, len(items))
	for i, x := range items {
		all[i] = keyed{key(x), x}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if reverse {
			a, b = b, a
		}
		switch {
		case m.less(a.k, b.k, 0):
			return -1
		case m.less(b.k, a.k, 0):
			return 1
		}
		return 0
	})
	for i, x := range all {
		items[i] = x.v
	}
}

// path follows an attribute name with dots, or an index.
func (m *machine) path(v, name Value) Value {
	t, ok := name.(Text)
	if !ok {
		return m.item(v, name)
	}
	for part := range strings.SplitSeq(t.s, ".") {
		m.step(1)
		if i, err := strconv.ParseInt(part, 10, 64); err == nil && i >= 0 {
			v = m.item(v, i)
		} else {
			v = m.item(v, m.lit(part))
		}
	}
	return v
}

// lazy is items as map and select see them: what is false has none.
func (m *machine) lazy(v Value, where string) []Value {
	if !truth(v) {
		return nil
	}
	return m.items(v, where)
}

func filterMap(m *machine, v Value, a args) Value {
	each := func(x Value) Value { return x }
	if len(a.pos) == 0 {
		given := m.bind("map", a, "attribute", "default?")
		each = func(x Value) Value {
			y := m.path(x, given[0])
			if _, ok := y.(undefined); ok && given[1] != nil {
				return given[1]
			}
			return y
		}
	} else {
		name := m.str("map", a.pos[0]).s
		f := m.filters[name]
		if f == nil {
			m.fail(ErrUnsupported, "map: the filter %q", name)
		}
		rest := args{a.pos[1:], a.names, a.values}
		each = func(x Value) Value {
			m.operands(x, rest)
			return f(m, x, rest)
		}
	}
	m.spend(listBytes)
	return &generator{make: func() []Value {
		var out []Value
		for _, x := range m.lazy(v, "map") {
			m.spend(valueBytes)
			out = append(out, each(x))
		}
		return out
	}}
}

// choose makes select, selectattr, reject and rejectattr.
func choose(name string, attr, want bool) filterFunc {
	return func(m *machine, v Value, a args) Value {
		var by Value
		if attr {
			if len(a.pos) == 0 {
				m.fail(ErrRuntime, "%s: no attribute", name)
			}
			by, a.pos = a.pos[0], a.pos[1:]
		}
		good := func(x Value) bool { return truth(x) }
		if len(a.pos) > 0 {
			test := m.str(name, a.pos[0]).s
			f := m.tests[test]
			if f == nil {
				m.fail(ErrUnsupported, "%s: the test %q", name, test)
			}
			rest := args{a.pos[1:], a.names, a.values}
			good = func(x Value) bool {
				m.operands(x, rest)
				return f(m, x, rest)
			}
		}
		m.spend(listBytes)
		return &generator{make: func() []Value {
			var out []Value
			for _, x := range m.lazy(v, name) {
				y := x
				if attr {
					y = m.path(x, by)
				}
				if good(y) == want {
					m.spend(valueBytes)
					out = append(out, x)
				}
			}
			return out
		}}
	}
}

// extreme makes min and max.
func extreme(name string, better func(m *machine, a, b Value) bool) filterFunc {
	return func(m *machine, v Value, a args) Value {
		given := m.bind(name, a, "case_sensitive?", "attribute?")
		key := func(x Value) Value {
			if given[1] != nil {
				x = m.path(x, given[1])
			}
			return m.fold(x, m.flag(given[0]))
		}
		items := m.items(v, name)
		if len(items) == 0 {
			return undefined{name + ": the sequence is empty"}
		}
		best := items[0]
		for _, x := range items[1:] {
			if better(m, key(x), key(best)) {
				best = x
			}
		}
		return best
	}
}

// roundTens rounds to tens, hundreds and so on, half to even as Python does.
func roundTens(i int64, f float64, isInt bool, places int) Value {
	if places > 18 {
		if isInt {
			return int64(0)
		}
		return math.Copysign(0, f)
	}
	scale := int64(1)
	for range places {
		scale *= 10
	}
	if !isInt {
		return math.RoundToEven(f/float64(scale)) * float64(scale)
	}
	whole, rest := i/scale, i%scale
	if rest < 0 {
		rest = -rest
	}
	if rest > scale/2 || rest == scale/2 && whole%2 != 0 {
		if i < 0 {
			whole--
		} else {
			whole++
		}
	}
	return whole * scale
}
