package bpe

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Words that came before have the tokens that they would have without the cache: of any length, as often as other words
// take their place, and where a fragment must not become some tokens.
func TestCachedWordsAreTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var list []string
	for range 300 {
		word := ""
		for range 1 + rng.IntN(5) {
			word += tinyWords[rng.IntN(len(tinyWords))]
		}
		if rng.IntN(4) > 0 {
			word = " " + word
		}
		list = append(list, word)
	}
	var all strings.Builder
	all.WriteString("cat cat") // which a plain fragment does not become
	for range 4000 {
		all.WriteString(list[rng.IntN(len(list))])
	}
	text := all.String()
	for _, pre := range []string{"gpt-2", "llama-bpe"} {
		c := plainVocabulary()
		c.Pre = pre
		tok := must(t, c)
		for _, barred := range []map[int32]bool{nil, tok.special.barred, nil} {
			plain := &scratch{barred: barred}
			tok.encoder.encode(plain, text)
			for _, slots := range []int{1, 4, 64, cachedWords} {
				s := &scratch{words: newWordCache(slots), barred: barred}
				for range 2 { // once with what was read in between
					s.ids = s.ids[:0]
					tok.encoder.encode(s, text)
					if !slices.Equal(s.ids, plain.ids) {
						t.Fatalf("%s, %d slots: %d tokens, want %d", pre, slots, len(s.ids), len(plain.ids))
					}
					s.barred = tok.special.barred
					s.ids = s.ids[:0]
					tok.encoder.encode(s, text[:200])
					s.barred = barred
				}
			}
		}
	}
	tok := must(t, tinyByteLevel("gpt-2"))
	if short, long := text[:cachedText-1], text[:cachedText+1]; len(text) > cachedText {
		for _, x := range []string{short, long, short} {
			plain := &scratch{}
			tok.encoder.encode(plain, x)
			if got := tok.Encode(x, EncodeOptions{NoSpacePrefix: true}); !slices.Equal(got, plain.ids) {
				t.Errorf("a text of %d bytes has %d tokens, want %d", len(x), len(got), len(plain.ids))
			}
		}
	} else {
		t.Errorf("the text has only %d bytes", len(text))
	}
}
