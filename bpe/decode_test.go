package bpe

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// stream decodes ids one by one and checks each string on the way.
func stream(t testing.TB, tok *Tokenizer, ids []int32) string {
	t.Helper()
	var all strings.Builder
	d := tok.NewDecoder()
	for _, id := range ids {
		s := d.Next(id)
		if !utf8.ValidString(s) {
			t.Fatalf("%v: %q is not valid", ids, s)
		}
		if len(d.held) >= utf8.UTFMax {
			t.Fatalf("%v: holds back %q", ids, d.held)
		}
		all.WriteString(s)
	}
	all.WriteString(d.Flush())
	if d.Flush() != "" {
		t.Fatal("flushes twice")
	}
	return all.String()
}

// TestDecoderSplits streams texts over every way to split them in two and in
// single bytes.
func TestDecoderSplits(t *testing.T) {
	c := tinyByteLevel("gpt-2")
	texts := []string{
		"aé日🦙b", "é", "\xe2\x82", "\xe2\x82\xe2\x82\xac", "\xf0\x9f\x99", "\xff\xfe", "\x80a\x80", "a\xc3",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "\xe2(\xa1",
	}
	for _, text := range texts { // tokens for all their parts, at whatever byte they are cut
		for i := range len(text) {
			for _, part := range []string{text[:i], text[i:]} {
				if s := spell(part); s != "" && !slices.Contains(c.Tokens, s) {
					c.Tokens, c.Types = append(c.Tokens, s), append(c.Types, TypeNormal)
				}
			}
		}
	}
	tok := must(t, c)
	for _, text := range texts {
		want := string([]rune(text))
		var bytes []int32
		for i := range len(text) {
			id, _ := tok.ID(spell(text[i : i+1]))
			bytes = append(bytes, id)
			var two []int32
			for _, part := range []string{text[:i], text[i:]} {
				if part != "" {
					id, ok := tok.ID(spell(part))
					if !ok {
						t.Fatalf("no token %q", part)
					}
					two = append(two, id)
				}
			}
			if got := stream(t, tok, two); got != want || tok.Decode(two) != want {
				t.Errorf("%q split at %d: streamed %q, decoded %q, want %q", text, i, got, tok.Decode(two), want)
			}
		}
		if got := stream(t, tok, bytes); got != want {
			t.Errorf("%q in bytes: got %q, want %q", text, got, want)
		}
	}
}

// TestDecoderPrompt: what is known is not held back.
func TestDecoderPrompt(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	d := tok.NewDecoder()
	for i, c := range []struct{ give, want string }{
		{"a", "a"}, {"\xe6", ""}, {"\x97", ""}, {"\xa5", "日"}, {"\xe6", ""}, {"a", "\ufffda"},
		{"\xff", "\ufffd"}, {"\xf0", ""},
	} {
		id, _ := tok.ID(spell(c.give))
		if got := d.Next(id); got != c.want {
			t.Errorf("%d: %q gives %q, want %q", i, c.give, got, c.want)
		}
	}
	if got := d.Next(tok.EOS()); got != "" {
		t.Errorf("a control token gives %q", got)
	}
	if got := d.Flush(); got != "\ufffd" {
		t.Errorf("flush gives %q", got)
	}
}

// TestDecodeSpace: Decode takes away the spaces that Encode adds, a Decoder none.
func TestDecodeSpace(t *testing.T) {
	tok := must(t, tinySentencePiece())
	for _, text := range []string{"", "the", " the", "  the", "the<tool>the", "<tool> the", "the <tool>", "\n", " "} {
		if got := tok.Decode(tok.Encode(text, EncodeOptions{AddSpecial: true})); got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
	}
	if got := tok.Decode(tok.Encode("<s>the</s>", EncodeOptions{ParseSpecial: true})); got != "the" {
		t.Errorf("between control tokens: %q", got)
	}
	id, _ := tok.ID("▁the")
	if got := tok.NewDecoder().Next(id); got != " the" {
		t.Errorf("a continuation begins %q", got)
	}
}

func TestDecodeAllocates(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	ids := tok.Encode("hello the world", EncodeOptions{})
	d := tok.NewDecoder()
	if n := testing.AllocsPerRun(100, func() {
		for _, id := range ids {
			d.Next(id)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
