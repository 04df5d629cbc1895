package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// percent is Python's format % values.
func (m *machine) percent(f Text, v Value) Value {
	var values []Value
	named, isDict := v.(*Dict)
	whole := false // as in Python, what has items is one value, which the format need not use
	switch x := v.(type) {
	case *List:
		whole = x.kind != aTuple
	case *Dict, undefined:
		whole = true
	}
	if l, ok := v.(*List); ok && !whole {
		values = l.Items
	} else {
		values = []Value{v}
	}
	used := 0
	take := func() Value {
		if used >= len(values) {
			m.fail(ErrRuntime, "%%: too few values for the format")
		}
		used++
		return values[used-1]
	}
	b := m.builder()
	s := f.s
	for i := 0; i < len(s); {
		k := strings.IndexByte(s[i:], '%')
		if k < 0 {
			b.text(f.slice(i, len(s)))
			break
		}
		b.text(f.slice(i, i+k))
		i += k + 1
		m.step(1)
		var x Value
		if i < len(s) && s[i] == '(' {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 || !isDict {
				m.fail(ErrRuntime, "%%: a name without a dict of values")
			}
			var ok bool
			if x, ok = m.get(named, f.slice(i+1, i+end)); !ok {
				m.fail(ErrRuntime, "%%: no value for %q", s[i+1:i+end])
			}
			i += end + 1
		}
		sp := spec{align: '>', fill: lit(" "), prec: -1}
	flags:
		for ; i < len(s); i++ {
			switch s[i] {
			case '-':
				sp.align = '<'
			case '0':
				sp.zero = true
			case '+', ' ':
				sp.sign = s[i]
			case '#':
				sp.alt = true
			default:
				break flags
			}
		}
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			sp.width = min(sp.width*10+int(s[i]-'0'), maxWidth)
		}
		if i < len(s) && s[i] == '.' {
			sp.prec = 0
			for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
				sp.prec = min(sp.prec*10+int(s[i]-'0'), maxWidth)
			}
		}
		if i >= len(s) {
			m.fail(ErrRuntime, "%%: an incomplete format")
		}
		c := s[i]
		i++
		if c == '%' {
			b.lit("%")
			continue
		}
		if x == nil {
			x = take()
		}
		if sp.align == '>' && sp.zero {
			sp.align, sp.fill = '=', lit("0")
		}
		switch c {
		case 's', 'r':
			t := m.text(x)
			if c == 'r' {
				r := m.builder()
				m.repr(r, x, 0)
				t = r.done()
			}
			t = m.joins(t, f)
			if sp.align == '=' {
				sp.fill = lit(" ") // zeros are for numbers
			}
			if at := m.places(t); sp.prec >= 0 && sp.prec < at.n {
				t = t.slice(0, at.of(sp.prec))
			}
			b.text(m.justify(t, 0, &sp))
		case 'd', 'i', 'u', 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
			if c == 'i' || c == 'u' {
				c = 'd'
			}
			if _, f, isInt, ok := number(x); ok && c == 'd' && !isInt {
				x = m.whole(f)
			}
			sp.verb = c
			b.text(m.formatNumber(x, &sp))
		default:
			m.fail(ErrUnsupported, "%%: the conversion %q", c)
		}
	}
	if !whole && used < len(values) {
		m.fail(ErrRuntime, "%%: more values than the format has places")
	}
	return b.like(f)
}

// maxWidth bounds widths and precisions in formats.
const maxWidth = 1000

// spec is a format specification: [[fill]align][sign][#][0][width][,][.precision][type].
type spec struct {
	fill        Text
	align, sign byte
	alt, zero   bool
	comma       byte
	width, prec int // prec is -1 where there is none
	verb        byte
}

// justify pads t; sign is how many bytes a sign and base prefix take.
func (m *machine) justify(t Text, sign int, sp *spec) Text {
	n := sp.width - m.length(t)
	if n <= 0 {
		return t
	}
	left := 0
	switch sp.align {
	case '>', '=':
		left = n
	case '^':
		left = n / 2
	}
	b := m.builder()
	if sp.align != '=' {
		sign = 0
	}
	b.text(t.slice(0, sign))
	b.text(m.repeat(sp.fill, int64(left)).(Text))
	b.text(t.slice(sign, len(t.s)))
	b.text(m.repeat(sp.fill, int64(n-left)).(Text))
	return b.done()
}

