package bpe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// makeTokenBytes returns the bytes of each id, as parts of one string.
func (t *Tokenizer) makeTokenBytes() ([]string, error) {
	var all []byte
	ends := make([]int, len(t.tokens))
	for i, text := range t.tokens {
		switch t.types[i] {
		case TypeControl, TypeUnknown:
		case TypeByte:
			b, ok := parseByte(text)
			if !ok {
				return nil, fmt.Errorf("tokenizer.ggml.tokens[%d]: %s is not <0x00> to <0xFF>, as tokenizer.ggml.token_type says",
					i, quote(text))
			}
			all = append(all, b)
		case TypeUserDefined:
			all = append(all, text...)
		case TypeUnused:
			if t.model != "t5" {
				all = t.appendText(all, text)
			}
		default:
			all = t.appendText(all, text)
		}
		ends[i] = len(all)
	}
	blob, start := string(all), 0
	tokens := make([]string, len(ends))
	for i, end := range ends {
		tokens[i] = blob[start:end]
		start = end
	}
	return tokens, nil
}

// appendText appends the text that a normal token spells.
func (t *Tokenizer) appendText(dst []byte, token string) []byte {
	switch t.model {
	case "gpt2":
		return appendUnspelled(dst, token)
	case "bert": // the mark in front of a word is none of its characters
		if word, ok := strings.CutPrefix(token, spaceMark); ok && word != "" {
			dst, token = append(dst, ' '), word
		}
		return append(dst, token...)
	case "whitespace":
		return append(dst, token...)
	}
	return append(dst, strings.ReplaceAll(token, spaceMark, " ")...)
}

// parseByte reads the spelling <0xHH>.
func parseByte(s string) (b byte, ok bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	for _, c := range []byte(s[3:5]) {
		k := strings.IndexByte("0123456789ABCDEF", c)
		if k < 0 {
			return 0, false
		}
		b = b<<4 | byte(k)
	}
	return b, true
}

// Bytes returns the bytes of text that id stands for: none for control and unknown
// tokens and for ids outside the vocabulary.
func (t *Tokenizer) Bytes(id int32) []byte { return []byte(t.Piece(id)) }

// Piece is Bytes as a string, which need not be UTF-8. It does not allocate.
func (t *Tokenizer) Piece(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.bytes[id]
}

// Decode returns the text of ids. Bytes that are part of no character become U+FFFD.
// It is the inverse of Encode: the space prefix of a llama model is removed, after
// each special token too, and that of a t5 model from the first id after BOS. (A t5
// model's text comes back as it was normalized.) A bert model's text comes back as its
// normalized words with a space between any two, punctuation too. To decode the
// continuation of a text, use a [Decoder].
func (t *Tokenizer) Decode(ids []int32) string {
	var all strings.Builder
	afterSpecial := t.spacePrefix
	begins := t.trimsBeginning()
	for _, id := range ids {
		text := t.Piece(id)
		switch {
		case begins:
			text, begins = t.beginning(id, text)
		case t.model == "llama" && t.spacePrefix && t.has(id):
			special := t.types[id] == TypeControl || t.types[id] == TypeUserDefined
			if afterSpecial && !special {
				text = strings.TrimPrefix(text, " ")
			}
			afterSpecial = special
		}
		all.WriteString(text)
	}
	return valid(all.String())
}

// trimsBeginning says whether a text is decoded without a space at its beginning, be it
// the continuation of another.
func (t *Tokenizer) trimsBeginning() bool {
	return t.model == "bert" || t.model == "t5" && t.spacePrefix
}

// beginning returns the text of a token where the text begins, and whether it still
// begins with the next one.
func (t *Tokenizer) beginning(id int32, text string) (string, bool) {
	return strings.TrimPrefix(text, " "), text == "" && (t.model == "bert" || id == t.bos)
}

// valid replaces each byte that is part of no character by U+FFFD.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// Decoder decodes a stream of ids into text, in whole characters. It is not safe for
// concurrent use. Make one for each stream with [Tokenizer.NewDecoder].
type Decoder struct {
	t      *Tokenizer
	held   []byte // the first bytes of an incomplete character
	begins bool   // nothing has been decoded, and a space goes from the beginning
}

// NewDecoder returns a decoder for the continuation of a text. The concatenation of
// what it returns is Decode of the same ids, except that the spaces which Decode takes as a
// llama model's space prefix, at the beginning and after special tokens, are kept. A t5 or
// bert model's output is a text of its own and continues none, so that there the leading
// space goes as in Decode.
func (t *Tokenizer) NewDecoder() *Decoder {
	return &Decoder{t: t, begins: t.trimsBeginning()}
}

// Next returns the text up to the last character that id completes: the empty string
// while a character is incomplete.
func (d *Decoder) Next(id int32) string {
	text := d.t.Piece(id)
	if d.begins {
		text, d.begins = d.t.beginning(id, text)
	}
	if len(d.held) == 0 && utf8.ValidString(text) {
		return text
	}
	d.held = append(d.held, text...)
	n := len(d.held) - incomplete(d.held)
	s := valid(string(d.held[:n]))
	d.held = append(d.held[:0], d.held[n:]...)
	return s
}

// Flush ends the stream. It returns U+FFFD for each byte of an incomplete character.
func (d *Decoder) Flush() string {
	s := valid(string(d.held))
	d.held = d.held[:0]
	return s
}

// incomplete returns how many bytes at the end of b begin a character that
// more bytes could complete.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
