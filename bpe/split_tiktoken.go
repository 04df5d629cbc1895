package bpe

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
//
// where exaone-moe has phrases in place of [L]+, in which single spaces stand
// between words: (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
//
// bailingmoe is qwen2 in other words: its \s*[\r\n] matches what \s*[\r\n]+ does,
// because \s* takes the line breaks before the last.
type tiktoken struct {
	letters classes
	digits  int
	phrases bool
	tail    tail
}

// tail says what a run of symbols takes with it.
type tail uint8

const (
	tailNone   tail = iota
	tailBreaks      // [\r\n]*
	tailOne         // [\r\n/]?
)

func (r tiktoken) next(s *scratch, text string, i int) int {
	if n := contraction(text, i, true); n > 0 {
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
