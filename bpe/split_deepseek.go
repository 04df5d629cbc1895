package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitDeepSeekCoder:
//
//	[\r\n]
//	\s?\p{L}+
//	\s?\p{P}+
//	[一-龥ࠀ-一가-퟿]+
//	\p{N}
func splitDeepSeekCoder(s *scratch, text string, i int) int {
	if i >= s.split.end {
		s.split.end = s.deepSeekCoderWord(text, i)
	}
	text = text[:s.split.end]
	if c, n := classAt(text, i); c&number != 0 {
		return i + n
	}
	first, _ := utf8.DecodeRuneInString(text[i:])
	asian := deepSeekCoderAsian(first)
	return s.skipFunc(text, i, func(r rune) bool { return deepSeekCoderAsian(r) == asian && classOf(r)&number == 0 })
}

func deepSeekCoderAsian(r rune) bool { return r >= 0x0800 && r <= 0x9FA5 || r >= 0xAC00 && r <= 0xD7FF }

// deepSeekCoderWord returns the end of the word that the first three expressions
// leave at text[i].
func (s *scratch) deepSeekCoderWord(text string, i int) int {
	// word says whether the second or third expression matches at i: with which class
	// of characters, and where their run begins.
	word := func(i int) (classes, int) {
		c, n := classAt(text, i)
		if c == space && !lineBreak(text[i]) && i+n < len(text) {
			i += n
			c, _ = classAt(text, i)
		}
		switch {
		case c&letter != 0:
			return letter, i
		case c == punct:
			return punct, i
		}
		return 0, i
	}
	if lineBreak(text[i]) {
		return i + 1
	}
	if set, run := word(i); set != 0 {
		return s.skip(text, run, set)
	}
	start := i
	for i < len(text) {
		if set, _ := word(i); set != 0 || lineBreak(text[i]) {
			break
		}
		_, n := classAt(text, i)
		i += n
	}
	s.read += i - start + 1
	return i
}

// deepSeekV3 is the rule of DeepSeek V3 and its variants. With numbers N, East Asian characters A, tail T and line
// breaks B:
//
//	N
//	[A]+
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+T|
//	    B|\s+(?!\S)|\s+
//
//	deepseek-v3  N = \p{N}{1,3}                     A = 一-龥぀-ゟ゠-ヿ  T = [\r\n]*  B = \s*[\r\n]+
//	spark2_5     N = \p{N}{1,3}, and \p{N} at last  A = 一-龥぀-ゟ゠-ヿ  no T         B = [\r\n]
//	afmoe        \p{N}+ in threes from the right    A: afmoeAsian     T = [\r\n]*  B = \s*[\r\n]+
type deepSeekV3 struct {
	asian      func(rune) bool
	digits     int  // of a number
	fromRight  bool // numbers are counted from the right
	loneBreaks bool // no T, and single line breaks
}

func (d deepSeekV3) next(s *scratch, text string, i int) int {
	if isAt(text, i, number) {
		return d.number(s, text, i)
	}
	if i >= s.split.end {
		if s.split.end = s.skipFunc(text, i, d.asian); s.split.end == i {
			s.split.end = s.skipFunc(text, i, func(r rune) bool { return classOf(r)&number == 0 && !d.asian(r) })
		}
	}
	text = text[:s.split.end]
	if end := d.word(s, text, i); end > i {
		return end
	}
	// Nothing matches: a word of control and format characters.
	start := i
	for i < len(text) {
		c, n := classAt(text, i)
		if c != other || isAt(text, i+n, letter|mark) {
			break
		}
		i += n
	}
	s.read += i - start + 1
	return i
}

// number returns the end of the group of numbers at text[i], or of its part that is in A or
// is not. The group ends at s.split.groups, a run that is counted from the right at s.split.inner.
func (d deepSeekV3) number(s *scratch, text string, i int) int {
	if i >= s.split.groups {
		digits := d.digits
		if d.fromRight && i >= s.split.inner {
			s.split.inner = s.skip(text, i, number)
			digits = (utf8.RuneCountInString(text[i:s.split.inner])-1)%d.digits + 1
		}
		s.split.groups = s.numbers(text, i, digits)
	}
	first, _ := utf8.DecodeRuneInString(text[i:])
	asian := d.asian(first)
	return s.skipFunc(text[:s.split.groups], i, func(r rune) bool { return d.asian(r) == asian })
}

func deepSeekV3Asian(r rune) bool { return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF }

