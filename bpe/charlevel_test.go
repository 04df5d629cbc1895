package bpe

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCharLevel(t *testing.T) {
	tok := must(t, tinyCharLevel())
	for _, c := range []struct {
		text, want string
		o          EncodeOptions
	}{
		{text: "", want: ""},
		{text: "the", want: "the"}, // no space prefix
		{text: " the  the", want: "▁the ▁ ▁the"},
		{text: "the\n the", want: "the \n ▁the"},
		{text: "\n\n", want: "\n\n"},
		{text: "\n\n\n", want: "\n\n\n"},
		{text: "\n\n\n\n", want: "\n\n \n\n"},    // no token as a whole: merged
		{text: "\n\n\n\n\n", want: "\n\n\n\n\n"}, // a token that no merge makes
		{text: "€x", want: "<0xE2> <0x82> <0xAC> x"},
		{text: "\xff\t", want: "<0xFF> <0x09>"},
		{text: "<bos>", want: "< b o s >"},
		{text: "<bos>the", want: "<bos> the", o: EncodeOptions{ParseSpecial: true}},
		{text: "the", want: "<bos> the", o: EncodeOptions{AddSpecial: true}},
		{text: "<unk><0x41>", want: "< u n k > < 0 x <0x34> 1 >"},
		{text: "a<tool> the", want: "a <tool> ▁the"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, c.o)), " "); got != c.want {
			t.Errorf("%q %+v: got %q, want %q", c.text, c.o, got, c.want)
		}
	}
	if tok.Decode(tok.Encode("a<tool> the\n\n \n€", EncodeOptions{AddSpecial: true})) != "a<tool> the\n\n \n€" {
		t.Error("comes back changed")
	}
	if c := Defaults("gemma4", ""); !c.AddBOS || c.AddSpacePrefix {
		t.Errorf("defaults: %+v", c)
	}
	c := tinyCharLevel()
	c.Model, c.Pre = "gpt2", "gemma4" // the same kind, said by the pre-tokenizer
	if !tok.Equal(must(t, c)) || !Defaults("gpt2", "gemma4").AddBOS {
		t.Error("the pre-tokenizer gemma4 makes another tokenizer than the model gemma4")
	}
	c = tinyCharLevel()
	c.Merges[3], c.Merges[4] = c.Merges[4], c.Merges[3]
	if tok.Equal(must(t, c)) {
		t.Error("the order of merges does not matter")
	}
	if tok.Compatible(must(t, tinySentencePiece())) == nil {
		t.Error("compatible with another kind")
	}
}

// TestCharLevelMarkInside: a merge that makes a token with a mark behind another
// character crosses the beginning of a word.
func TestCharLevelMarkInside(t *testing.T) {
	c := Defaults("gemma4", "")
	c.AddBOS = false
	c.Tokens = []string{"a", "▁", "a▁", "▁a", "\n"}
	c.Merges = []string{"a ▁", "▁ a"}
	tok := must(t, c)
	if got := strings.Join(tokenStrings(tok, tok.Encode("a a\n a", EncodeOptions{})), " "); got != "a▁ a \n ▁a" {
		t.Errorf("got %q", got)
	}
}

func TestCharLevelDefinition(t *testing.T) {
	tok := must(t, tinyCharLevel())
	rng := rand.New(rand.NewPCG(5, 6))
	alphabet := []rune("aabbcchelloworldthing日本é  ▁1233!!\n\n€")
	for range 3000 {
		runes := make([]rune, 1+rng.IntN(24))
		for i := range runes {
			runes[i] = alphabet[rng.IntN(len(alphabet))]
		}
		text := string(runes)
		if got, want := tokenStrings(tok, tok.Encode(text, EncodeOptions{})),
			charLevelByDefinition(tok, text); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	}
}

// encoded is a text with the tokens that it becomes, a space between them.
type encoded struct {
	tok        *Tokenizer
	text, want string
	o          EncodeOptions
}

func (c *encoded) check(t *testing.T) {
	t.Helper()
	if got := strings.Join(tokenStrings(c.tok, c.tok.Encode(c.text, c.o)), " "); got != c.want {
		t.Errorf("%q %+v: got %q, want %q", c.text, c.o, got, c.want)
	}
}

// TestRemoveExtraWhitespaces: runs of spaces become one, those at the ends none.
func TestRemoveExtraWhitespaces(t *testing.T) {
	c := tinySentencePiece()
	c.RemoveExtraWhitespaces = true
	tok := must(t, c)
	c.AddSpacePrefix = false
	bare := must(t, c)
	for _, c := range []encoded{
		{tok: tok, text: "  the   the ", want: "▁the ▁the"},
		{tok: bare, text: "  the   the ", want: "the ▁the"},
		{tok: tok, text: "  ", want: ""},
		{tok: tok, text: "  <tool>  the  <tool> ", want: "<tool> ▁the <tool>"},
		{tok: tok, text: "  the ", want: "▁the", o: EncodeOptions{NoSpacePrefix: true}},
		{tok: tok, text: "a\n  the", want: "▁ a <0x0A> ▁the"},
	} {
		c.check(t)
	}
	if tok.Equal(must(t, tinySentencePiece())) {
		t.Error("the option does not matter")
	}
}

