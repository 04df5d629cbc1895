package serve

import (
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/bpe"
)

// places counts the characters of a text whose tokens come one by one, for text_offset. A token that goes on with a
// character is where that begins.
type places struct {
	chars   int          // that are whole
	held    []byte       // the beginning of one that is not
	decoder *bpe.Decoder // of generated tokens; nil: there was none
}

// add adds text, and returns how many characters are in front of it.
func (p *places) add(text string) (at int) {
	if at = p.chars; len(p.held) == 0 && utf8.ValidString(text) {
		p.chars += utf8.RuneCountInString(text)
		return at
	}
	p.held = append(p.held, text...)
	n := 0
	for n < len(p.held) && utf8.FullRune(p.held[n:]) {
		_, size := utf8.DecodeRune(p.held[n:])
		n += size
		p.chars++
	}
	p.held = append(p.held[:0], p.held[n:]...)
	return at
}

// addToken is add for a generated token.
func (p *places) addToken(tok *bpe.Tokenizer, id int32) (at int) {
	if p.decoder == nil {
		p.decoder = tok.NewDecoder()
	}
	return p.add(p.decoder.Next(id))
}

// echoedText is what a token of a prompt adds to the text with which an answer begins: that of the ids, or the text
// that the prompt was given as. That one spells control tokens, but the one that the vocabulary has put in front.
func echoedText(tok *bpe.Tokenizer, prompt []int32, at int, given bool) string {
	id := prompt[at]
	text := tok.Piece(id)
	if !given {
		if at == 0 && tok.AddsBOS() && id == tok.BOS() {
			return ""
		}
		_, b := tokenText(tok, id)
		text = string(b)
	}
	begins := at == 0 || tok.IsControl(prompt[at-1]) || tok.IsUserDefined(prompt[at-1])
	if begins && strings.HasPrefix(text, " ") && !strings.HasPrefix(tok.Decode([]int32{id}), " ") {
		return text[1:] // a space that the vocabulary has put in front
	}
	return text
}
