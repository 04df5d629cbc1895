package grammar

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// string is the strings of a branch.
func (s *schema) string(b *branch, at *place) expression {
	x := s.characters(b)
	switch r, isRepeat := x.(repeat); {
	case s.End != "":
		return s.unquoted(x)
	case x == nil:
		return s.anyString()
	case s.Quote != "" && !strings.HasPrefix(s.Quote, controlMark):
		if len(b.texts) > 0 {
			return s.fail(at, "pattern and format are not supported between quotes that are text")
		}
		return s.quoted(b.least, b.most, at)
	case isRepeat && len(b.texts) == 0 && s.Quote == "" && max(r.least, r.most) <= maxCharacters:
		return sequence{literal(`"`), repeat{s.character(), r.least, r.most}, literal(`"`)}
	}
	return s.quote(x)
}

// unquoted is a string as it is, up to the notation's end.
func (s *schema) unquoted(x expression) expression {
	all, ok := x.(both)
	if !ok && x != nil {
		all = both{x}
	}
	all = slices.Clip(all)
	for _, text := range [...]string{s.End, s.Avoid} {
		if text != "" {
			all = append(all, complement{sequence{repeat{anyRune, 0, -1}, literal(text), repeat{anyRune, 0, -1}}})
		}
	}
	return sequence{lazy{all, true}, literal(s.End)}
}

