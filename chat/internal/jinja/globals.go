package jinja

import (
	"slices"
	"strings"
)

// maxRange is how long a range may be, as in Jinja's sandbox.
const maxRange = 100_000

// globalTable holds the functions that a template sees.
var globalTable = map[string]func(m *machine, a args) Value{
	"range": func(m *machine, a args) Value {
		v := m.bind("range", a, "start", "stop?", "step?")
		start, stop, step := 0, m.integer("range", v[0]), 1
		if v[1] != nil {
			start, stop = stop, m.integer("range", v[1])
		}
		if v[2] != nil {
			step = m.integer("range", v[2])
		}
		if step == 0 {
			m.fail(ErrRuntime, "range: step 0")
		}
		n := max(0, (stop-start+step-sign(step))/step)
		if n > maxRange {
			m.fail(ErrLimit, "a range of more than %d", maxRange)
		}
		m.step(n)
		m.spend(n * valueBytes)
		items := make([]Value, n)
		for i := range items {
			items[i] = int64(start + i*step)
		}
		return &List{Items: items, kind: aRange}
	},
	"dict": func(m *machine, a args) Value {
		d := &Dict{}
		if len(a.pos) > 1 {
			m.fail(ErrRuntime, "dict: more than one argument")
		}
		for _, v := range a.pos {
			m.fill(d, "dict", v)
		}
		for i, name := range a.names {
			m.setItem(d, m.lit(name), a.values[i])
		}
		m.spend(listBytes)
		return d
	},
	"namespace": func(m *machine, a args) Value {
		ns := &namespace{}
		for _, v := range a.pos {
			m.fill(&ns.d, "namespace", v)
		}
		for i, name := range a.names {
			m.setItem(&ns.d, m.lit(name), a.values[i])
		}
		m.spend(listBytes)
		return ns
	},
	"joiner": func(m *machine, a args) Value {
		sep := Value(m.lit(", "))
		if v := m.bind("joiner", a, "sep?")[0]; v != nil {
			sep = v
		}
		used := false
		return m.function("joiner", func(m *machine, a args) Value {
			m.bind("joiner", a)
			if used {
				return sep
			}
			used = true
			return Text{}
		})
	},
	"cycler": func(m *machine, a args) Value {
		if len(a.pos) == 0 {
			m.fail(ErrRuntime, "cycler: at least one item is needed")
		}
		items, at := slices.Clone(a.pos), 0
		m.spend(listBytes + len(items)*valueBytes)
		c := &namespace{}
		c.d.Set(m.lit("current"), items[0])
		c.d.Set(m.lit("next"), m.function("next", func(m *machine, a args) Value {
			m.bind("next", a)
			v := items[at]
			at = (at + 1) % len(items)
			c.d.Set(m.lit("current"), items[at])
			return v
		}))
		c.d.Set(m.lit("reset"), m.function("reset", func(m *machine, a args) Value {
			m.bind("reset", a)
			at = 0
			c.d.Set(m.lit("current"), items[0])
			return None{}
		}))
		return c
	},
	"raise_exception": func(m *machine, a args) Value {
		v := m.bind("raise_exception", a, "message")
		m.fail(ErrRaised, "%s", m.text(v[0]).s)
		return nil
	},
	"strftime_now": func(m *machine, a args) Value {
		f := m.str("strftime_now", m.bind("strftime_now", a, "format")[0])
		m.chars(32 * len(f.s))
		m.spend(16 * len(f.s)) // the longest directive is %c, of 24 bytes
		out, ok := strftime(m.clock(), f.s)
		if !ok {
			m.fail(ErrUnsupported, "strftime_now: the format %q", f.s)
		}
		return NewText(out, f.worst())
	},
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// fill adds the entries of a mapping, or of a sequence of pairs.
func (m *machine) fill(d *Dict, f string, v Value) {
	if from, ok := m.defined(v).(*Dict); ok {
		for i, k := range from.keys {
			m.step(1)
			m.setItem(d, k, from.values[i])
		}
		return
	}
	for _, pair := range m.items(v, f) {
		kv := m.items(pair, f)
		if len(kv) != 2 {
			m.fail(ErrRuntime, "%s: not a pair", f)
		}
		m.setItem(d, kv[0], kv[1])
	}
}

// escape is the filter escape.
func (m *machine) escape(t Text) Text {
	m.chars(len(t.s))
	if strings.ContainsAny(t.s, `&<>"'`) {
		t = m.mapRunes(t, func(_ int, r rune) string {
			switch r {
			case '&':
				return "&amp;"
			case '<':
				return "&lt;"
			case '>':
				return "&gt;"
			case '"':
				return "&#34;"
			case '\'':
				return "&#39;"
			}
			return string(r)
		})
	}
	t.safe = true
	return t
}
