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
