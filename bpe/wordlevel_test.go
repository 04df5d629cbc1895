package bpe

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// whitespaceConfig is a vocabulary of the whitespace kind.
func whitespaceConfig() Config {
	c := tinyCharLevel()
	kind := Defaults("whitespace", "whitespace")
	kind.Tokens, kind.Types, kind.Merges, kind.BOS, kind.UNK = c.Tokens, c.Types, c.Merges, c.BOS, 3
	return kind
}

// White space is dropped, words are merged as characters, and case goes where the file says so.
func TestWhitespaceWords(t *testing.T) {
	c := whitespaceConfig()
	c.Tokens = slices.Clone(c.Tokens)
	for i, text := range c.Tokens {
		if strings.HasPrefix(text, "<0x") {
			c.Tokens[i] = "no byte " + text
			c.Types[i] = TypeNormal
		}
	}
	bare := must(t, c)
	c.Lowercase = true
	lower := must(t, c)
	bytes := must(t, whitespaceConfig())
	for _, c := range []encoded{
		{tok: bare, text: "", want: ""},
		{tok: bare, text: " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2028\u2029\u202f\u205f\u3000", want: ""},
		{tok: bare, text: "the  the\nthe", want: "the the the"},
		{tok: bare, text: "日\u3000本", want: "日 本"},
		{tok: bare, text: "a\u200bb\u180e", want: "a <unk> b <unk>"}, // no white space
		{tok: bare, text: "The", want: "<unk> he"},
		{tok: lower, text: "The THE É", want: "the the é"},
		{tok: lower, text: "İ", want: "i <unk>"},
		{tok: bare, text: "€x€€", want: "<unk> x <unk> <unk>"},
		{tok: bare, text: "\xff▁", want: "<unk> ▁"},
		{tok: bytes, text: "€x \xff", want: "<0xE2> <0x82> <0xAC> x <0xEF> <0xBF> <0xBD>"},
		{tok: bare, text: "the<tool> the", want: "the <tool> the"},
		{tok: bare, text: "the", want: "the", o: EncodeOptions{AddSpecial: true}},
	} {
		c.check(t)
	}
	if got := bare.Decode(bare.Encode("the ▁the", EncodeOptions{})); got != "the▁the" {
		t.Errorf("decoded %q", got)
	}
	if bare.Equal(lower) || bytes.Equal(bare) || bare.Compatible(must(t, tinyCharLevel())) == nil {
		t.Error("equal to another")
	}
	if d := Defaults("whitespace", ""); d.Lowercase || d.StripAccents || d.AddBOS || d.AddEOS || d.AddSEP || d.UNK != -1 {
		t.Errorf("defaults %+v", d)
	}
	for key, change := range map[string]func(c *Config){
		"tokenizer.ggml.pre":                      func(c *Config) { c.Pre = "gpt-2" },
		"tokenizer.ggml.normalizer.strip_accents": func(c *Config) { c.StripAccents = true },
	} {
		c := whitespaceConfig()
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Each word is what it is by itself, merged by definition; words of any length end.
func TestWhitespaceWordsDefinition(t *testing.T) {
	tok, chars := must(t, whitespaceConfig()), must(t, tinyCharLevel())
	rng := rand.New(rand.NewPCG(7, 8))
	alphabet := []rune("aabbcchelloworldthing日本é \u3000▁1233!!\n\n€")
	for range 1000 {
		runes := make([]rune, 1+rng.IntN(24))
		for i := range runes {
			runes[i] = alphabet[rng.IntN(len(alphabet))]
		}
		text := string(runes)
		var want []string
		for _, word := range strings.FieldsFunc(text, unicode.IsSpace) {
			want = append(want, charLevelByDefinition(chars, word)...)
		}
		if got := tokenStrings(tok, tok.Encode(text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	}
	long := strings.Repeat("日本", maxWord/4)
	if got := tok.Decode(tok.Encode(long, EncodeOptions{})); got != long {
		t.Errorf("of a word of %d bytes %d come back", len(long), len(got))
	}
}