// characters are the strings of a branch without their quotes; nil: any.
func (s *schema) characters(b *branch) expression {
	all := slices.Clip(both(b.texts))
	if b.least > 0 || b.most >= 0 {
		all = append(all, repeat{anyRune, b.least, b.most})
	}
	var excluded choice
	for _, v := range b.excluded {
		if text, ok := v.(string); ok && s.take(nodeBytes+len(text)) {
			excluded = append(excluded, literal(text))
		}
	}
	if len(excluded) > 0 {
		all = append(all, complement{excluded})
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// quote is a string of x, as the notation writes it.
func (s *schema) quote(x expression) expression {
	raw := s.Quote != ""
	quote := literal(`"`)
	if raw {
		quote = literal(s.Quote)
	}
	if list, ok := x.(both); ok && len(list) == 1 {
		x = list[0]
	}
	switch {
	case s.hasSets(x), s.writtenOut(x) > maxWrittenOut:
		x = lazy{x, raw}
	case !raw:
		x = s.escaped(x)
	}
	return sequence{quote, x, quote}
}

// From these sizes on a string is made state by state, as a text goes on.
const (
	maxWrittenOut = 4096 // instructions
	maxCharacters = 1024 // of a string of which only its length counts
)

// writtenOut is about how many instructions x takes inside of a JSON string, at most twice maxWrittenOut. Beyond ASCII
// a class has the bytes of its characters and their escapes.
func (b *Budget) writtenOut(x expression) int {
	n := 0
	if !b.spend(1) {
		return n
	}
	switch x := x.(type) {
	case literal:
		n = len(x)
	case class:
		for _, r := range x {
			if n++; r.hi >= utf8.RuneSelf {
				n += 60
			}
		}
	case sequence:
		for _, part := range x {
			n += b.writtenOut(part)
		}
	case choice:
		for _, part := range x {
			n += b.writtenOut(part)
		}
	case repeat:
		n = b.writtenOut(x.x) * min(max(1, x.least, x.most), maxWrittenOut)
	}
	return min(n, 2*maxWrittenOut)
}

// escaped is x inside of a JSON string.
func (s *schema) escaped(x expression) expression {
	list := func(parts []expression) []expression {
		all := make([]expression, len(parts))
		for i, p := range parts {
			all[i] = s.escaped(p)
		}
		return all
	}
	switch x := x.(type) {
	case literal:
		return literal(strings.TrimSuffix(quote(string(x))[1:], `"`))
	case class:
		return jsonClass(x)
	case sequence:
		return sequence(list(x))
	case choice:
		return choice(list(x))
	case repeat:
		return repeat{s.escaped(x.x), x.least, x.most}
	}
	return x
}

// jsonClass is one character of c inside a JSON string: as it is, or where it must be its shortest escape. Other
// characters than those of ASCII may be escaped too; one character alone is written in one way only.
func jsonClass(c class) expression {
	if slices.Equal(c, anyRune) {
		return choice{plain, escape}
	}
	direct := c.intersect(plain)
	if c.isOne() {
		if len(direct) > 0 {
			return direct
		}
		return literal(jsonCharacter(c[0].lo))
	}
	all := choice{}
	if len(direct) > 0 {
		all = append(all, direct)
	}
	var short []runeRange
	for _, r := range "\"\\\n\r\t\b\f" {
		if c.has(r) {
			letter := rune(jsonCharacter(r)[1])
			short = append(short, runeRange{letter, letter})
		}
	}
	escapes := choice{}
	if len(short) > 0 {
		escapes = append(escapes, newClass(short...))
	}
	if hex := hexOf(c); len(hex) > 0 {
		escapes = append(escapes, sequence{literal("u"), hex})
	}
	if len(escapes) > 0 {
		all = append(all, sequence{literal(`\`), escapes})
	}
	return all
}

// hexOf is the characters of c in hexadecimal digits, behind \u: those of ASCII only where they must be escaped.
func hexOf(c class) choice {
	var hex choice
	for _, r := range c {
		if r.lo < 0x20 {
			hex = append(hex, hexRange(r.lo, min(r.hi, 0x1F), 12)...)
		}
		if r.hi >= 0x80 && r.lo <= 0xFFFF {
			hex = append(hex, hexRange(max(r.lo, 0x80), min(r.hi, 0xFFFF), 12)...)
		}
		if r.hi > 0xFFFF {
			hex = append(hex, surrogates(max(r.lo, 0x10000)-0x10000, r.hi-0x10000)...)
		}
	}
	return hex
}

// nibbles is one hexadecimal digit from lo to hi, in either case.
func nibbles(lo, hi rune) class {
	var all []runeRange
	if lo < 10 {
		all = append(all, runeRange{'0' + lo, '0' + min(hi, 9)})
	}
	if hi >= 10 {
		lo = max(lo, 10) - 10
		all = append(all, runeRange{'a' + lo, 'a' + hi - 10}, runeRange{'A' + lo, 'A' + hi - 10})
	}
	return newClass(all...)
}

// hexRange is the numbers from lo to hi, in the hexadecimal digits from that of a shift on.
func hexRange(lo, hi rune, shift int) choice {
	first, last := lo>>shift, hi>>shift
	if shift == 0 {
		return choice{nibbles(first, last)}
	}
	mask := rune(1)<<shift - 1
	var all choice
	add := func(from, to rune, x expression) {
		if from <= to {
			all = append(all, sequence{nibbles(from, to), x})
		}
	}
	if first == last {
		add(first, first, hexRange(lo&mask, hi&mask, shift-4))
		return all
	}
	if lo&mask != 0 {
		add(first, first, hexRange(lo&mask, mask, shift-4))
		first++
	}
	if hi&mask != mask {
		add(last, last, hexRange(0, hi&mask, shift-4))
		last--
	}
	add(first, last, repeat{hexDigit, shift / 4, shift / 4})
	return all
}

// surrogates is the pairs of escapes for the characters from lo to hi above 0xFFFF, less 0x10000, behind the first u.
func surrogates(lo, hi rune) choice {
	pair := func(high1, high2, low1, low2 rune) expression {
		return sequence{hexRange(0xD800+high1, 0xD800+high2, 12), literal(`\u`), hexRange(0xDC00+low1, 0xDC00+low2, 12)}
	}
	const low = 0x3FF
	first, last := lo>>10, hi>>10
	if first == last {
		return choice{pair(first, first, lo&low, hi&low)}
	}
	all := choice{pair(first, first, lo&low, low), pair(last, last, 0, hi&low)}
	if first+1 < last {
		all = append(all, pair(first+1, last-1, 0, low))
	}
	return all
}

// anyPair is the escapes of any character above 0xFFFF.
var anyPair = surrogates(0, utf8.MaxRune-0x10000)
