package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filters that lay a text or a value out: wordwrap, pprint, xmlattr.

// filterWordwrap is Python's textwrap.wrap of each line.
func filterWordwrap(m *machine, v Value, a args) Value {
	given := m.bind("wordwrap", a, "width?", "break_long_words?", "wrapstring?", "break_on_hyphens?")
	width := 79
	if given[0] != nil {
		width = m.integer("wordwrap", given[0])
	}
	if width < 1 {
		m.fail(ErrRuntime, "wordwrap: a width of %d", width)
	}
	end := lit("\n")
	if given[2] != nil {
		if _, none := given[2].(None); !none {
			end = m.str("wordwrap", given[2])
		}
	}
	long, hyphens := given[1] == nil || m.flag(given[1]), given[3] == nil || m.flag(given[3])
	b := m.builder()
	for i, line := range m.splitLines(m.str("wordwrap", m.defined(v)), false) {
		if i > 0 {
			b.text(end)
		}
		for j, part := range m.wrapped(m.chunks(line, hyphens), width, long, hyphens) {
			if j > 0 {
				b.text(end)
			}
			b.text(part)
		}
	}
	return b.done()
}

// chunkBytes is what a chunk takes: in a list that grows, and in that of its line, which is in one that grows too.
const chunkBytes = 320

// chunks cuts a line into what a break may stand between: words and white space, and words behind hyphens between
// letters.
func (m *machine) chunks(line Text, hyphens bool) (list []Text) {
	m.chars(len(line.s))
	from := 0
	add := func(to int) {
		if to > from {
			m.spend(chunkBytes)
			list = append(list, line.slice(from, to))
			from = to
		}
	}
	before := rune(0)
	for i, r := range line.s {
		if i > 0 && breakable(r) != breakable(before) {
			add(i)
		}
		if before = r; hyphens && r == '-' {
			if strings.HasPrefix(line.s[i:], "--") {
				m.fail(ErrUnsupported, "wordwrap: dashes of several hyphens; break_on_hyphens=false does not look at them")
			}
			if breaksBehind(line.s[from:i], line.s[i+1:]) {
				add(i + 1)
			}
		}
	}
	add(len(line.s))
	return list
}

// breakable reports whether lines end at a character of white space: one of ASCII.
func breakable(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }

// breaksBehind reports whether a hyphen between two texts is where a line may end: two letters, or a letter, a hyphen
// and a letter, stand on either side.
func breaksBehind(before, behind string) bool {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) }
	last, n := utf8.DecodeLastRuneInString(before)
	second, n2 := utf8.DecodeLastRuneInString(before[:len(before)-n])
	if second == '-' {
		second, _ = utf8.DecodeLastRuneInString(before[:len(before)-n-n2])
	}
	first, n := utf8.DecodeRuneInString(behind)
	next, n2 := utf8.DecodeRuneInString(behind[n:])
	if next == '-' {
		next, _ = utf8.DecodeRuneInString(behind[n+n2:])
	}
	return letter(last) && letter(second) && letter(first) && letter(next)
}

// wrapped fills lines of a width with chunks; white space at the ends of lines is left out. Of a chunk that is longer
// than a line the beginning fills the current one, where long ones are cut; it ends behind a hyphen, where lines do.
func (m *machine) wrapped(chunks []Text, width int, long, hyphens bool) (lines []Text) {
	blank := func(t Text) bool { return strings.TrimFunc(t.s, isSpace) == "" }
	for len(chunks) > 0 {
		if len(lines) > 0 && blank(chunks[0]) {
			if chunks = chunks[1:]; len(chunks) == 0 {
				break
			}
		}
		var line []Text
		used := 0
		for len(chunks) > 0 {
			n := m.length(chunks[0])
			if used+n > width {
				break
			}
			line, used, chunks = append(line, chunks[0]), used+n, chunks[1:]
		}
		if len(chunks) > 0 && m.length(chunks[0]) > width {
			room := len(chunks[0].s)
			if long {
				room = bytesOf(chunks[0].s, width-used)
				begin := chunks[0].s[:room]
				if k := strings.LastIndexByte(begin, '-'); hyphens && k > 0 && strings.Trim(begin[:k], "-") != "" {
					room = k + 1
				}
			}
			if long || len(line) == 0 {
				whole := chunks[0]
				line = append(line, whole.slice(0, room))
				if chunks[0] = whole.slice(room, len(whole.s)); room == len(whole.s) {
					chunks = chunks[1:]
				}
			}
		}
		if len(line) > 0 && blank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			m.spend(chunkBytes)
			b := m.builder()
			for _, t := range line {
				b.text(t)
			}
			lines = append(lines, b.done())
		}
	}
	return lines
}

