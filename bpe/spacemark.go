package bpe

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// What the two kinds of vocabulary share that are made of characters and not of
// bytes: a mark for spaces, and bytes for characters that they lack.

// spaceMark is how SentencePiece vocabularies write a space: U+2581.
const spaceMark = "▁"

// appendMarked appends text to dst with spaces written as marks.
func appendMarked(dst []byte, text string) []byte {
	for {
		before, after, found := strings.Cut(text, " ")
		dst = append(dst, before...)
		if !found {
			return dst
		}
		dst = append(dst, spaceMark...)
		text = after
	}
}

// markInside says whether a token has a space mark after another character.
func markInside(token string) bool {
	return strings.Contains(strings.TrimLeft(token, spaceMark), spaceMark)
}

// wordEnd returns the length of the part of text to merge next, maxWord at most. If
// no token has a mark inside, no merge crosses the beginning of a word, and words
// can be merged one by one.
func wordEnd(text []byte, wordByWord bool) int {
	n := min(len(text), maxWord)
	if wordByWord {
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

// byteFallback holds the tokens that stand for single bytes.
type byteFallback struct {
	ids [256]int32 // -1 if the vocabulary has none
	unk int32
}

func (t *Tokenizer) byteFallback() byteFallback {
	f := byteFallback{unk: t.unk}
	for i := range f.ids {
		f.ids[i] = -1
		if id, ok := t.ids[fmt.Sprintf("<0x%02X>", i)]; ok && (t.types[id] == TypeByte || t.isText(id)) {
			f.ids[i] = id
		} else if id, ok := t.ids[string([]byte{byte(i)})]; ok && t.isText(id) {
			f.ids[i] = id
		}
	}
	return f
}

// encode appends the bytes of a character that is not in the vocabulary, or the
// unknown token if the vocabulary lacks one of them.
func (f *byteFallback) encode(s *scratch, char []byte) {
	before := len(s.ids)
	for _, b := range char {
		id := f.ids[b]
		if id < 0 {
			s.ids = s.ids[:before]
			if f.unk >= 0 {
				s.ids = append(s.ids, f.unk)
			}
			return
		}
		s.ids = append(s.ids, id)
	}
}
