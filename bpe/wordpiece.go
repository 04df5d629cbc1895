package bpe

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordPiece is the tokenizer of BERT: the text is cut into words, and each word, from
// the left, into the longest pieces that the vocabulary has. A word that cannot be used
// up so is the unknown token as a whole. Devlin et al., "BERT" (2019), section 3, after
// Schuster and Nakajima, "Japanese and Korean Voice Search" (2012). The rules are those
// of the published program, Hugging Face's tokenizers (BertNormalizer,
// BertPreTokenizer, WordPiece). The classes of characters are those of Go's Unicode
// version, and marks that are not of class Mn stay in the order of the text.
//
// A file stores a piece that begins a word with U+2581 in front, and one inside a word
// (published as "##ing") bare.
//
// A word has a bounded length, so that looking for its pieces takes a bounded time for
// each of its bytes, and text of n bytes takes O(n).
type wordPiece struct {
	first, inner pieceTrie // of pieces that begin a word, and of those inside
	unk          int32
	lowercase    bool
	stripped     map[rune]string // what is left of a character without accents; nil: accents stay
	ascii        [utf8.RuneSelf]wordPart
}

// maxWordPiece is how many characters a word may have, normalized; a longer one is the
// unknown token. It is the published max_input_chars_per_word.
const maxWordPiece = 100

// A wordPart is what an ASCII character does to words, and what it is written as.
type wordPart struct {
	role wordRole
	char byte
}

type wordRole uint8

const (
	inWord  wordRole = iota // belongs to a word
	noPart                  // is dropped
	between                 // ends a word
	ownWord                 // is a word by itself
)

func newWordPiece(t *Tokenizer, c *Config) (*wordPiece, error) {
	if t.unk < 0 {
		return nil, errors.New("tokenizer.ggml.unknown_token_id: none, and words may have no pieces")
	}
	w := &wordPiece{unk: t.unk, lowercase: c.Lowercase}
	if c.StripAccents {
		w.stripped = readDecompositions()
	}
	var first, inner []piece
	for i, text := range t.tokens {
		id := int32(i)
		if !t.isText(id) {
			continue
		}
		if word, ok := strings.CutPrefix(text, spaceMark); ok && word != "" {
			first = append(first, piece{word, id})
		} else {
			inner = append(inner, piece{text, id})
		}
	}
	if len(first) == 0 {
		return nil, errors.New("tokenizer.ggml.tokens: none begins a word (with U+2581)")
	}
	for b := range w.ascii {
		char := byte(b)
		if w.lowercase {
			char = byte(unicode.ToLower(rune(b)))
		}
		w.ascii[b] = wordPart{w.role(rune(b)), char}
	}
	var err error
	if w.first, err = newPieceTrie(first); err == nil {
		w.inner, err = newPieceTrie(inner)
	}
	return w, err
}

// role says what a character does to words. In a vocabulary without accents it has been
// stripped of them.
func (w *wordPiece) role(r rune) wordRole {
	switch c := classOf(r); {
	case r == 0 || r == utf8.RuneError || r == '\v' || r == '\f' || r == '\u0085':
		return noPart // the last three are white space, but the published program drops controls first
	case c == space:
		return between
	case c == other && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
		return noPart // unassigned characters, which are other too, belong to words
	case c == mark && w.stripped != nil && unicode.Is(unicode.Mn, r):
		return noPart
	case c == punct || c == sign && r < utf8.RuneSelf || ideograph(r):
		return ownWord
	}
	return inWord
}

// ideograph says whether a character is a word for being Chinese. The ranges are the
// published program's, which lacks U+2B820 to U+2B91F of the block that begins there.
func ideograph(r rune) bool {
	if r < 0x3400 {
		return false
	}
	return r >= 0x4e00 && r <= 0x9fff || r <= 0x4dbf || r >= 0x20000 && r <= 0x2a6df ||
		r >= 0x2a700 && r <= 0x2b81f || r >= 0x2b920 && r <= 0x2ceaf || r >= 0xf900 && r <= 0xfaff ||
		r >= 0x2f800 && r <= 0x2fa1f
}