// bytesOf is how many bytes n characters of a text take.
func bytesOf(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// filterXmlattr writes a dict as attributes of XML: those with a value, with a space in front.
func filterXmlattr(m *machine, v Value, a args) Value {
	given := m.bind("xmlattr", a, "autospace?")
	d, ok := v.(*Dict)
	if !ok {
		m.fail(ErrRuntime, "xmlattr: a dict is needed, not %s", typeName(v))
	}
	space := given[0] == nil || m.flag(given[0])
	b := m.builder()
	for i, k := range d.keys {
		m.step(1)
		switch d.values[i].(type) {
		case None, undefined:
			continue
		}
		name := m.text(k)
		if strings.ContainsAny(name.s, " \t\n\r\f\v/>=") {
			m.fail(ErrRuntime, "xmlattr: an invalid character in the name %.40q", name.s)
		}
		if space {
			b.lit(" ")
		}
		space = true
		b.text(m.escape(name))
		b.lit(`="`)
		b.text(m.escape(m.text(d.values[i])))
		b.lit(`"`)
	}
	return b.done()
}

// prettyWidth is how wide pprint's lines are.
const prettyWidth = 80

// filterPprint is Python's pprint.pformat: the representation, with the entries of dicts in order, and containers that
// are wider than a line with one item on each.
func filterPprint(m *machine, v Value, a args) Value {
	m.bind("pprint", a)
	b := m.builder()
	m.pretty(b, v, 0, 0, 0)
	return b.done()
}

// pretty appends a value that stands behind indent characters and in front of rest more.
func (m *machine) pretty(b *builder, v Value, indent, rest, depth int) {
	if depth > maxNest {
		m.fail(ErrLimit, "a value nested more than %d deep", maxNest)
	}
	v = m.inOrder(v, depth)
	one := m.builder()
	m.repr(one, v, depth)
	flat := one.done()
	if m.length(flat) <= prettyWidth-indent-rest {
		b.text(flat)
		return
	}
	next := ",\n" + strings.Repeat(" ", indent+1)
	behind := func(i, n int) int {
		if i+1 == n {
			return rest + 1
		}
		return 1
	}
	switch v := v.(type) {
	case *Dict:
		b.lit("{")
		for i, k := range v.keys {
			if i > 0 {
				b.lit(next)
			}
			name := m.builder()
			m.repr(name, k, depth)
			t := name.done()
			b.text(t)
			b.lit(": ")
			m.pretty(b, v.values[i], indent+m.length(t)+3, behind(i, len(v.keys)), depth+1)
		}
		b.lit("}")
	case *List:
		if v.kind == aTuple {
			m.fail(ErrUnsupported, "pprint: a tuple of more than %d characters", prettyWidth)
		}
		b.lit("[")
		for i, x := range v.Items {
			if i > 0 {
				b.lit(next)
			}
			m.pretty(b, x, indent+1, behind(i, len(v.Items)), depth+1)
		}
		b.lit("]")
	case Text:
		if strings.ContainsFunc(v.s, unicode.IsSpace) {
			m.fail(ErrUnsupported, "pprint: a text with white space that is longer than a line")
		}
		b.text(flat)
	default:
		b.text(flat)
	}
}

// inOrder is a value with the entries of its dicts in the order of their names.
func (m *machine) inOrder(v Value, depth int) Value {
	if depth > maxNest {
		m.fail(ErrLimit, "a value nested more than %d deep", maxNest)
	}
	m.step(1)
	switch v := v.(type) {
	case *Dict:
		pairs := m.pairs(v)
		m.sort(pairs, false, func(x Value) Value { return x.(*List).Items[0] })
		out := &Dict{}
		for _, pair := range pairs {
			p := pair.(*List).Items
			out.Set(p[0], m.inOrder(p[1], depth+1))
		}
		return out
	case *List:
		m.spend(listBytes + len(v.Items)*valueBytes)
		out := &List{kind: v.kind}
		for _, x := range v.Items {
			out.Items = append(out.Items, m.inOrder(x, depth+1))
		}
		return out
	}
	return v
}
