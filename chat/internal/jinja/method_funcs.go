package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// find makes find, index and their twins from the right. Positions count code points.
func find(name string, search func(s, sub string) int, must bool) textMethod {
	return func(m *machine, t Text, a args) Value {
		given := m.bind(name, a, "sub", "start?", "end?")
		at := m.places(t)
		n := at.n
		edge := func(v Value, standard int) int {
			if _, none := v.(None); v == nil || none {
				return standard
			}
			i := m.integer(name, v)
			if i < 0 {
				i = max(0, i+n)
			}
			return i
		}
		start, end := edge(given[1], 0), min(edge(given[2], n), n)
		sub := m.str(name, given[0]).s
		if start <= end {
			if k := search(t.s[at.of(start):at.of(end)], sub); k >= 0 {
				return int64(at.index(at.of(start) + k))
			}
		}
		if must {
			m.fail(ErrRuntime, "%s: not found", name)
		}
		return int64(-1)
	}
}

// between is a text from one character to another, nil and None being its ends; ok is false if it begins behind its
// end.
func (m *machine) between(name string, t Text, from, to Value) (part Text, ok bool) {
	m.chars(len(t.s))
	runes := []rune(t.s)
	m.spend(len(runes) * 8) // its characters, and the text of those between
	place := func(v Value, otherwise int) int {
		if _, none := v.(None); v == nil || none {
			return otherwise
		}
		i := m.integer(name, v)
		if i < 0 {
			i += len(runes)
		}
		return max(0, i)
	}
	i, j := place(from, 0), min(place(to, len(runes)), len(runes))
	if i > j {
		return Text{}, false
	}
	return Text{s: string(runes[i:j])}, true
}

// affix makes startswith and endswith, which take one text or a tuple of them.
func affix(name string, has func(s, affix string) bool) textMethod {
	return func(m *machine, t Text, a args) Value {
		given := m.bind(name, a, "prefix", "start?", "end?")
		v := given[0]
		if given[1] != nil || given[2] != nil {
			var ok bool
			if t, ok = m.between(name, t, given[1], given[2]); !ok {
				return false
			}
		}
		if l, ok := v.(*List); ok && l.kind == aTuple {
			return slices.ContainsFunc(l.Items, func(v Value) bool {
				affix := m.str(name, v).s
				m.step(1)
				m.read(min(len(affix), len(t.s)))
				return has(t.s, affix)
			})
		}
		return has(t.s, m.str(name, v).s)
	}
}

func strip(name string, left, right bool) textMethod {
	return func(m *machine, t Text, a args) Value {
		out := isSpace
		if v := m.bind(name, a, "chars?")[0]; v != nil {
			if _, none := v.(None); !none {
				chars := m.str(name, v).s
				m.chars(2 * len(chars))
				set := make(map[rune]bool)
				for _, r := range chars {
					if !set[r] {
						m.spend(valueBytes)
						set[r] = true
					}
				}
				out = func(r rune) bool { return set[r] }
			}
		}
		i, j := 0, len(t.s)
		for left && i < j {
			r, n := utf8.DecodeRuneInString(t.s[i:])
			if !out(r) {
				break
			}
			i += n
		}
		for right && i < j {
			r, n := utf8.DecodeLastRuneInString(t.s[i:j])
			if !out(r) {
				break
			}
			j -= n
		}
		m.chars(len(t.s) - (j - i))
		return t.slice(i, j)
	}
}

// replace replaces up to n occurrences, all of them if n is negative.
func (m *machine) replace(t, old, new Text, n int) Text {
	count := strings.Count(t.s, old.s)
	if n >= 0 {
		count = min(count, n)
	}
	if count == 0 {
		return t
	}
	m.step(count)
	b := m.builder()
	at := 0
	for i := range count {
		k := at
		if old.s != "" {
			k += strings.Index(t.s[at:], old.s)
		} else if i > 0 { // an empty text is found in front of every character
			_, n := utf8.DecodeRuneInString(t.s[at:])
			k += n
		}
		b.text(t.slice(at, k))
		b.text(new)
		at = k + len(old.s)
	}
	b.text(t.slice(at, len(t.s)))
	return b.like(t)
}

func (m *machine) separator(f string, v Value) string {
	sep := m.str(f, v).s
	if sep == "" {
		m.fail(ErrRuntime, "%s: an empty separator", f)
	}
	return sep
}

// split is split and, from the right, rsplit.
func (m *machine) split(name string, t Text, a args, fromRight bool) Value {
	given := m.bind(name, a, "sep?", "maxsplit?")
	limit := -1
	if given[1] != nil {
		limit = m.integer(name, given[1])
	}
	var parts []Text
	add := func(t Text) {
		m.step(1)
		m.spend(2 * textBytes) // parts grows by half at a time
		parts = append(parts, t)
	}
	if _, none := given[0].(None); given[0] == nil || none {
		m.chars(len(t.s))
		splitSpace(t, limit, fromRight, add)
	} else {
		sep := m.separator(name, given[0])
		for ; limit != 0; limit-- {
			k := strings.Index(t.s, sep)
			if fromRight {
				k = strings.LastIndex(t.s, sep)
			}
			if k < 0 {
				break
			}
			if fromRight {
				add(t.slice(k+len(sep), len(t.s)))
				t = t.slice(0, k)
			} else {
				add(t.slice(0, k))
				t = t.slice(k+len(sep), len(t.s))
			}
		}
		add(t)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return m.texts(parts)
}

// splitSpace splits at runs of white space, at most limit times. From the
// right the parts come in reverse.
func splitSpace(t Text, limit int, fromRight bool, add func(Text)) {
	for {
		if fromRight {
			t = t.slice(0, len(strings.TrimRightFunc(t.s, isSpace)))
		} else {
			t = t.slice(len(t.s)-len(strings.TrimLeftFunc(t.s, isSpace)), len(t.s))
		}
		if t.s == "" {
			return
		}
		k := -1
		if limit != 0 && fromRight {
			k = strings.LastIndexFunc(t.s, isSpace)
		} else if limit != 0 {
			k = strings.IndexFunc(t.s, isSpace)
		}
		if k < 0 {
			add(t)
			return
		}
		if fromRight {
			_, n := utf8.DecodeRuneInString(t.s[k:])
			add(t.slice(k+n, len(t.s)))
			t = t.slice(0, k)
		} else {
			add(t.slice(0, k))
			t = t.slice(k, len(t.s))
		}
		limit--
	}
}

// splitLines splits where Python's splitlines does.
func (m *machine) splitLines(t Text, keep bool) []Text {
	m.chars(len(t.s))
	var out []Text
	add := func(t Text) {
		m.step(1)
		m.spend(2 * textBytes)
		out = append(out, t)
	}
	start := 0
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		switch r {
		case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			end := i
			if i += n; r == '\r' && i < len(t.s) && t.s[i] == '\n' {
				i++
			}
			if keep {
				end = i
			}
			add(t.slice(start, end))
			start = i
		default:
			i += n
		}
	}
	if start < len(t.s) {
		add(t.slice(start, len(t.s)))
	}
	return out
}
