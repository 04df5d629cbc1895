package jinja

import (
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
	safe bool   // marked by the filters safe and escape: + escapes what is joined to it
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
func (t Text) length() int { return utf8.RuneCountInString(t.s) }

// runes returns the code points as texts of their own.
func (t Text) runes() []Value {
	out := make([]Value, 0, len(t.s))
	for i := 0; i < len(t.s); {
		_, n := utf8.DecodeRuneInString(t.s[i:])
		out = append(out, t.slice(i, i+n))
		i += n
	}
	return out
}

// offsets returns where each code point begins, and the length at the end.
func (t Text) offsets() []int {
	out := make([]int, 0, len(t.s)+1)
	for i := range t.s {
		out = append(out, i)
	}
	return append(out, len(t.s))
}

// builder concatenates texts.
type builder struct {
	s, o []byte
}

func (b *builder) text(t Text) {
	b.s = append(b.s, t.s...)
	b.o = append(b.o, t.o...)
}

func (b *builder) lit(s string) { b.from(s, 0) }

func (b *builder) from(s string, o Origin) {
	b.s = append(b.s, s...)
	for range len(s) {
		b.o = append(b.o, byte(o))
	}
}

func (b *builder) rune(r rune, o Origin) {
	n := len(b.s)
	b.s = utf8.AppendRune(b.s, r)
	for range len(b.s) - n {
		b.o = append(b.o, byte(o))
	}
}

func (b *builder) done() Text { return Text{s: string(b.s), o: string(b.o)} }

// mapRunes replaces each code point by f's; bytes that are part of none stay.
func (t Text) mapRunes(f func(i int, r rune) string) Text {
	var b builder
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		if r == utf8.RuneError && n == 1 {
			b.text(t.slice(i, i+1))
		} else {
			b.from(f(i, r), t.slice(i, i+n).worst())
		}
		i += n
	}
	out := b.done()
	out.safe = t.safe
	return out
}
