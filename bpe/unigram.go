package bpe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram is the tokenizer of T5: of all ways to cut a text into tokens it takes the
// one with the highest sum of scores, found with Viterbi's algorithm. Kudo, "Subword
// Regularization" (2018), section 3.2. Sums are those of float64, from left to right
// within a word. Where two ways are equal, the longest last token decides.
type unigram struct {
	trie       pieceTrie
	scores     []float64 // [id] 0 for user-defined tokens
	unk        int32
	unkScore   float64
	chars      *charsmap // nil: characters stay as they are
	charsBytes []byte    // what chars was made of
	prefix     bool      // Config.AddSpacePrefix
	squeeze    bool      // Config.RemoveExtraWhitespaces
	wordByWord bool      // no token has a space mark after another character
}

// unknownPenalty is how much lower than the lowest score of a token that of an unknown
// character is.
const unknownPenalty = 10

// maxPiece bounds the bytes of a token, and with them the steps that each byte of a text
// may cost: all tokens that begin there are tried. SentencePiece learns pieces of at most
// 16 characters unless told otherwise.
const maxPiece = 1024

// path is the best way to cut a text up to some byte: its score, its last token
// and where that begins.
type path struct {
	score float64
	id    int32
	start int32
}

func newUnigram(t *Tokenizer, c *Config) (*unigram, error) {
	u := &unigram{
		scores: make([]float64, len(t.tokens)), unk: t.unk, unkScore: math.Inf(1),
		charsBytes: slices.Clone(c.Charsmap), prefix: c.AddSpacePrefix, squeeze: c.RemoveExtraWhitespaces, wordByWord: true,
	}
	var pieces []piece
	for i, text := range t.tokens {
		score := float64(c.Scores[i])
		if math.IsInf(score, 0) {
			return nil, fmt.Errorf("tokenizer.ggml.scores[%d]: %v", i, score)
		}
		switch t.types[i] {
		case TypeNormal:
			u.unkScore = min(u.unkScore, score-unknownPenalty)
		case TypeUserDefined:
			score = 0
		}
		u.scores[i] = score
		if !t.isText(int32(i)) {
			continue
		}
		if len(text) > maxPiece {
			return nil, fmt.Errorf("tokenizer.ggml.tokens[%d]: %d bytes, the limit is %d", i, len(text), maxPiece)
		}
		pieces = append(pieces, piece{text, int32(i)})
		u.wordByWord = u.wordByWord && !markInside(text)
	}
	if math.IsInf(u.unkScore, 1) {
		return nil, errors.New("tokenizer.ggml.token_type: no normal token")
	}
	var err error
	if u.chars, err = newCharsmap(c.Charsmap); err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.precompiled_charsmap: %w", err)
	}
	u.trie, err = newPieceTrie(pieces)
	return u, err
}

func (u *unigram) encode(s *scratch, text string) {
	u.normalize(s, text)
	first := len(s.ids)
	for all := s.text; len(all) > 0; {
		n := wordEnd(all, u.wordByWord)
		before := len(s.ids)
		u.word(s, all[:n])
		if before > first && before < len(s.ids) && s.ids[before-1] == u.unk && s.ids[before] == u.unk {
			s.ids = slices.Delete(s.ids, before, before+1)
		}
		all = all[n:]
	}
}

// normalize writes text to s.text, in the characters of the vocabulary: the rules of
// the map are applied, what is not UTF-8 becomes U+FFFD, and spaces become marks. With
// squeeze, a mark begins each word and nothing else; without it, each space is a mark
// and the prefix is a mark in front of the first word.
//
// SentencePiece leaves user-defined tokens as they are. Here they have been cut out
// before, or are found nowhere because the part is plain.
func (u *unigram) normalize(s *scratch, text string) {
	out := s.text[:0]
	inWord := !s.begins
	prefix := u.prefix && s.begins // is still to be written
	for i := 0; i < len(text); {
		var r []byte
		n := 0
		if u.chars != nil {
			r, n = u.chars.find(text[i:])
		}
		if n == 0 {
			n = sequenceLen(text[i:])
			if n > 0 {
				if text[i] != ' ' {
					if !inWord {
						out, prefix = u.beginWord(out, prefix)
						inWord = true
					}
					out = append(out, text[i:i+n]...)
					i += n
					continue
				}
				r = oneSpace
			} else {
				r, n = replacementCharacter, 1
			}
		}
		i += n
		for _, c := range r {
			if c != ' ' {
				if !inWord {
					out, prefix = u.beginWord(out, prefix)
					inWord = true
				}
				out = append(out, c)
				continue
			}
			inWord = false
			if !u.squeeze {
				out = append(out, spaceMark...)
			}
		}
	}
	s.text = out
}

var oneSpace, replacementCharacter = []byte(" "), []byte("\ufffd")

func (u *unigram) beginWord(out []byte, prefix bool) ([]byte, bool) {
	if u.squeeze || prefix {
		return append(out, spaceMark...), false
	}
	return out, prefix
}

// word appends the ids of a part of a text that no token reaches out of.
func (u *unigram) word(s *scratch, word []byte) {
	s.paths = slices.Grow(s.paths[:0], len(word)+1)[:len(word)+1]
	best := s.paths
	best[0] = path{}
	for i := range word {
		best[i+1] = path{score: math.Inf(-1)}
	}
	for p := 0; p < len(word); {
		step := min(charLen(word[p]), len(word)-p)
		score, known := best[p].score, false
		at, e := int32(0), p
		for e < len(word) {
			if at = u.trie.child(at, word[e]); at < 0 {
				break
			}
			e++
			id := u.trie.nodes[at].id
			if id < 0 || s.barred != nil && s.barred[id] {
				continue
			}
			known = known || e-p == step
			if sum := score + u.scores[id]; sum > best[e].score {
				best[e] = path{sum, id, int32(p)}
			}
		}
		s.read += e - p + 1
		if !known {
			if sum := score + u.unkScore; sum > best[p+step].score {
				best[p+step] = path{sum, u.unk, int32(p)}
			}
		}
		p += step
	}
	before := len(s.ids)
	for e := len(word); e > 0; e = int(best[e].start) {
		id := best[e].id
		if id >= 0 && (id != u.unk || len(s.ids) == before || s.ids[len(s.ids)-1] != id) {
			s.ids = append(s.ids, id)
		}
	}
	slices.Reverse(s.ids[before:])
}

// charLen returns how many bytes a character has that begins with a byte.
func charLen(lead byte) int {
	switch {
	case lead < 0xc0:
		return 1
	case lead < 0xe0:
		return 2
	case lead < 0xf0:
		return 3
	}
	return utf8.UTFMax
}

func (u *unigram) equal(other encoder) bool {
	o, ok := other.(*unigram)
	return ok && u.prefix == o.prefix && u.squeeze == o.squeeze && slices.Equal(u.scores, o.scores) &&
		slices.Equal(u.charsBytes, o.charsBytes)
}
