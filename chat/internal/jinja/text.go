package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Origin says who wrote a byte. Zero is the template. Where one byte is made of
// several, the largest of their origins counts, so callers number from trusted
// to untrusted.
type Origin uint8

// Text is a string that knows the origin of each of its bytes. The zero value
// is the empty text.
type Text struct {
	s    string
	o    string // the origin of each byte of s; as long as s
	safe bool   // marked by the filters safe and escape (Python's Markup): what is put into it is escaped
}

// zeros is what the origins of short template texts share.
var zeros = strings.Repeat("\x00", 4096)

// NewText returns s with every byte of one origin.
func NewText(s string, o Origin) Text {
	if o == 0 && len(s) <= len(zeros) {
		return Text{s: s, o: zeros[:len(s)]}
	}
	return Text{s: s, o: strings.Repeat(string([]byte{byte(o)}), len(s))}
}

func lit(s string) Text { return NewText(s, 0) }

// lit is lit of a string that may be long.
func (m *machine) lit(s string) Text {
	m.spend(len(s))
	return lit(s)
}

// String returns the text without its origins.
func (t Text) String() string { return t.s }

// Origins returns the origin of each byte.
func (t Text) Origins() []Origin {
	out := make([]Origin, len(t.o))
	for i := range len(t.o) {
		out[i] = Origin(t.o[i])
	}
	return out
}

// slice returns bytes [i, j).
func (t Text) slice(i, j int) Text { return Text{s: t.s[i:j], o: t.o[i:j], safe: t.safe} }

// worst returns the largest origin in t.
func (t Text) worst() Origin {
	var w Origin
	for i := range len(t.o) {
		w = max(w, Origin(t.o[i]))
	}
	return w
}

// length counts code points; a byte that is part of none counts as one.
func (m *machine) length(t Text) int {
	m.read(len(t.s))
	return utf8.RuneCountInString(t.s)
}

// runes returns the code points as texts of their own.
func (m *machine) runes(t Text) []Value {
	m.chars(len(t.s))
	n := utf8.RuneCountInString(t.s)
	m.spend(n * textBytes)
	out := make([]Value, 0, n)
	for i := 0; i < len(t.s); {
		_, n := utf8.DecodeRuneInString(t.s[i:])
		out = append(out, Text{s: t.s[i : i+n], o: t.o[i : i+n]})
		i += n
	}
	return out
}

// places says where the code points of a text begin.
type places struct {
	n  int   // code points
	at []int // and the length of the text at the end; nil: each is a byte
}

func (m *machine) places(t Text) places {
	p := places{n: m.length(t)}
	if p.n == len(t.s) {
		return p
	}
	m.chars(len(t.s))
	m.spend(8 * (p.n + 1))
	p.at = make([]int, 0, p.n+1)
	for i := range t.s {
		p.at = append(p.at, i)
	}
	p.at = append(p.at, len(t.s))
	return p
}

// of is the byte at which code point i begins.
func (p places) of(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

// index is the code point that begins at a byte.
func (p places) index(at int) int {
	if p.at == nil {
		return at
	}
	i, _ := slices.BinarySearch(p.at, at)
	return i
}

// builder concatenates texts. Every byte is counted before it is there.
type builder struct {
	m    *machine
	s, o strings.Builder
	most int // bytes of text, where it is the template's output; 0: none of its own
}

func (m *machine) builder() *builder { return &builder{m: m} }

// add counts n bytes.
func (b *builder) add(n int) {
	if b.most > 0 && n > b.most-b.s.Len() {
		b.m.fail(ErrLimit, "more than %d bytes of output", b.most)
	}
	b.m.spend(n)
}

func (b *builder) text(t Text) {
	b.add(len(t.s))
	b.s.WriteString(t.s)
	b.o.WriteString(t.o)
}

func (b *builder) lit(s string) { b.from(s, 0) }

func (b *builder) from(s string, o Origin) {
	b.add(len(s))
	b.s.WriteString(s)
	for range len(s) {
		b.o.WriteByte(byte(o))
	}
}

func (b *builder) done() Text { return Text{s: b.s.String(), o: b.o.String()} }

// like is done of a text that is as safe as t.
func (b *builder) like(t Text) Text {
	out := b.done()
	out.safe = t.safe
	return out
}

// joins is t as it becomes a part of another text: a safe one escapes it.
func (m *machine) joins(t, into Text) Text {
	if into.safe && !t.safe {
		return m.escape(t)
	}
	return t
}

// mapRunes replaces each code point by f's; bytes that are part of none stay.
func (m *machine) mapRunes(t Text, f func(i int, r rune) string) Text {
	m.chars(len(t.s))
	b := m.builder()
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		if r == utf8.RuneError && n == 1 {
			b.text(t.slice(i, i+1))
		} else {
			b.from(f(i, r), t.slice(i, i+n).worst())
		}
		i += n
	}
	return b.like(t)
}