// afmoeAsian are scripts that are written without spaces:
//
//	[一-鿿㐀-䶿\uF900-\uFAFF぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+
//
// (The reference engine's source has U+8C48, the canonical equivalent of U+F900, in its place.)
func afmoeAsian(r rune) bool {
	return r >= 0x0e40 && (r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7af || r >= 0x3040 && r <= 0x30ff ||
		r >= 0x3400 && r <= 0x4dbf || r >= 0xf900 && r <= 0xfaff || r >= 0xff65 && r <= 0xff9f ||
		r >= 0x2f00 && r <= 0x2fdf || r <= 0x0eff || r >= 0x1780 && r <= 0x17ff || r >= 0x1000 && r <= 0x109f ||
		r >= 0xaa60 && r <= 0xaa7f || r >= 0xa9e0 && r <= 0xa9ff || r >= 0x1100 && r <= 0x11ff)
}

// word returns the end of what the third expression matches at text[i], or i.
func (d deepSeekV3) word(s *scratch, text string, i int) int {
	const letters, symbols = letter | mark, punct | sign
	c, n := classAt(text, i)
	switch {
	case text[i] < utf8.RuneSelf && c&symbols != 0 && asciiLetterAt(text, i+1):
		end := i + 1
		for asciiLetterAt(text, end) {
			end++
		}
		s.read += end - i
		return end
	case c&letters != 0:
		return s.skip(text, i, letters)
	case c&symbols == 0 && !lineBreak(text[i]) && isAt(text, i+n, letters):
		return s.skip(text, i+n, letters)
	case c&symbols != 0, text[i] == ' ' && isAt(text, i+1, symbols):
		end := s.skip(text, i+n, symbols)
		for !d.loneBreaks && end < len(text) && lineBreak(text[end]) {
			end++
		}
		return end
	case d.loneBreaks && lineBreak(text[i]):
		return i + 1
	case d.loneBreaks && c == space:
		return s.whiteSpace(text, i)
	case c == space:
		return s.whiteSpaceLines(text, i)
	}
	return i
}

func asciiLetterAt(text string, i int) bool {
	return i < len(text) && (text[i]|0x20) >= 'a' && (text[i]|0x20) <= 'z'
}

// splitDeepSeekLLM:
//
//	[\r\n]
//	\s?[letters]+
//	\s?[!-/:-~！-／：-～‘-‟　-。]+
//	\s+$
//	[一-龥ࠀ-一가-퟿]+
//	\p{N}+
//
// The third expression has ASCII's letters too, and cuts words where other letters stand.
func splitDeepSeekLLM(s *scratch, text string, i int) int {
	if i >= s.split.end {
		s.split.end = s.spacedRun(text, i, func(r rune) bool { return unicode.Is(deepSeekLLMLetters, r) }, true)
	}
	text = text[:s.split.end]
	if i >= s.split.inner {
		s.split.inner = s.spacedRun(text, i, deepSeekLLMSymbol, false)
		spaces := func(r rune) bool { return classOf(r) == space }
		s.split.groups = i + len(strings.TrimRightFunc(text[i:s.split.inner], spaces))
	}
	end := s.split.inner
	if i < s.split.groups {
		end = s.split.groups
	}
	first, _ := utf8.DecodeRuneInString(text[i:])
	asian, digits := deepSeekCoderAsian(first), classOf(first)&number != 0
	return s.skipFunc(text[:end], i, func(r rune) bool {
		return deepSeekCoderAsian(r) == asian && (classOf(r)&number != 0) == digits
	})
}

// spacedRun is \s?[in]+ at text[i], or what stands before the next match. With breaks, a
// line break is a word of its own, and no match has one.
func (s *scratch) spacedRun(text string, i int, in func(rune) bool, breaks bool) int {
	run := func(i int) int { // where [in]+ of a match at i begins, -1 if there is none
		r, n := utf8.DecodeRuneInString(text[i:])
		if in(r) {
			return i
		}
		if classOf(r) == space && i+n < len(text) && !(breaks && lineBreak(text[i])) {
			if r, _ := utf8.DecodeRuneInString(text[i+n:]); in(r) {
				return i + n
			}
		}
		return -1
	}
	if breaks && lineBreak(text[i]) {
		return i + 1
	}
	if at := run(i); at >= 0 {
		return s.skipFunc(text, at, in)
	}
	start := i
	for i < len(text) && run(i) < 0 && !(breaks && lineBreak(text[i])) {
		_, n := classAt(text, i)
		i += n
	}
	s.read += i - start + 1
	return i
}

