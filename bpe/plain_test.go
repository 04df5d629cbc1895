package bpe

import (
	"strings"
	"testing"
)

// plainVocabulary has merges that would spell out user-defined tokens.
func plainVocabulary() Config {
	c := tinyByteLevel("gpt-2")
	c.Tokens = append(c.Tokens, "ca", "cat", "€", "   ")
	c.Types = append(c.Types, TypeNormal, TypeUserDefined, TypeUserDefined, TypeUserDefined)
	c.Merges = append(c.Merges, "c a", "ca t")
	return c
}

// TestPlain: no user-defined token is found in or across a plain part, and no
// merge makes one; white space and single characters are text everywhere.
func TestPlain(t *testing.T) {
	tok := must(t, plainVocabulary())
	for _, c := range []struct {
		parts []Part
		want  string
	}{
		{[]Part{{Text: "<tool>"}}, "<tool>"},
		{[]Part{{Text: "<tool>", Plain: true}}, "< t o o l >"},
		{[]Part{{Text: "<to"}, {Text: "ol>", Plain: true}}, "< t o o l >"},
		{[]Part{{Text: "<to", Plain: true}, {Text: "ol>"}}, "< t o o l >"},
		{[]Part{{Text: "<to"}, {Text: "o", Plain: true}, {Text: "l>"}}, "< t o o l >"},
		{[]Part{{Text: "<to"}, {Plain: true}, {Text: "ol>"}}, "<tool>"},
		{[]Part{{Text: "<tool>"}, {Text: "<tool>", Plain: true}, {Text: "<tool>"}}, "<tool> < t o o l > <tool>"},
		{[]Part{{Text: "<tool>", Plain: true, ParseSpecial: true}}, "< t o o l >"},
		{[]Part{{Text: "<s>", Plain: true}, {Text: "<s>", ParseSpecial: true}}, "< s > <s>"},
		{[]Part{{Text: "cat"}}, "cat"},
		{[]Part{{Text: "cat", Plain: true}}, "ca t"},
		{[]Part{{Text: "ca"}, {Text: "t", Plain: true}}, "ca t"},
		{[]Part{{Text: "cat", Plain: true}, {Text: "<s>", ParseSpecial: true}, {Text: "cat"}}, "ca t <s> cat"},
		{[]Part{{Text: "a   b€", Plain: true}}, "a     b €"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.EncodeParts(c.parts, false)), " "); got != c.want {
			t.Errorf("%v: got %s, want %s", c.parts, got, c.want)
		}
	}
	c := plainVocabulary()
	c.Pre = "llama-bpe" // whole words first
	whole := must(t, c)
	if got := strings.Join(tokenStrings(whole,
		whole.EncodeParts([]Part{{Text: "cat", Plain: true}}, false)), " "); got != "ca t" {
		t.Errorf("llama-bpe: got %s", got)
	}
	sp := tinySentencePiece()
	sp.Tokens = append(sp.Tokens, "<t")
	sp.Types = append(sp.Types, TypeUserDefined)
	sp.Scores = append(sp.Scores, 100)
	llama := must(t, sp)
	for _, p := range []Part{{Text: "<t", Plain: true}, {Text: "<tool>", Plain: true}} {
		for _, id := range llama.EncodeParts([]Part{p}, false) {
			if llama.types[id] == TypeUserDefined {
				t.Errorf("%+v: %q", p, llama.Token(id))
			}
		}
	}
	if got := strings.Join(tokenStrings(llama,
		llama.EncodeParts([]Part{{Text: "<t"}}, false)), " "); !strings.Contains(got, "<t") {
		t.Errorf("the user-defined token is not found where it may be: %s", got)
	}
}