func (w *wordPiece) encode(s *scratch, text string) {
	word := wordBuilder{wordPiece: w, s: s}
	s.word = s.word[:0]
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf {
			i++
			switch part := w.ascii[b]; part.role {
			case inWord:
				if word.chars++; word.chars <= maxWordPiece {
					s.word = append(s.word, part.char)
				}
			case between:
				word.flush()
			case ownWord:
				word.flush()
				word.add(rune(part.char))
				word.flush()
			}
			continue
		}
		r, n := looseRune(text[i:])
		i += n
		word.char(r)
	}
	word.flush()
}

// A wordBuilder collects the characters of a word in s.word.
type wordBuilder struct {
	*wordPiece
	s     *scratch
	chars int // of the word
}

// char takes up a character that is not ASCII.
func (b *wordBuilder) char(r rune) {
	if b.stripped == nil {
		b.part(r)
		return
	}
	if left, ok := b.stripped[r]; ok {
		for _, r := range left {
			b.part(r)
		}
		return
	}
	if at := r - hangulFirst; at >= 0 && at < hangulCount {
		b.add(jamoLeading + at/jamoPairs)
		b.add(jamoVowel + at%jamoPairs/jamoTrailers)
		if t := at % jamoTrailers; t > 0 {
			b.add(jamoTrailing + t)
		}
		return
	}
	b.part(r)
}

// part takes up a character, without accents if they are stripped.
func (b *wordBuilder) part(r rune) {
	switch b.role(r) {
	case noPart:
		return
	case between:
		b.flush()
		return
	case ownWord:
		b.flush()
		defer b.flush()
	}
	switch {
	case !b.lowercase:
		b.add(r)
	case r == 'İ': // the only character whose lower case is two
		b.add('i')
		b.add('\u0307')
	default:
		b.add(unicode.ToLower(r))
	}
}

// add puts a character at the word's end. Of a word that is too long, only the length
// is kept.
func (b *wordBuilder) add(r rune) {
	if b.chars++; b.chars <= maxWordPiece {
		b.s.word = utf8.AppendRune(b.s.word, r)
	}
}

// flush ends the word, if there is one, and appends its pieces to s.ids.
func (b *wordBuilder) flush() {
	if b.chars == 0 {
		return
	}
	s := b.s
	before := len(s.ids)
	rest, trie := s.word, &b.first
	for len(rest) > 0 {
		id, n := int32(-1), 0
		if b.chars <= maxWordPiece {
			id, n = trie.longest(s, rest)
		}
		if id < 0 {
			s.ids = append(s.ids[:before], b.unk)
			break
		}
		s.ids = append(s.ids, id)
		rest, trie = rest[n:], &b.inner
	}
	s.word, b.chars = s.word[:0], 0
}

// Hangul syllables are composed of a leading consonant, a vowel and perhaps a trailing
// consonant, by arithmetic (The Unicode Standard, section 3.12).
const (
	hangulFirst, hangulCount             = 0xac00, 11172
	jamoLeading, jamoVowel, jamoTrailing = 0x1100, 0x1161, 0x11a7
	jamoTrailers                         = 28                // with none
	jamoPairs                            = 21 * jamoTrailers // syllables with the same leading consonant
)

// looseRune returns the character at the beginning of text and its length. Overlong
// forms count, as in the reference engine. What has no form of a character is U+FFFD,
// byte by byte, and so is what is above U+10FFFF.
func looseRune(text string) (rune, int) {
	n := sequenceLen(text)
	r := rune(utf8.RuneError)
	switch n {
	case 0:
		return utf8.RuneError, 1
	case 1:
		return rune(text[0]), 1
	case 2:
		r = rune(text[0] & 0x1f)
	case 3:
		r = rune(text[0] & 0x0f)
	case 4:
		r = rune(text[0] & 0x07)
	}
	for _, b := range []byte(text[1:n]) {
		r = r<<6 | rune(b&0x3f)
	}
	if r > unicode.MaxRune {
		r = utf8.RuneError
	}
	return r, n
}

func (w *wordPiece) equal(other encoder) bool {
	o, ok := other.(*wordPiece)
	return ok && w.lowercase == o.lowercase && (w.stripped == nil) == (o.stripped == nil)
}