func (m *machine) formatNumber(v Value, sp *spec) Text {
	i, f, isInt, ok := number(v)
	if !ok {
		m.fail(ErrRuntime, "a format needs a number, not %s", typeName(v))
	}
	if isInt && sp.prec >= 0 && strings.IndexByte("dxXob", sp.verb) >= 0 {
		m.fail(ErrUnsupported, "a format with a precision for an integer")
	}
	m.step(1 + max(0, sp.prec)/stepChars)
	var s string
	negative := false
	prec := sp.prec
	switch sp.verb {
	case 'd', 'x', 'X', 'o', 'b':
		if !isInt {
			m.fail(ErrRuntime, "a format needs an integer, not %s", typeName(v))
		}
		base := map[byte]int{'d': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[sp.verb]
		s = strconv.FormatInt(i, base)
		s, negative = strings.CutPrefix(s, "-")
		if sp.verb == 'X' {
			s = strings.ToUpper(s)
		}
	default:
		verb := sp.verb
		switch {
		case verb == '%':
			f, verb = f*100, 'f'
		case verb == 'F':
			verb = 'f'
		case verb == 0:
			s = formatFloat(f)
		}
		if prec < 0 && verb != 0 {
			prec = 6
		}
		if verb != 0 {
			s = formatPrec(f, verb, prec)
		} else if prec >= 0 {
			m.fail(ErrUnsupported, "a format with a precision but no type")
		}
		s, negative = strings.CutPrefix(s, "-")
		if sp.verb == '%' {
			s += "%"
		}
	}
	if sp.comma != 0 {
		whole, rest := s, ""
		if k := strings.IndexAny(s, ".e%"); k >= 0 {
			whole, rest = s[:k], s[k:]
		}
		var g strings.Builder
		for k, c := range whole {
			if k > 0 && (len(whole)-k)%3 == 0 {
				g.WriteByte(sp.comma)
			}
			g.WriteRune(c)
		}
		s = g.String() + rest
	}
	prefix := ""
	switch {
	case negative:
		prefix = "-"
	case sp.sign == '+' || sp.sign == ' ':
		prefix = string(sp.sign)
	}
	if sp.alt && strings.IndexByte("xXob", sp.verb) >= 0 && sp.verb != 0 {
		prefix += "0" + string(sp.verb)
	}
	return m.justify(lit(prefix+s), len(prefix), sp)
}

func formatPrec(f float64, verb byte, prec int) string {
	if math.IsInf(f, 0) || f != f {
		return formatFloat(f)
	}
	return fmt.Sprintf("%."+strconv.Itoa(prec)+string(verb), f)
}

// format is Python's str.format.
func (m *machine) format(f Text, a args) Value {
	b := m.builder()
	s := f.s
	auto := 0
	numbered := false
	for i := 0; i < len(s); {
		k := strings.IndexAny(s[i:], "{}")
		if k < 0 {
			b.text(f.slice(i, len(s)))
			break
		}
		b.text(f.slice(i, i+k))
		i += k
		if i+1 < len(s) && s[i+1] == s[i] {
			b.text(f.slice(i, i+1))
			i += 2
			continue
		}
		if s[i] == '}' {
			m.fail(ErrRuntime, "format: a single }")
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			m.fail(ErrRuntime, "format: { without }")
		}
		field := s[i+1 : i+end]
		if strings.Contains(field, "{") {
			m.fail(ErrUnsupported, "format: a field within a field")
		}
		at := i + 1
		i += end + 1
		name, how, _ := strings.Cut(field, ":")
		specAt := at + len(field) - len(how)
		name, conversion, _ := strings.Cut(name, "!")
		numbered = numbered || name != "" && strings.Trim(name, "0123456789") == "" // not 0[a], as in Python's Formatter
		v := m.field(name, a, &auto)
		if numbered && auto > 0 {
			m.fail(ErrRuntime, "format: fields with and without numbers")
		}
		switch conversion {
		case "":
		case "s":
			t := m.text(v)
			t.safe = false
			v = t
		case "r":
			r := m.builder()
			m.repr(r, v, 0)
			v = r.done()
		default:
			m.fail(ErrUnsupported, "format: the conversion !%s", conversion)
		}
		if t, ok := v.(Text); ok && t.safe && f.safe && how != "" {
			m.fail(ErrRuntime, "format: %q is not for safe text", how)
		}
		t := m.formatSpec(v, f.slice(specAt, specAt+len(how)))
		b.text(m.joins(t, f))
		m.step(1)
	}
	return b.like(f)
}

// field finds the value of a replacement field: name or index, then .name and [key].
func (m *machine) field(name string, a args, auto *int) Value {
	k := strings.IndexAny(name, ".[")
	if k < 0 {
		k = len(name)
	}
	first, rest := name[:k], name[k:]
	var v Value
	if first == "" {
		first = strconv.Itoa(*auto)
		*auto++
	}
	if n, err := strconv.Atoi(first); err == nil {
		if n < 0 || n >= len(a.pos) {
			m.fail(ErrRuntime, "format: no argument %d", n)
		}
		v = a.pos[n]
	} else {
		m.step(len(a.names))
		for i, n := range a.names {
			if n == first {
				v = a.values[i]
			}
		}
		if v == nil {
			m.fail(ErrRuntime, "format: no argument %q", first)
		}
	}
	for rest != "" {
		m.step(1)
		if rest[0] == '[' {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				m.fail(ErrRuntime, "format: [ without ]")
			}
			if n, err := strconv.ParseInt(rest[1:end], 10, 64); err == nil {
				v = m.item(v, n)
			} else {
				v = m.item(v, m.lit(rest[1:end]))
			}
			rest = rest[end+1:]
			continue
		}
		rest = rest[1:]
		k := strings.IndexAny(rest, ".[")
		if k < 0 {
			k = len(rest)
		}
		v = m.attr(v, rest[:k])
		rest = rest[k:]
	}
	return v
}

