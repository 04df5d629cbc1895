package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitBloom:
//
//	?[^(\s|.,!?…。，、।۔،)]+
func splitBloom(s *scratch, text string, i int) int {
	if bloomMatches(text, i) {
		if text[i] == ' ' {
			i++
		}
		return s.skipFunc(text, i, bloomWord)
	}
	start := i
	for i < len(text) && !bloomMatches(text, i) { // a word of separators
		_, n := classAt(text, i)
		i += n
	}
	s.read += i - start + 1
	return i
}

func bloomMatches(text string, i int) bool {
	if text[i] == ' ' && i+1 < len(text) {
		i++
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return bloomWord(r)
}

func bloomWord(r rune) bool {
	return !unicode.IsSpace(r) && !strings.ContainsRune("(|.,!?…。，、।۔،)", r)
}

// splitSuperBPE: numbers, and all text between them, since the tokens of superbpe
// span several words; then digits in groups of three, counted from the right:
//
//	\p{N}+
//	(?=(\d{3})+(?!\d))
func splitSuperBPE(s *scratch, text string, i int) int {
	if i >= s.split.end {
		set := number
		if !isAt(text, i, number) {
			set = anything &^ number
		}
		s.split.end = s.skip(text, i, set)
		s.split.groups = i
	}
	text = text[:s.split.end]
	if !isAt(text, i, number) {
		return s.split.end
	}
	at := i
	if i < s.split.groups {
		if at = s.numbers(text, i, 3); at < s.split.groups {
			return at
		}
	}
	// No group begins at the end of a run of digits: the word goes on to the first
	// group of the next run of three digits or more.
	for at < len(text) {
		end := s.skip(text, at, digit)
		n := utf8.RuneCountInString(text[at:end])
		if n >= 3 {
			s.split.groups = end
			if at = s.numbers(text, at, n%3); at == i {
				at = s.numbers(text, i, 3)
			}
			if at < end {
				return at
			}
		}
		at = s.skip(text, end, numeral)
	}
	return len(text)
}

// splitLines is the rule of the gemma4 kind of tokenizer:
//
//	[^\n]+|[\n]+
func splitLines(s *scratch, text string, i int) int {
	end := i
	if text[i] == '\n' {
		for end < len(text) && text[end] == '\n' {
			end++
		}
	} else if k := strings.IndexByte(text[i:], '\n'); k >= 0 {
		end = i + k
	} else {
		end = len(text)
	}
	s.read += end - i
	return end
}

// splitViking: bloom's words, and each number in them by itself:
//
//	 ?[^(\s|.,!?…。，、।۔،)]+
//	\p{N}
func splitViking(s *scratch, text string, i int) int {
	if i >= s.split.end {
		s.split.end = splitBloom(s, text, i)
	}
	if c, n := classAt(text, i); c&number != 0 {
		return i + n
	}
	return s.skip(text[:s.split.end], i, anything&^number)
}

// splitChameleon: marks of images, tabs, line breaks and pairs of spaces, numbers and punctuation, each by itself;
// GPT-2's rule between them:
//
//	<sentinel:[0-9]+>
//	(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z
//	([\t\n]|    |  )
//	\p{N}
//	[\p{P}!-/:-@\[-`{-~]
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The first expression changes nothing: its ends are cut by the fifth.
func splitChameleon(s *scratch, text string, i int) int {
	if n := chameleonPart(text, i); n > 0 {
		return i + n
	}
	if i >= s.split.end {
		end := i
		for end < len(text) && chameleonPart(text, end) == 0 {
			_, n := classAt(text, end)
			end += n
		}
		s.read += end - i + 1
		s.split.end = end
	}
	return splitGPT2(s, text[:s.split.end], i)
}

// chameleonPart returns the length of what stands by itself at text[i], 0 if nothing does.
func chameleonPart(text string, i int) int {
	const image, letters = "IMGIMG", 4
	switch c := text[i]; {
	case c == '\t' || c == '\n':
		return 1
	case c == ' ' && strings.HasPrefix(text[i:], "    "):
		return 4
	case c == ' ' && strings.HasPrefix(text[i:], "  "):
		return 2
	case c == image[0] && strings.HasPrefix(text[i:], image):
		n := len(image)
		for i+n < len(text) && n < len(image)+letters && text[i+n] >= 'A' && text[i+n] <= 'I' {
			n++
		}
		if n > len(image) && i+n < len(text) && text[i+n] == 'Z' {
			return n + 1
		}
		return 0
	}
	c, n := classAt(text, i)
	if c&number != 0 || c == punct || c == sign && n == 1 && text[i] < utf8.RuneSelf {
		return n
	}
	return 0
}
