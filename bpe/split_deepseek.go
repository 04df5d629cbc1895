package bpe

import "unicode/utf8"

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

// splitDeepSeekV3:
//
//	\p{N}{1,3}
//	[一-龥぀-ゟ゠-ヿ]+
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
//	    \s*[\r\n]+|\s+(?!\S)|\s+
func splitDeepSeekV3(s *scratch, text string, i int) int {
	if isAt(text, i, number) {
		return s.numbers(text, i, 3)
	}
	if i >= s.split.end {
		if s.split.end = s.skipFunc(text, i, deepSeekV3Asian); s.split.end == i {
			s.split.end = s.skipFunc(text, i, func(r rune) bool { return classOf(r)&number == 0 && !deepSeekV3Asian(r) })
		}
	}
	text = text[:s.split.end]
	if end := s.deepSeekV3Word(text, i); end > i {
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

func deepSeekV3Asian(r rune) bool { return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF }

// deepSeekV3Word returns the end of what the third expression matches at text[i], or i.
func (s *scratch) deepSeekV3Word(text string, i int) int {
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
		for end < len(text) && lineBreak(text[end]) {
			end++
		}
		return end
	case c == space:
		return s.whiteSpaceLines(text, i)
	}
	return i
}

func asciiLetterAt(text string, i int) bool {
	return i < len(text) && (text[i]|0x20) >= 'a' && (text[i]|0x20) <= 'z'
}
