package bpe

// cased is the rule of OpenAI's o200k_base (gpt-4o) and of Mistral's Tekken: words
// begin where the case changes from lower to upper. With
//
//	U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]  L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
//	C = (?i:'s|'t|'re|'ve|'m|'ll|'d)     d = 3 (gpt-4o) or 1 (tekken, which has no C)
//
// it is
//
//	[^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,d}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
type cased struct {
	digits       int
	contractions bool
}

const (
	upperSet = upper | caseless | mark // U
	lowerSet = lower | caseless | mark // L
)

func (r cased) next(s *scratch, text string, i int) int {
	c, n := classAt(text, i)
	if c&number != 0 {
		return s.numbers(text, i, r.digits)
	}
	if end := s.prefixedCasedWord(text, i, c, n); end >= 0 {
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
	for end < len(text) && (lineBreak(text[end]) || text[end] == '/') {
		end++
	}
	return end
}

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
