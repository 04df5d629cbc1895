package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cased is the rule of OpenAI's o200k_base (gpt-4o) and of Mistral's Tekken: words
// begin where the case changes from lower to upper. With
//
//	U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]  L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
//	C = (?i:'s|'t|'re|'ve|'m|'ll|'d)     d = 3 (gpt-4o) or 1 (tekken, which has no C)
//
// it is
//
//	[^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,d}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// kimi-k2 is gpt-4o with [\r\n]* behind symbols, [\p{Han}]+ as its first alternative, and
// no Han characters in U and L.
type cased struct {
	digits       int
	contractions bool
	han          bool // kimi-k2
}

const (
	upperSet = upper | caseless | mark // U
	lowerSet = lower | caseless | mark // L
)

func (r cased) next(s *scratch, text string, i int) int {
	words := text // as far as a word may go
	if r.han {
		if end := s.skipFunc(text, i, isHan); end > i {
			return end
		}
		if i >= s.split.end {
			s.split.end = s.skipFunc(text, i, func(r rune) bool { return !isHan(r) })
		}
		words = text[:s.split.end]
	}
	c, n := classAt(text, i)
	if c&number != 0 {
		return s.numbers(text, i, r.digits)
	}
	if end := s.prefixedCasedWord(words, i, c, n); end >= 0 {
		if r.contractions {
			end += contraction(text, end, true)
		}
		return end
	}
	end := i
	if text[i] == ' ' && isAt(text, i+1, symbolic) {
		end = i + 1
	} else if c&symbolic == 0 {
		return s.whiteSpaceLines(text, i)
	}
	end = s.skip(text, end, symbolic)
	for end < len(text) && (lineBreak(text[end]) || text[end] == '/' && !r.han) {
		end++
	}
	return end
}

func isHan(r rune) bool { return r >= 0x2e80 && unicode.Is(unicode.Han, r) }

// prefixedCasedWord returns the end of the word at text[i], a character of class c
// and length n, or -1 if there is none. (A mark may stand in front of a word, but it
// may begin one too, and the words are the same.)
func (s *scratch) prefixedCasedWord(text string, i int, c classes, n int) int {
	switch {
	case c&(letter|mark) != 0:
		return s.casedWord(text, i)
	case lineBreak(text[i]):
		return -1
	}
	return s.casedWord(text, i+n)
}

// casedWord returns the end of U*L+ at text[i], or else of U+; -1 if there is
// neither. U* takes all that it can and gives back one character if L+ has no other:
// the last one that is in both.
func (s *scratch) casedWord(text string, i int) int {
	start, both := i, -1
	for i < len(text) {
		c, n := classAt(text, i)
		if c&upperSet == 0 {
			break
		}
		i += n
		if c&lowerSet != 0 {
			both = i
		}
	}
	s.read += i - start + 1
	switch end := s.skip(text, i, lowerSet); {
	case end > i:
		return end
	case both >= 0:
		return both
	case i > start:
		return i
	}
	return -1
}

// splitYoutu: runs of East Asian scripts and of East Asian punctuation, and the text between them; then gpt-4o's rule
// with single digits:
//
//	[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
func splitYoutu(s *scratch, text string, i int) int {
	if i >= s.split.end {
		first, _ := utf8.DecodeRuneInString(text[i:])
		kind := youtuKind(first)
		s.split.end = s.skipFunc(text, i, func(r rune) bool { return youtuKind(r) == kind })
	}
	return cased{digits: 1, contractions: true}.next(s, text[:s.split.end], i)
}

// youtuKind numbers the alternatives; 0 is none.
func youtuKind(r rune) int {
	switch {
	case r < 0x2014:
		return 0
	case r >= 0xac00 && r <= 0xd7a3, r >= 0x3131 && r <= 0x318e:
		return 1
	case r >= 0x3001 && r <= 0x303f, r >= 0xfe30 && r <= 0xfe4f, strings.ContainsRune("！…“”‘’—：；，", r):
		return 2
	case r >= 0x3105 && r <= 0x312f:
		return 3
	case r >= 0x4e00 && r <= 0x9fa5, r >= 0x3040 && r <= 0x30ff:
		return 4
	}
	return 0
}

// splitTinyAya: numbers that end a word, in groups of three from the right; then gpt-4o's rule:
//
//	\d{1,3}(?=(?:\d{3})*\b)
func splitTinyAya(s *scratch, text string, i int) int {
	if i >= s.split.end {
		if digits := s.tinyAyaSegment(text, i); digits > 0 {
			return s.numbers(text, i, (digits-1)%3+1)
		}
	}
	if s.split.groups == s.split.end {
		return s.numbers(text, i, 3)
	}
	return cased{digits: 3, contractions: true}.next(s, text[:s.split.end], i)
}

// tinyAyaSegment sets s.split.end to the end of the run of digits at text[i] that is cut into groups, and returns how
// many digits they are; else to where the next such run begins, and returns 0.
func (s *scratch) tinyAyaSegment(text string, i int) (digits int) {
	s.split.groups = -1
	for at := i; ; {
		first := s.skip(text, at, anything&^digit)
		at = s.skip(text, first, digit)
		if at < len(text) && wordCharacter(text[at:]) {
			continue // the other rule cuts these digits
		}
		if first > i || first == at {
			s.split.end = first
			return 0
		}
		s.split.end, s.split.groups = at, at
		return utf8.RuneCountInString(text[i:at])
	}
}

// wordCharacter says whether text begins with a character of \w: no \b stands between it and a digit.
func wordCharacter(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return classOf(r)&(letter|mark|digit) != 0 || unicode.In(r, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}
