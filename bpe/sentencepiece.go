package bpe

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"unicode/utf8"
)

// sentencePiece is SentencePiece-style BPE: a text starts as its characters, and of
// all adjacent pairs that make a token the one with the highest score is merged first.
type sentencePiece struct {
	tokens     map[string]scored // what text may become
	longest    int               // bytes of the longest of them
	bytes      byteFallback
	wordByWord bool // no token has a space mark after another character
	squeeze    bool // Config.RemoveExtraWhitespaces
}

type scored struct {
	id       int32
	priority uint32 // the higher the score, the lower
}

func newSentencePiece(t *Tokenizer, scores []float32, squeeze bool) (*sentencePiece, error) {
	sp := &sentencePiece{tokens: make(map[string]scored, len(t.tokens)), bytes: t.byteFallback(), wordByWord: true,
		squeeze: squeeze}
	for i, text := range t.tokens {
		if !t.isText(int32(i)) {
			continue
		}
		sp.tokens[text] = scored{int32(i), priorityOf(scores[i])}
		sp.longest = max(sp.longest, len(text))
		sp.wordByWord = sp.wordByWord && !markInside(text)
	}
	if sp.longest >= maxWord {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: a token of %d bytes", sp.longest)
	}
	return sp, nil
}

// priorityOf orders scores from high to low as unsigned integers do from low to high.
func priorityOf(score float32) uint32 {
	u := math.Float32bits(score + 0) // -0 equals 0
	if u>>31 == 0 {
		return ^(u | 1<<31)
	}
	return u
}

// encode is called with the space prefix, if there is to be one, in s.text.
func (sp *sentencePiece) encode(s *scratch, text string) {
	if sp.squeeze {
		text = squeezeSpaces(text, s.begins)
		if text == "" {
			return
		}
	}
	s.text = appendMarked(s.text, text)
	for all := s.text; len(all) > 0; {
		n := wordEnd(all, sp.wordByWord)
		sp.word(s, all[:n])
		all = all[n:]
	}
}

// squeezeSpaces makes one space of each run of spaces, and none of those at the end
// and, where begins is set, at the beginning.
func squeezeSpaces(text string, begins bool) string {
	if begins {
		text = strings.TrimLeft(text, " ")
	}
	text = strings.TrimRight(text, " ")
	if !strings.Contains(text, "  ") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if text[i] != ' ' || i == 0 || text[i-1] != ' ' {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

func (sp *sentencePiece) word(s *scratch, word []byte) {
	s.word, s.symbols = word, s.symbols[:0]
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRune(word[i:])
		k := int32(len(s.symbols))
		sym := symbol{start: int32(i), end: int32(i + n), prev: k - 1, next: k + 1, id: -1, priority: never}
		if tok, ok := sp.tokens[string(word[i:i+n])]; ok {
			sym.id = tok.id
		}
		s.symbols = append(s.symbols, sym)
		i += n
	}
	s.symbols[len(s.symbols)-1].next = -1
	s.merge(sp, never)
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		if sym := &s.symbols[i]; sym.id >= 0 {
			s.ids = append(s.ids, sym.id)
		} else {
			sp.bytes.encode(s, word[sym.start:sym.end])
		}
	}
}

func (sp *sentencePiece) pair(s *scratch, left, right *symbol) (int32, uint32) {
	if int(right.end-left.start) > sp.longest {
		return -1, never
	}
	if tok, ok := sp.tokens[string(s.word[left.start:right.end])]; ok && !s.barred[tok.id] {
		return tok.id, tok.priority
	}
	return -1, never
}

func (sp *sentencePiece) equal(other encoder) bool {
	o, ok := other.(*sentencePiece)
	return ok && sp.bytes == o.bytes && sp.squeeze == o.squeeze && maps.Equal(sp.tokens, o.tokens)
}
