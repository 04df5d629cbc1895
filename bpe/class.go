package bpe

import (
	"unicode"
	"unicode/utf8"
)

// classes is a set of character classes. Every character is in exactly one class,
// so the class of a character is a set with one bit.
type classes uint16

const (
	other    classes = 1 << iota // control and format characters, unassigned
	upper                        // \p{Lu}, \p{Lt}
	lower                        // \p{Ll}
	caseless                     // \p{Lm}, \p{Lo}
	mark                         // \p{M}
	digit                        // \p{Nd}
	numeral                      // \p{Nl}, \p{No}
	space                        // \s: the property White_Space
	punct                        // \p{P}
	sign                         // \p{S}

	letter   = upper | lower | caseless           // \p{L}
	number   = digit | numeral                    // \p{N}
	symbolic = other | mark | punct | sign        // [^\s\p{L}\p{N}]
	anything = letter | number | symbolic | space // every character
)

// classTables are the general categories of Unicode in terms of the classes. The
// version is that of Go's unicode package; newer characters are unassigned.
var classTables = [...]struct {
	class classes
	table *unicode.RangeTable
}{
	{upper, unicode.Lu}, {upper, unicode.Lt}, {lower, unicode.Ll}, {caseless, unicode.Lm}, {caseless, unicode.Lo},
	{mark, unicode.M}, {digit, unicode.Nd}, {numeral, unicode.Nl}, {numeral, unicode.No},
	{punct, unicode.P}, {sign, unicode.S}, {space, unicode.White_Space},
}

// basicPlane holds the class of each character below U+10000. It is filled from the
// tables of ranges, which takes a tenth of a millisecond when a program starts.
var basicPlane = func() *[1 << 16]classes {
	t := new([1 << 16]classes)
	for i := range t {
		t[i] = other
	}
	for _, c := range classTables {
		for _, r := range c.table.R16 {
			for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
				t[x] = c.class
			}
		}
	}
	return t
}()

var asciiClass = [utf8.RuneSelf]classes(basicPlane[:utf8.RuneSelf])

func classOf(r rune) classes {
	if int(r) < len(basicPlane) {
		return basicPlane[r]
	}
	for _, c := range classTables {
		if unicode.Is(c.table, r) {
			return c.class
		}
	}
	return other
}

// classAt returns the class and length of the character at text[i]. A byte that is
// part of no character has the class of U+FFFD, which is sign.
func classAt(text string, i int) (classes, int) {
	if c := text[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	return wideClassAt(text[i:])
}

func wideClassAt(text string) (classes, int) {
	r, n := utf8.DecodeRuneInString(text)
	return classOf(r), n
}

// isAt says whether text goes on at i with a character of one of the classes.
func isAt(text string, i int, set classes) bool {
	if i >= len(text) {
		return false
	}
	c, _ := classAt(text, i)
	return c&set != 0
}

// skip returns the end of the run of characters of the set at text[i].
func (s *scratch) skip(text string, i int, set classes) int {
	start := i
	for i < len(text) {
		c, n := classAt(text, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	s.read += i - start + 1
	return i
}

// skipFunc is skip for characters that a function accepts.
func (s *scratch) skipFunc(text string, i int, accept func(rune) bool) int {
	start := i
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !accept(r) {
			break
		}
		i += n
	}
	s.read += i - start + 1
	return i
}
