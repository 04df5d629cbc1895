package bpe

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"strings"
	"unicode/utf8"
)

// spaceMark is how SentencePiece vocabularies write a space: U+2581.
const spaceMark = "▁"

// sentencePiece is SentencePiece-style BPE: text starts as its characters, and
// of all neighbours that make a token those with the highest score go first.
type sentencePiece struct {
	tokens     map[string]scored // what text may become
	longest    int               // bytes of the longest of them
	bytes      [256]int32        // fallback, -1 if the vocabulary has none
	unk        int32
	wordByWord bool // no token has a space mark after another character
}

type scored struct {
	id       int32
	priority uint32 // the higher the score, the lower
}

func newSentencePiece(t *Tokenizer, scores []float32) (*sentencePiece, error) {
	sp := &sentencePiece{tokens: make(map[string]scored, len(t.tokens)), unk: t.unk, wordByWord: true}
	for i, text := range t.tokens {
		if !t.isText(int32(i)) {
			continue
		}
		sp.tokens[text] = scored{int32(i), priorityOf(scores[i])}
		sp.longest = max(sp.longest, len(text))
		if strings.Contains(strings.TrimLeft(text, spaceMark), spaceMark) {
			sp.wordByWord = false
		}
	}
	if sp.longest >= maxWord {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: a token of %d bytes", sp.longest)
	}
	for i := range sp.bytes {
		sp.bytes[i] = -1
		if id, ok := t.ids[fmt.Sprintf("<0x%02X>", i)]; ok && (t.types[id] == TypeByte || t.isText(id)) {
			sp.bytes[i] = id
		} else if id, ok := t.ids[string([]byte{byte(i)})]; ok && t.isText(id) {
			sp.bytes[i] = id
		}
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
	for {
		before, after, found := strings.Cut(text, " ")
		s.text = append(s.text, before...)
		if !found {
			break
		}
		s.text = append(s.text, spaceMark...)
		text = after
	}
	for all := s.text; len(all) > 0; {
		n := sp.cut(all)
		sp.word(s, all[:n])
		all = all[n:]
	}
}

// cut returns the length of the stretch to merge next. No merge crosses the
// front of a word if no token does, so words can go one by one.
func (sp *sentencePiece) cut(text []byte) int {
	n := min(len(text), maxWord)
	if sp.wordByWord {
		mark, i := []byte(spaceMark), 0
		for i < n && bytes.HasPrefix(text[i:n], mark) {
			i += len(mark)
		}
		if k := bytes.Index(text[i:n], mark); k >= 0 {
			return i + k
		}
	}
	for k := n; k < len(text) && k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(text[k]) {
			return k
		}
	}
	return n
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
	s.merge(sp)
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		if sym := &s.symbols[i]; sym.id >= 0 {
			s.ids = append(s.ids, sym.id)
		} else {
			sp.fallback(s, word[sym.start:sym.end])
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

// fallback spells a character that is not in the vocabulary in bytes, or calls
// it unknown if the vocabulary lacks one of them.
func (sp *sentencePiece) fallback(s *scratch, char []byte) {
	before := len(s.ids)
	for _, b := range char {
		id := sp.bytes[b]
		if id < 0 {
			s.ids = s.ids[:before]
			if sp.unk >= 0 {
				s.ids = append(s.ids, sp.unk)
			}
			return
		}
		s.ids = append(s.ids, id)
	}
}

func (sp *sentencePiece) equal(other encoder) bool {
	o, ok := other.(*sentencePiece)
	return ok && sp.bytes == o.bytes && maps.Equal(sp.tokens, o.tokens)
}