func deepSeekLLMSymbol(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '~' || r >= 0xff01 && r <= 0xff0f || r >= 0xff1a && r <= 0xff5e ||
		r >= 0x2018 && r <= 0x201f || r >= 0x3000 && r <= 0x3002
}

// deepSeekLLMLetters are the letters of scripts with case, as the published expression
// lists them.
var deepSeekLLMLetters = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x41, 0x5a, 1}, {0x61, 0x7a, 1}, {0xb5, 0xb5, 1}, {0xc0, 0xd6, 1}, {0xd8, 0xf6, 1}, {0xf8, 0x1ba, 1},
		{0x1bc, 0x1bf, 1}, {0x1c4, 0x293, 1}, {0x295, 0x2af, 1}, {0x370, 0x373, 1}, {0x376, 0x376, 1},
		{0x377, 0x377, 1}, {0x37b, 0x37d, 1}, {0x37f, 0x37f, 1}, {0x386, 0x386, 1}, {0x388, 0x38a, 1},
		{0x38c, 0x38c, 1}, {0x38e, 0x3a1, 1}, {0x3a3, 0x3f5, 1}, {0x3f7, 0x481, 1}, {0x48a, 0x52f, 1},
		{0x531, 0x556, 1}, {0x10a0, 0x10c5, 1}, {0x13a0, 0x13f5, 1}, {0x13f8, 0x13fd, 1}, {0x1c90, 0x1cba, 1},
		{0x1cbd, 0x1cbf, 1}, {0x1d00, 0x1d2b, 1}, {0x1d6b, 0x1d77, 1}, {0x1d79, 0x1d9a, 1}, {0x1e00, 0x1f15, 1},
		{0x1f18, 0x1f1d, 1}, {0x1f20, 0x1f45, 1}, {0x1f48, 0x1f4d, 1}, {0x1f50, 0x1f57, 1}, {0x1f59, 0x1f59, 1},
		{0x1f5b, 0x1f5b, 1}, {0x1f5d, 0x1f5d, 1}, {0x1f5f, 0x1f7d, 1}, {0x1f80, 0x1fb4, 1}, {0x1fb6, 0x1fbc, 1},
		{0x1fbe, 0x1fbe, 1}, {0x1fc2, 0x1fc4, 1}, {0x1fc6, 0x1fcc, 1}, {0x1fd0, 0x1fd3, 1}, {0x1fd6, 0x1fdb, 1},
		{0x1fe0, 0x1fec, 1}, {0x1ff2, 0x1ff4, 1}, {0x1ff6, 0x1ffc, 1}, {0x2102, 0x2102, 1}, {0x2107, 0x2107, 1},
		{0x210a, 0x2113, 1}, {0x2115, 0x2115, 1}, {0x2119, 0x211d, 1}, {0x2124, 0x2124, 1}, {0x2126, 0x2126, 1},
		{0x2128, 0x2128, 1}, {0x212a, 0x212d, 1}, {0x212f, 0x2134, 1}, {0x2139, 0x2139, 1}, {0x213c, 0x213f, 1},
		{0x2145, 0x2149, 1}, {0x214e, 0x214e, 1}, {0x2183, 0x2183, 1}, {0x2184, 0x2184, 1}, {0x2c00, 0x2c7b, 1},
		{0x2c7e, 0x2ce4, 1}, {0x2ceb, 0x2cee, 1}, {0x2cf2, 0x2cf2, 1}, {0x2cf3, 0x2cf3, 1}, {0xa640, 0xa66d, 1},
		{0xa680, 0xa69b, 1}, {0xa722, 0xa76f, 1}, {0xa771, 0xa787, 1}, {0xa78b, 0xa78e, 1}, {0xab70, 0xabbf, 1},
		{0xfb00, 0xfb06, 1}, {0xfb13, 0xfb17, 1}, {0xff21, 0xff3a, 1}, {0xff41, 0xff5a, 1},
	},
	R32: []unicode.Range32{
		{0x10400, 0x1044f, 1}, {0x104b0, 0x104d3, 1}, {0x104d8, 0x104fb, 1}, {0x10c80, 0x10cb2, 1},
		{0x10cc0, 0x10cf2, 1}, {0x118a0, 0x118df, 1}, {0x1e900, 0x1e943, 1},
	},
	LatinOffset: 5,
}
