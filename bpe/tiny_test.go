package bpe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// tinyWords are what the tiny vocabularies can say in one token, in the order
// in which they were learned; each is made of two earlier ones or of bytes.
var tinyWords = []string{
	"th", "in", "er", " t", " th", "the", " the", "he", "ll", "lo", "llo", "hello", " w", "or", " wor", "ld", " world",
	"ing", "  ", "    ", "\n\n", "'s", "é", "日", "本", "日本", "ab", "abc", "bc", "aa", "aaaa", "12", "123", "!!",
}

var tinySpecial = []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im|>"}

// tinyByteLevel is a byte-level vocabulary: the bytes, tinyWords, the special
// tokens (control), and a user-defined token.
func tinyByteLevel(pre string) Config {
	c := Defaults("gpt2", pre)
	add := func(text string, kind int32) {
		c.Tokens, c.Types = append(c.Tokens, text), append(c.Types, kind)
	}
	known := map[string]bool{}
	for b := range 256 {
		known[string([]byte{byte(b)})] = true
		add(spell(string([]byte{byte(b)})), TypeNormal)
	}
	for _, w := range tinyWords {
		for i := 1; i < len(w); i++ {
			if known[w[:i]] && known[w[i:]] {
				c.Merges = append(c.Merges, spell(w[:i])+" "+spell(w[i:]))
				known[w] = true
			}
		}
		if !known[w] && len(w) == 3 { // a character of three bytes: learn its first two
			c.Merges = append(c.Merges, spell(w[:1])+" "+spell(w[1:2]), spell(w[:2])+" "+spell(w[2:]))
			add(spell(w[:2]), TypeNormal)
			known[w[:2]], known[w] = true, true
		}
		if known[w] {
			add(spell(w), TypeNormal)
		}
	}
	for _, s := range tinySpecial {
		add(s, TypeControl)
	}
	add("<tool>", TypeUserDefined)
	c.BOS = int32(len(c.Tokens) - 1 - len(tinySpecial))
	c.EOS = c.BOS + 1
	c.AddBOS, c.AddEOS = true, true
	// Two words may share their first two bytes.
	seen := map[string]bool{}
	for i, s := range c.Tokens {
		if seen[s] {
			c.Tokens[i] = ""
		}
		seen[s] = true
	}
	return c
}

func spell(bytes string) string {
	var s strings.Builder
	for i := range len(bytes) {
		s.WriteRune(byteRunes[bytes[i]])
	}
	return s.String()
}

// tinySentencePiece is the like for SentencePiece, with byte fallback.
func tinySentencePiece() Config {
	c := Defaults("llama", "")
	add := func(text string, kind int32, score float32) {
		c.Tokens, c.Types, c.Scores = append(c.Tokens, text), append(c.Types, kind), append(c.Scores, score)
	}
	add("<unk>", TypeUnknown, 0)
	add("<s>", TypeControl, 0)
	add("</s>", TypeControl, 0)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), TypeByte, 0)
	}
	for i, w := range tinyWords {
		if w != "\n\n" {
			add(strings.ReplaceAll(w, " ", spaceMark), TypeNormal, -float32(i))
		}
	}
	for i, r := range spaceMark + "abcdefghijklmnopqrstuvwxyz<>/0'!" {
		add(string(r), TypeNormal, -1000-float32(i))
	}
	add("<tool>", TypeUserDefined, 0)
	return c
}

// tinyCharLevel is the like for the gemma4 kind, with all splits of a word as merges.
func tinyCharLevel() Config {
	c := Defaults("gemma4", "")
	add := func(text string, kind int32) {
		c.Tokens, c.Types = append(c.Tokens, text), append(c.Types, kind)
	}
	add("<pad>", TypeControl)
	add("<eos>", TypeControl)
	add("<bos>", TypeControl)
	add("<unk>", TypeUnknown)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), TypeByte)
	}
	known := map[string]bool{}
	for _, r := range spaceMark + "abcdefghijklmnopqrstuvwxyz<>/0'!12\n日本é" {
		known[string(r)] = true
		add(string(r), TypeNormal)
	}
	for _, w := range append(slices.Clone(tinyWords), "\n\n\n") {
		w = strings.ReplaceAll(w, " ", spaceMark)
		for i := 1; i < len(w); i++ {
			if known[w[:i]] && known[w[i:]] {
				c.Merges = append(c.Merges, w[:i]+" "+w[i:])
			}
		}
		if !known[w] {
			known[w] = true
			add(w, TypeNormal)
		}
	}
	add(strings.Repeat("\n", 5), TypeNormal)
	add("<tool>", TypeUserDefined)
	c.BOS, c.EOS, c.UNK = 2, 1, 3
	return c
}

// charLevelByDefinition encodes text without special tokens.
func charLevelByDefinition(tok *Tokenizer, text string) (list []string) {
	for _, line := range cutAt([]string{strings.ReplaceAll(text, " ", spaceMark)}, rule(`[^\n]+|[\n]+`)) {
		if id, ok := tok.ID(line); ok && tok.isText(id) && strings.Trim(line, "\n") == "" {
			list = append(list, line)
			continue
		}
		var chars []string
		for i := 0; i < len(line); {
			_, n := utf8.DecodeRuneInString(line[i:])
			chars = append(chars, line[i:i+n])
			i += n
		}
		for _, s := range naiveMerge(chars, func(l, r string) (float64, bool) {
			left, ok := tok.ID(l)
			right, ok2 := tok.ID(r)
			m := tok.encoder.(*charLevel).merges.find(pairKey(left, right))
			return float64(m.rank), ok && ok2 && m.rank != never
		}) {
			if id, ok := tok.ID(s); ok && tok.isText(id) {
				list = append(list, s)
				continue
			}
			for i := range len(s) {
				list = append(list, fmt.Sprintf("<0x%02X>", s[i]))
			}
		}
	}
	return list
}

func must(t testing.TB, c Config) *Tokenizer {
	t.Helper()
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// spellings returns the vocabulary's spellings of ids.
func tokenStrings(tok *Tokenizer, ids []int32) []string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = tok.Token(id)
	}
	return s
}

// slowly encodes a word as the definition of BPE has it: of all neighbours
// that make a token merge the most important, of equal ones the leftmost,
// until there are none. join returns what two spellings make.
func naiveMerge(word []string, join func(left, right string) (priority float64, ok bool)) []string {
	for {
		at, best := -1, math.Inf(1)
		for i := range len(word) - 1 {
			if p, ok := join(word[i], word[i+1]); ok && p < best {
				at, best = i, p
			}
		}
		if at < 0 {
			return word
		}
		merged := append([]string{}, word[:at]...)
		merged = append(merged, word[at]+word[at+1])
		word = append(merged, word[at+2:]...)
	}
}