func (m *machine) formatSpec(v Value, how Text) Text {
	if how.s == "" {
		return m.text(v)
	}
	sp := spec{fill: lit(" "), prec: -1}
	at := m.places(how)
	i := 0
	isAlign := func(k int) bool {
		return k < len(how.s) && strings.IndexByte("<>=^", how.s[k]) >= 0
	}
	switch {
	case at.n > 0 && isAlign(at.of(1)):
		sp.fill, sp.align, i = how.slice(0, at.of(1)), how.s[at.of(1)], at.of(1)+1
	case isAlign(0):
		sp.align, i = how.s[0], 1
	}
	s := how.s
	if i < len(s) && strings.IndexByte("+- ", s[i]) >= 0 {
		sp.sign = s[i]
		i++
	}
	if i < len(s) && s[i] == '#' {
		sp.alt = true
		i++
	}
	if i < len(s) && s[i] == '0' {
		sp.zero = true
		i++
	}
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		sp.width = min(sp.width*10+int(s[i]-'0'), maxWidth)
	}
	if i < len(s) && (s[i] == ',' || s[i] == '_') {
		sp.comma = s[i]
		i++
	}
	if i < len(s) && s[i] == '.' {
		sp.prec = 0
		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			sp.prec = min(sp.prec*10+int(s[i]-'0'), maxWidth)
		}
	}
	if i < len(s) {
		sp.verb = s[i]
		i++
	}
	if i < len(s) || sp.verb != 0 && strings.IndexByte("sdxXobeEfFgG%", sp.verb) < 0 {
		m.fail(ErrUnsupported, "format: the specification %q", s)
	}
	if _, _, isInt, ok := number(v); ok {
		if sp.align == 0 {
			if sp.align = '>'; sp.zero {
				sp.align = '='
			}
		}
		if sp.zero && sp.fill.s == " " {
			sp.fill = lit("0")
		}
		if isInt && sp.verb == 0 {
			sp.verb = 'd'
		}
		if sp.verb == 's' {
			m.fail(ErrRuntime, "format: %q needs a text, not %s", s, typeName(v))
		}
		return m.formatNumber(v, &sp)
	}
	if sp.verb != 0 && sp.verb != 's' {
		m.fail(ErrRuntime, "format: %q needs a number, not %s", s, typeName(v))
	}
	if sp.sign != 0 || sp.alt || sp.zero || sp.comma != 0 || sp.align == '=' {
		m.fail(ErrRuntime, "format: %q is for numbers", s)
	}
	t := m.str("format", m.defined(v))
	if at := m.places(t); sp.prec >= 0 && sp.prec < at.n {
		t = t.slice(0, at.of(sp.prec))
	}
	return m.justify(t, 0, &sp)
}
