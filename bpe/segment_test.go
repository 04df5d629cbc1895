package bpe

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestSegments compares long words with BPE by its definition, with merges across
// spaces and inside words in any order.
func TestSegments(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", "b", "c", "hello", " hello", "ll", "o", " world", "the", " the", " t", "thing", "in", " ",
		"  ", "日本", "!!", "\n\n", "\xff"}
	late, vocabularies := 0, 250
	if testkit.IsLong(t) {
		vocabularies = 2000
	}
	for range vocabularies {
		c := tinyByteLevel("superbpe")
		c.Tokens[0xff] = "" // a byte without a token
		for _, pair := range [][2]string{{"o", " "}, {"hello", " world"}, {"c", " t"}, {"hello world", " the"},
			{"in", "o"}, {"b", " hello"}} {
			if rng.IntN(4) == 0 {
				continue
			}
			l, r := spell(pair[0]), spell(pair[1])
			if !slices.Contains(c.Tokens, l) || !slices.Contains(c.Tokens, r) {
				continue
			}
			c.Tokens, c.Types = append(c.Tokens, l+r), append(c.Types, TypeNormal)
			c.Merges = append(c.Merges, l+" "+r)
		}
		rng.Shuffle(len(c.Merges), func(i, j int) { c.Merges[i], c.Merges[j] = c.Merges[j], c.Merges[i] })
		ranks := map[string]float64{}
		for i, m := range c.Merges {
			if _, ok := ranks[m]; !ok {
				ranks[m] = float64(i)
			}
		}
		c.UNK = int32(rng.IntN(2)*256) - 1 // none, or token 255, which is the one without a name
		tok := must(t, c)
		if tok.encoder.(*byteLevel).segments.limit < never {
			late++
		}
		var text string
		for len(text) <= 2*shortWord {
			text += alphabet[rng.IntN(len(alphabet))]
		}
		var want []string
		for _, piece := range naiveMerge(strings.Split(spell(text), ""), func(l, r string) (float64, bool) {
			p, ok := ranks[l+" "+r]
			return p, ok
		}) {
			if piece != spell("\xff") {
				want = append(want, piece)
			} else if c.UNK >= 0 {
				want = append(want, "")
			}
		}
		if got := tokenStrings(tok, tok.Encode(text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Fatalf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
	if late < vocabularies/4 || late == vocabularies {
		t.Errorf("%d of %d vocabularies join words", late, vocabularies)
	}
}

// TestLongSegments: with eight times the vocabularies.
func TestLongSegments(t *testing.T) {
	testkit.Long(t)
	TestSegments(t)
}

// superBPE makes a vocabulary whose tokens span words: GPT-2's, and the pairs of
// tokens that are most frequent in text.
func superBPE(t testing.TB, text string) *Tokenizer {
	t.Helper()
	c := config(t, testkit.Shared(t, "tokenizers/gpt-2.gguf"))
	c.Pre = "superbpe"
	for range 2 { // tokens of up to four words
		tok := must(t, c)
		count := map[string]int{} // by merge
		ids := tok.Encode(text, EncodeOptions{})
		for i := range len(ids) - 1 {
			count[tok.Token(ids[i])+" "+tok.Token(ids[i+1])]++
		}
		pairs := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
			return cmp.Or(count[b]-count[a], strings.Compare(a, b))
		})
		seen := map[string]bool{}
		for _, merge := range pairs[:min(4000, len(pairs))] {
			token := strings.ReplaceAll(merge, " ", "")
			if _, ok := tok.ID(token); !ok && !seen[token] {
				c.Tokens, c.Types = append(c.Tokens, token), append(c.Types, TypeNormal)
				c.Merges = append(c.Merges, merge)
				seen[token] = true
			}
		}
	}
	return must(t, c)
}

// TestSuperBPE compares with merging each word in one go, on prose and code.
func TestSuperBPE(t *testing.T) {
	for _, name := range []string{"text/war-and-peace.txt", "text/go-heldout.txt"} {
		text := read(t, testkit.Shared(t, name))
		if !testkit.IsLong(t) {
			text = text[:len(text)/5]
		}
		tok := superBPE(t, text)
		b := tok.encoder.(*byteLevel)
		if limit := b.segments.limit; limit < 50000 || limit > 50100 {
			t.Errorf("%s: merges from %d on are late; the first merge that joins words comes soon after GPT-2's 50000", name,
				limit)
		}
		var s scratch
		spans := 0
		for _, w := range words(b.pre.split, text) {
			b.merge(&s, w, never)
		}
		for _, id := range s.ids {
			if strings.Contains(strings.TrimLeft(string(tok.Bytes(id)), " "), " ") {
				spans++
			}
		}
		if spans < len(s.ids)/10 {
			t.Errorf("%s: %d of %d tokens span words", name, spans, len(s.ids))
		}
		if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, s.ids) {
			t.Errorf("%s: %d tokens, want %d, or not the same", name, len(got), len(s.ids))
		}
	}
}

// TestLongSuperBPE: of the whole of both texts.
func TestLongSuperBPE(t *testing.T) {
	testkit.Long(t)
	TestSuperBPE(t)
}

// BenchmarkSuperBPE is BenchmarkEncode for words of many kB: with a vocabulary that
// joins words, and with one that does not.
func BenchmarkSuperBPE(b *testing.B) {
	for _, name := range []string{"text/war-and-peace.txt", "text/go-heldout.txt"} {
		text := read(b, testkit.Shared(b, name))
		c := config(b, testkit.Shared(b, "tokenizers/gpt-2.gguf"))
		c.Pre = "superbpe"
		for kind, tok := range map[string]*Tokenizer{"joined": superBPE(b, text), "gpt-2": must(b, c)} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					tok.Encode(text, EncodeOptions{})
				}
			})
		}
	}
}
