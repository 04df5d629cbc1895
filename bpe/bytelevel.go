package bpe

import (
	"strings"
	"unicode/utf8"
)

// byteLevel is byte-level BPE: each word of the pre-tokenizer starts as its bytes,
// and pairs are merged by rank.
type byteLevel struct {
	pre      pretokenizer
	bytes    [256]int32 // token of each byte, -1 if the vocabulary has none
	merges   *mergeTable
	whole    map[string]int32 // words that are tokens and are not merged, by their bytes; nil: every word is merged
	unk      int32
	segments segmenter
}

func newByteLevel(t *Tokenizer, pre string, merges []string) (*byteLevel, error) {
	p, err := findPretokenizer(pre)
	if err != nil {
		return nil, err
	}
	b := &byteLevel{pre: p, unk: t.unk}
	if b.merges, err = newMergeTable(t, merges); err != nil {
		return nil, err
	}
	b.segments = newSegmenter(t, b.merges)
	for i := range b.bytes {
		b.bytes[i] = -1
		if id, ok := t.ids[string(byteRunes[i])]; ok && t.isText(id) {
			b.bytes[i] = id
		}
	}
	if p.ignoreMerges {
		b.whole = make(map[string]int32, len(t.tokens))
		for i, text := range t.bytes {
			if id := int32(i); t.isText(id) {
				b.whole[text] = id
			}
		}
	}
	return b, nil
}

func (b *byteLevel) encode(s *scratch, text string) {
	s.split = splitState{}
	for i := 0; i < len(text); {
		j := min(b.pre.split.next(s, text, i), i+maxWord)
		b.word(s, text[i:j])
		i = j
	}
}

// word appends the ids of a word.
func (b *byteLevel) word(s *scratch, word string) {
	if s.words == nil || s.barred != nil || len(word) > cachedBytes {
		b.newWord(s, word)
		return
	}
	kept := s.words.slot(word)
	if kept.holds(word) {
		s.ids = append(s.ids, kept.ids[:kept.n]...)
		return
	}
	before := len(s.ids)
	b.newWord(s, word)
	kept.set(word, s.ids[before:])
}

// newWord is word, of one that is not cached.
func (b *byteLevel) newWord(s *scratch, word string) {
	if b.whole != nil {
		if id, ok := b.whole[word]; ok && !s.barred[id] {
			s.ids = append(s.ids, id)
			return
		}
	}
	before := len(s.ids)
	if len(word) <= shortWord {
		b.merge(s, word, never)
	} else {
		for rest := word; len(rest) > 0; {
			n := b.segments.next(rest)
			b.merge(s, rest[:n], b.segments.limit)
			rest = rest[n:]
		}
		if b.segments.limit < never {
			s.symbols = s.symbols[:0]
			for _, id := range s.ids[before:] {
				s.addSymbol(id)
			}
			s.ids = s.ids[:before]
			b.finish(s, never)
		}
	}
	kept := s.ids[:before]
	for _, id := range s.ids[before:] {
		if id < 0 {
			id = b.unk
		}
		if id >= 0 {
			kept = append(kept, id)
		}
	}
	s.ids = kept
}

// merge appends what the bytes of text become by the merges of rank below limit: ids,
// and -1 for a byte without a token.
func (b *byteLevel) merge(s *scratch, text string, limit uint32) {
	s.symbols = s.symbols[:0]
	for i := range len(text) {
		s.addSymbol(b.bytes[text[i]])
	}
	b.finish(s, limit)
}

// finish appends what s.symbols become.
func (b *byteLevel) finish(s *scratch, limit uint32) {
	s.symbols[len(s.symbols)-1].next = -1
	s.merge(b.merges, limit)
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		s.ids = append(s.ids, s.symbols[i].id)
	}
}

func (s *scratch) addSymbol(id int32) {
	i := int32(len(s.symbols))
	s.symbols = append(s.symbols, symbol{prev: i - 1, next: i + 1, id: id, priority: never})
}

func (b *byteLevel) equal(other encoder) bool {
	o, ok := other.(*byteLevel)
	return ok && b.pre.rule == o.pre.rule && b.pre.ignoreMerges == o.pre.ignoreMerges && b.bytes == o.bytes &&
		b.merges.equal(o.merges)
}

// byteRunes is GPT-2's alphabet: how a byte is spelled in a vocabulary.
// Printable bytes of Latin-1 are themselves, the others lie from U+0100 on.
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		switch {
		case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
			runes[b] = rune(b)
		default:
			runes[b] = next
			next++
		}
	}
	return runes
}()

// SpellBytes is how byte-level vocabularies spell the bytes of a text: in GPT-2's alphabet, a character for each.
func SpellBytes(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(byteRunes[text[i]])
	}
	return b.String()
}

// runeBytes is its inverse, -1 where a rune stands for no byte.
var runeBytes = func() (bytes [256 + 68]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range byteRunes {
		bytes[r] = int16(b)
	}
	return bytes
}()

// appendUnspelled appends the bytes that token spells. A rune outside the
// alphabet stands for itself.
func appendUnspelled(dst []byte, token string) []byte {
	for i := 0; i < len(token); {
		r, n := utf8.DecodeRuneInString(token[i:])
		if int(r) < len(runeBytes) && runeBytes[r] >= 0 {
			dst = append(dst, byte(runeBytes[r]))
		} else {
			dst = append(dst, token[i:i+n]...)
		}
		i += n
	}
	return dst
}
