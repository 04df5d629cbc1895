package bpe

import "strings"

// splitGPT2, from "Language Models are Unsupervised Multitask Learners" (2019):
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitGPT2(s *scratch, text string, i int) int {
	if n := contraction(text, i, false); n > 0 {
		return i + n
	}
	c, n := classAt(text, i)
	if text[i] == ' ' && i+1 < len(text) {
		if next, wide := classAt(text, i+1); next != space {
			c, n = next, 1+wide
		}
	}
	switch {
	case c&letter != 0:
		return s.skip(text, i+n, letter)
	case c&number != 0:
		return s.skip(text, i+n, number)
	case c == space:
		return s.whiteSpace(text, i)
	}
	return s.skip(text, i+n, symbolic)
}

// splitSmolLM: each number is a word, then GPT-2's rule:
//
//	\p{N}
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitSmolLM(s *scratch, text string, i int) int {
	if c, n := classAt(text, i); c&number != 0 {
		return i + n
	}
	if i >= s.split.end {
		s.split.end = s.skip(text, i, anything&^number)
	}
	return splitGPT2(s, text[:s.split.end], i)
}

// splitFalcon: runs of punctuation, then GPT-2's rule, then groups of three digits:
//
//	[\p{P}\$\+<=>\^~\|`]+
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	[0-9][0-9][0-9]
func splitFalcon(s *scratch, text string, i int) int {
	s.punctuation(text, i, "$+<=>^~|`")
	if i >= s.split.inner {
		s.split.inner = splitGPT2(s, text[:s.split.end], i)
	}
	text = text[:s.split.inner]
	first := i
	if text[first] == ' ' {
		first++
	}
	if !isAt(text, first, number) {
		return s.split.inner
	}
	return s.threeDigits(text, i)
}

// splitDefault is for files that name no pre-tokenizer:
//
//	[\p{P}\$\+<=>\^~\|]+
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	\p{N}+
//	[0-9][0-9][0-9]
func splitDefault(s *scratch, text string, i int) int {
	s.punctuation(text, i, "$+<=>^~|")
	text = text[:s.split.end]
	if text[i] == ' ' && isAt(text, i+1, number) {
		return i + 1
	}
	if !isAt(text, i, number) {
		return splitGPT2(s, text, i)
	}
	if i >= s.split.inner {
		s.split.inner = s.skip(text, i, number)
	}
	return s.threeDigits(text[:s.split.inner], i)
}

// punctuation sets s.split.end to the end of the run of punctuation, or of anything
// else, that begins at text[i] if the one before has ended. Punctuation is \p{P}
// and the ASCII characters of more.
func (s *scratch) punctuation(text string, i int, more string) {
	if i < s.split.end {
		return
	}
	is := func(i int) bool { return isAt(text, i, punct) || strings.IndexByte(more, text[i]) >= 0 }
	end := i
	for first := is(i); end < len(text) && is(end) == first; {
		_, n := classAt(text, end)
		end += n
	}
	s.read += end - i + 1
	s.split.end = end
}

// threeDigits cuts text, a run of numbers, at [0-9][0-9][0-9]: it returns the end of
// the group of digits at text[i], or the beginning of the next one.
func (s *scratch) threeDigits(text string, i int) int {
	group := func(i int) bool {
		if len(text)-i < 3 {
			return false
		}
		for _, c := range []byte(text[i : i+3]) {
			if c < '0' || c > '9' {
				return false
			}
		}
		return true
	}
	if group(i) {
		return i + 3
	}
	start := i
	for i < len(text) && !group(i) {
		i++
	}
	s.read += i - start
	return i
}