// TestStripAfter: some special tokens take the white space behind them.
func TestStripAfter(t *testing.T) {
	c := tinySentencePiece()
	c.StripAfter = []int32{2, int32(len(c.Tokens) - 1)} // </s>, <tool>
	tok := must(t, c)
	for _, c := range []struct{ text, want string }{
		{"<tool> \n\t\v\f\r the", "<tool> ▁the"},
		{"<tool>the the", "<tool> ▁the ▁the"},
		{"<tool>  <tool>\n", "<tool> <tool>"},
		{"</s>\nthe<s>\n", "</s> ▁the <s> ▁ <0x0A>"},
		{"<tool>\u3000", "<tool> ▁ <0xE3> <0x80> <0x80>"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, EncodeOptions{ParseSpecial: true})), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	if tok.Equal(must(t, tinySentencePiece())) {
		t.Error("the option does not matter")
	}
	c.StripAfter = []int32{-1}
	if _, err := New(c); err == nil {
		t.Error("a token that is not there")
	}
}

// TestStripBefore: some special tokens take the white space in front of them, as far as the next special token.
func TestStripBefore(t *testing.T) {
	c := tinySentencePiece()
	c.StripBefore = []int32{int32(len(c.Tokens) - 1)} // <tool>
	tok := must(t, c)
	c.StripAfter = []int32{2}
	both := must(t, c)
	for _, c := range []struct {
		tok        *Tokenizer
		text, want string
	}{
		{tok, "the \n\t\v\f\r <tool> the", "▁the <tool> ▁ ▁the"},
		{tok, " \n<tool>\n", "<tool> ▁ <0x0A>"},
		{tok, "the</s>\n<tool>", "▁the </s> <tool>"},
		{tok, "the \n</s> <s>", "▁the ▁ <0x0A> </s> ▁▁ <s>"},
		{tok, "\u3000<tool>", "▁ <0xE3> <0x80> <0x80> <tool>"},
		{both, "</s> \n the \n <tool>", "</s> ▁the <tool>"},
		{both, "</s> \n <tool>", "</s> <tool>"},
	} {
		got := strings.Join(tokenStrings(c.tok, c.tok.Encode(c.text, EncodeOptions{ParseSpecial: true})), " ")
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	if c.StripAfter = nil; must(t, c).Equal(must(t, tinySentencePiece())) {
		t.Error("the option does not matter")
	}
	c.StripBefore = []int32{int32(len(c.Tokens))}
	if _, err := New(c); err == nil {
		t.Error("a token that is not there")
	}
}

// TestEnds: the marks that end a generation, by what the file calls them.
func TestEnds(t *testing.T) {
	ends := func(types map[string]int32, eos int32, tokens ...string) string {
		c := Defaults("gpt2", "gpt-2")
		c.EOS = eos
		for _, s := range tokens {
			kind, ok := types[s]
			if !ok {
				kind = TypeNormal
			}
			c.Tokens, c.Types = append(c.Tokens, s), append(c.Types, kind)
		}
		tok := must(t, c)
		var list []string
		for i := range int32(tok.Size()) {
			if tok.IsEOG(i) {
				list = append(list, tok.Token(i))
			}
		}
		return strings.Join(list, " ")
	}
	control := map[string]int32{"</s>": TypeControl, "<eos>": TypeControl}
	for _, c := range []struct {
		types  map[string]int32
		eos    int32
		tokens []string
		want   string
	}{
		{nil, -1, []string{"a", "<|im_end|>", "<turn|>"}, "<|im_end|> <turn|>"},
		{nil, -1, []string{"</s>", "<eos>"}, ""},
		{control, -1, []string{"</s>", "<eos>", "[EOT]"}, "</s> <eos>"},
		{nil, -1, []string{"<|end|>", "<|return|>"}, "<|end|> <|return|>"},
		{nil, 1, []string{"<|end|>", "<|return|>", "<|call|>"}, "<|return|> <|call|>"}, // harmony
		{nil, 0, []string{"<|end|>", "<|return|>", "<|call|>"}, "<|end|> <|return|> <|call|>"},
	} {
		if got := ends(c.types, c.eos, c.tokens...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.tokens, got, c.want)
		}
	}
}

// In Muse Glimmer's format, too, and the end of a turn is one whether the file says so or not. Llama 4, whose tokens
// these were, ends with both.
func TestEndOfAMessageOfMuse(t *testing.T) {
	c := Defaults("gpt2", "gpt-2")
	c.Tokens, c.EOS = []string{"<|end_of_text|>", "<|eom|>", "<|eot|>", "<|start|>", "<|message|>"}, 0
	for _, configured := range [][]int32{nil, {1}, {1, 2}} {
		c.EOG = configured
		if tok := must(t, c); !tok.IsEOG(0) || tok.IsEOG(1) || !tok.IsEOG(2) || tok.IsEOG(3) {
			t.Errorf("%d: ends: %v %v %v", configured, tok.IsEOG(0), tok.IsEOG(1), tok.IsEOG(2))
		}
	}
	c.Tokens[3] = "<|header_start|>"
	if tok := must(t, c); !tok.IsEOG(1) || !tok.IsEOG(2) {
		t.Error("ends that the file names, of another format")
	}
}

// In the harmony format a message's end is not the answer's, also where the file says that it is the end of a turn.
func TestEndOfAHarmonyMessage(t *testing.T) {
	c := Defaults("gpt2", "gpt-2")
	c.Tokens, c.EOS, c.EOG = []string{"<|end|>", "<|return|>", "<|call|>"}, 1, []int32{0, 2}
	tok := must(t, c)
	if tok.IsEOG(0) || !tok.IsEOG(1) || !tok.IsEOG(2) {
		t.Errorf("ends: %v %v %v", tok.IsEOG(0), tok.IsEOG(1), tok.IsEOG(2))
	}
	c.Tokens = []string{"<|end|>", "<|return|>", "x"}
	if tok := must(t, c); !tok.IsEOG(0) || !tok.IsEOG(2) {
		t.Error("ends that the file names, of another format")
	}
}
