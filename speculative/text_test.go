package speculative

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// letters is a tokenizer of 64 tokens: "a" to "z", then single bytes that make up UTF-8, then an end.
func letters(t testing.TB) *bpe.Tokenizer {
	t.Helper()
	c := bpe.Config{Model: "llama", BOS: -1, EOS: 63, UNK: -1}
	for i := range 64 {
		token, kind := string(rune('a'+i)), int32(bpe.TypeNormal)
		switch {
		case i == 40:
			token, kind = "<0xC3>", bpe.TypeByte
		case i == 41:
			token, kind = "<0xA9>", bpe.TypeByte
		case i == 63:
			token, kind = "</s>", bpe.TypeControl
		case i > 25:
			token = strings.Repeat("z", i)
		}
		c.Tokens, c.Types, c.Scores = append(c.Tokens, token), append(c.Types, kind), append(c.Scores, 0)
	}
	tokens, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// ids spells a text.
func ids(text string) (ids []int32) {
	for _, b := range []byte(text) {
		switch b {
		case 0xC3:
			ids = append(ids, 40)
		case 0xA9:
			ids = append(ids, 41)
		case '.':
			ids = append(ids, 63)
		default:
			ids = append(ids, int32(b-'a'))
		}
	}
	return ids
}

// Stop strings, characters and the end of the text at every place relative to a draft's edge.
func TestTextAcrossDraftEdges(t *testing.T) {
	for _, c := range []struct {
		write, stop, want string
		end               End
		n                 int // tokens
	}{
		{"abcdefghijklm.", "fgh", "abcde", EndStop, 8},
		{"ababababcabab.", "ababc", "abab", EndStop, 9},
		{"abcdéfgéhijkl.", "éh", "abcdéfg", EndStop, 11},
		{"abcdefghijklm.", "mm", "abcdefghijklm", EndOfText, 14},
		{"abcdefghijklm.", "", "abcdefghijklm", EndOfText, 14},
		{"abcdefghijklmnopqrst", "tu", "abcdefghijklmnop", EndLength, 16},
		{"abcdefghijklmnopqrst", "pq", "abcdefghijklmnop", EndLength, 16}, // held back until the end
		{"abcdefghijklmno\xc3", "", "abcdefghijklmno\uFFFD", EndLength, 16},
	} {
		write := ids(c.write)
		for k := range 13 {
			o := Options{Schedule: Constant(ConstantOptions{Length: cmp.Or(k, -1)}), Tokenizer: letters(t), MaxTokens: 16}
			if c.stop != "" {
				o.Stop = []string{"nothing like it", c.stop}
			}
			d := New(newFake(t, 64, 100, script(1, write...)), &scripted{tokens: write}, o)
			var shown []string
			n, all := 0, letters(t).NewDecoder()
			behind := 0 // bytes of whole characters that are not shown
			for tok, err := range d.Generate(context.Background(), []int32{1}, engine.Sampling{}) {
				if err != nil {
					t.Fatal(err)
				}
				shown = append(shown, tok.Text)
				n++
				if behind += len(all.Next(tok.ID)) - len(tok.Text); d.Stats().End == "" && tok.Held != behind {
					t.Errorf("%q, stop %q: %d bytes are held back behind token %d, not %d", c.write, c.stop, behind, n, tok.Held)
				}
			}
			if text := strings.Join(shown, ""); text != c.want || n != c.n || d.Stats().End != c.end {
				t.Errorf("%q, stop %q, drafts of %d: %q in %d tokens, %s", c.write, c.stop, k, text, n, d.Stats().End)
			}
			for _, s := range shown {
				if strings.ToValidUTF8(s, "?") != s {
					t.Errorf("%q shown in pieces %q", c.write, shown)
				}
			}
		}
	}
}

// What was held back when an error ends the text comes with the error.
func TestHeldTextComesWithTheError(t *testing.T) {
	write := ids("abcdefgh")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := New(newFake(t, 64, 100, script(1, write...)), nil, Options{Tokenizer: letters(t), Stop: []string{"cdx"}})
	text := ""
	for tok, err := range d.Generate(ctx, []int32{1}, engine.Sampling{}) {
		text += tok.Text
		if err == nil && tok.ID == 3 {
			cancel()
		}
	}
	if text != "abcd" {
		t.Errorf("got %q", text)
	}
}

func TestStopStringsAsSampled(t *testing.T) { // in random text, against a cut made by hand
	model := loops(61)
	wide := func(text []int32, row []float32) { model(text, row[:26]); clear(row[26:]) }
	s := engine.Sampling{Temperature: 1, Seed: 3}
	all := plain(t, 64, wide, []int32{1}, 60, s)
	tokens := letters(t)
	free := tokens.Decode(all)
	for at := range 50 {
		stop := free[at : at+3]
		want := free[:strings.Index(free, stop)]
		for _, drafter := range []Drafter{nil, Model(newFake(t, 64, 100, noisy(wide, 0.3))), NGram(NGramOptions{})} {
			d := New(newFake(t, 64, 100, wide), drafter,
				Options{Schedule: Constant(ConstantOptions{Length: 4}), Tokenizer: tokens, Stop: []string{stop}, MaxTokens: 60})
			got, text := collect(t, d, []int32{1}, s)
			if text != want || !slices.Equal(got, all[:len(got)]) || d.Stats().End != EndStop {
				t.Errorf("stop %q: %q, want %q", stop, text, want)
			}
		}
	}
}
