package bpe

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// wordLevel is the whitespace kind of BPE (jina-embeddings-v2 zh): white space separates words
// and is dropped, and a word's characters are merged by rank, as characters and not as
// bytes. A character that is not in the vocabulary is its bytes if they are tokens, else
// the unknown token. What is not UTF-8 is U+FFFD.
type wordLevel struct {
	charLevel
	lowercase bool
}

func newWordLevel(t *Tokenizer, c *Config) (*wordLevel, error) {
	switch {
	case c.Pre != "" && c.Pre != "whitespace":
		return nil, fmt.Errorf("tokenizer.ggml.pre: %s is %w where tokenizer.ggml.model is \"whitespace\"", quote(c.Pre),
			ErrUnsupported)
	case c.StripAccents:
		return nil, fmt.Errorf("tokenizer.ggml.normalizer.strip_accents: true is %w where tokenizer.ggml.model is "+
			"\"whitespace\"", ErrUnsupported)
	}
	chars, err := newCharLevel(t, c.Pre, c.Merges)
	if err != nil {
		return nil, err
	}
	return &wordLevel{*chars, c.Lowercase}, nil
}

func (w *wordLevel) encode(s *scratch, text string) {
	for i := 0; i < len(text); {
		r, n := looseRune(text[i:])
		i += n
		switch {
		case unicode.IsSpace(r):
			w.flush(s)
		case !w.lowercase:
			s.text = utf8.AppendRune(s.text, r)
		case r == 'İ': // the only character whose lower case is two
			s.text = append(s.text, "i\u0307"...)
		default:
			s.text = utf8.AppendRune(s.text, unicode.ToLower(r))
		}
	}
	w.flush(s)
}

// flush merges the word in s.text.
func (w *wordLevel) flush(s *scratch) {
	for rest := s.text; len(rest) > 0; {
		n := wordEnd(rest, false)
		w.word(s, rest[:n])
		rest = rest[n:]
	}
	s.text = s.text[:0]
}

func (w *wordLevel) equal(other encoder) bool {
	o, ok := other.(*wordLevel)
	return ok && w.lowercase == o.lowercase && w.charLevel.equal(&o.charLevel)
}
