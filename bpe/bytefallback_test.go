package bpe

import (
	"slices"
	"testing"
)

// A vocabulary may have its bytes as byte tokens, as normal tokens of the same name, or as the characters themselves: a
// byte that no token is for is unknown, and a control token is never one.
func TestBytesOfEveryKindOfToken(t *testing.T) {
	for name, c := range map[string]struct {
		kind int32
		text string // of the byte of a line end
		want bool
	}{
		"byte":          {TypeByte, "<0x0A>", true},
		"normal":        {TypeNormal, "<0x0A>", true},
		"user-defined":  {TypeUserDefined, "<0x0A>", true},
		"control":       {TypeControl, "<0x0A>", false},
		"the character": {TypeNormal, "\n", true},
		"another name":  {TypeNormal, "<0x0a>", false},
		"another byte":  {TypeNormal, "<0x0B>", false},
	} {
		config := tinySentencePiece()
		id := int32(slices.Index(config.Tokens, "<0x0A>"))
		if config.Tokens[id] = c.text; c.text == "<0x0B>" {
			config.Tokens[id] = "another"
		}
		config.Types[id] = c.kind
		config.UNK = 0
		tok, err := New(config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := slices.Contains(tok.Encode("a\nb", EncodeOptions{}), id); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
