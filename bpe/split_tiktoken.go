package bpe

import "strings"

// tiktoken is the rule of OpenAI's cl100k_base, which Llama 3 and Qwen 2 took over,
// and its variants. With letters L, at most d digits and tail T:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[L]+|\p{N}{1,d}| ?[^\s\p{N}L]+T|\s*[\r\n]+|\s+(?!\S)|\s+
//
//	llama-bpe   L = \p{L}        d = 3  T = [\r\n]*
//	qwen2       L = \p{L}        d = 1  T = [\r\n]*
//	qwen35      L = \p{L}\p{M}   d = 1  T = [\r\n]*
//	seed-coder  L = \p{L}        d = 1  no T
//	exaone-moe  phrases          d = 1  T = [\r\n/]?
//	ufakzeka    L = \p{L}        d = 1  T = [\r\n]*, without the contractions
//	jais-2      L = \p{L}        d = 3  T = [\r\n]*, and white space cut by length
//
// where jais-2 has, in place of \s+(?!\S)|\s+,
//
//	\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|
//	    \s{1,2}(?!\S)|\s{1}
//
// and exaone-moe has phrases in place of [L]+, in which single spaces stand
// between words: (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
//
// bailingmoe is qwen2 in other words: its \s*[\r\n] matches what \s*[\r\n]+ does,
// because \s* takes the line breaks before the last.
type tiktoken struct {
	letters  classes
	digits   int
	phrases  bool
	detached bool // no contractions
	byLength bool // white space is cut by length
	tail     tail
}

// tail says what a run of symbols takes with it.
type tail uint8

const (
	tailNone   tail = iota
	tailBreaks      // [\r\n]*
	tailOne         // [\r\n/]?
)

func (r tiktoken) next(s *scratch, text string, i int) int {
	if n := contraction(text, i, true); n > 0 && !r.detached {
		return i + n
	}
	c, n := classAt(text, i)
	switch {
	case c&r.letters != 0:
		return r.word(s, text, i)
	case c&number != 0:
		return s.numbers(text, i, r.digits)
	case !lineBreak(text[i]) && isAt(text, i+n, r.letters):
		return r.word(s, text, i+n)
	}
	symbols := symbolic &^ r.letters
	end := i
	if text[i] == ' ' && isAt(text, i+1, symbols) {
		end = i + 1
	} else if c&symbols == 0 && r.byLength {
		return s.whiteSpaceByLength(text, i)
	} else if c&symbols == 0 {
		return s.whiteSpaceLines(text, i)
	}
	end = s.skip(text, end, symbols)
	switch {
	case r.tail == tailBreaks:
		for end < len(text) && lineBreak(text[end]) {
			end++
		}
	case r.tail == tailOne && end < len(text) && lineBreak(text[end]): // a slash is a symbol, already taken
		end++
	}
	return end
}

// longestSpace is the longest white space that is a word by its length. All lengths are
// its half, a quarter and so on.
const longestSpace = 512

// whiteSpaceByLength is the white space of jais-2: up to the last line break of the run,
// or else the longest of the lengths that leaves the run's last character, except at the
// text's end. The run without line breaks ends at s.split.inner.
func (s *scratch) whiteSpaceByLength(text string, i int) int {
	if i >= s.split.inner {
		s.split.inner = s.skip(text, i, space)
		if k := strings.LastIndexAny(text[i:s.split.inner], "\r\n"); k >= 0 {
			return i + k + 1
		}
	}
	run, n := text[i:s.split.inner], 0 // n: characters, up to what matters
	for at := 0; at < len(run) && n <= longestSpace; n++ {
		_, wide := classAt(run, at)
		at += wide
	}
	s.read += n
	if s.split.inner < len(text) {
		n-- // the last one is left to what follows
	}
	length := longestSpace
	for length > 1 && length > n {
		length /= 2
	}
	for ; length > 0; length-- {
		_, wide := classAt(text, i)
		i += wide
	}
	return i
}

// word returns the end of the word, or phrase, at text[i], which is a letter.
func (r tiktoken) word(s *scratch, text string, i int) int {
	if !r.phrases {
		return s.skip(text, i, r.letters)
	}
	for {
		i = s.skip(text, i, letter|mark)
		if i >= len(text) || text[i] != ' ' || !isAt(text, i+1, letter) {
			return i
		}
		i++
	}
}

// splitMiniCPM5: groups of three numbers, then Llama 3's rule between them:
//
//	\p{N}{1,3}
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitMiniCPM5(s *scratch, text string, i int) int {
	if isAt(text, i, number) {
		return s.numbers(text, i, 3)
	}
	if i >= s.split.end {
		s.split.end = s.skip(text, i, anything&^number)
	}
	return tiktoken{letters: letter, digits: 3, tail: tailBreaks}.next(s, text[:s.split.end], i)
}

// splitLaguna: Qwen 2's rule in the runs of splitLines:
//
//	[^\n]+|[\n]+
func splitLaguna(s *scratch, text string, i int) int {
	if i >= s.split.end {
		s.split.end = splitLines(s, text, i)
	}
	return tiktoken{letters: letter, digits: 1, tail: tailBreaks}.next(s, text[:s.split.end], i)
}
