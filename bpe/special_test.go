package bpe

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cutByDefinition looks for one token after the other, the longest first, in what
// the ones before have left.
func cutByDefinition(sp *specials, text string, parts []Part) []fragment {
	list := slices.Clone(sp.list)
	slices.SortStableFunc(list, func(a, b specialToken) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.id, b.id))
	})
	var s scratch
	for end, i := 0, 0; i < len(parts); i++ {
		end += len(parts[i].Text)
		s.ends = append(s.ends, end)
	}
	out := []fragment{{0, len(text), -1}}
	for _, tok := range list {
		in := out
		out = nil
		for _, f := range in {
			if f.id >= 0 {
				out = append(out, f)
				continue
			}
			for from := f.start; ; {
				at := strings.Index(text[from:f.end], tok.text)
				if at < 0 {
					break
				}
				start, end := from+at, from+at+len(tok.text)
				if !s.allowed(&tok, parts, start, end) {
					from = start + 1
					continue
				}
				if start > f.start {
					out = append(out, fragment{f.start, start, -1})
				}
				out = append(out, fragment{start, end, tok.id})
				f.start, from = end, end
			}
			if f.start < f.end {
				out = append(out, f)
			}
		}
	}
	return out
}

// TestCut compares with the definition, on tokens that overlap in every way.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := new(scratch)
	for range 3000 {
		var tokens []string
		var types []uint8
		for range 1 + rng.IntN(8) {
			b := make([]byte, 1+rng.IntN(5))
			for i := range b {
				b[i] = "ab<"[rng.IntN(3)]
			}
			if !slices.Contains(tokens, string(b)) {
				tokens, types = append(tokens, string(b)),
					append(types, []uint8{TypeControl, TypeUnknown, TypeUserDefined, TypeUserDefined}[rng.IntN(4)])
			}
		}
		sp := newSpecials(tokens, types)
		var parts []Part
		text := ""
		for range 1 + rng.IntN(4) {
			b := make([]byte, rng.IntN(12))
			for i := range b {
				b[i] = "aab<"[rng.IntN(4)]
			}
			parts = append(parts, Part{Text: string(b), ParseSpecial: rng.IntN(2) == 0, Plain: rng.IntN(4) == 0})
			text += string(b)
		}
		if text == "" {
			continue
		}
		if got, want := sp.cut(s, text, parts), cutByDefinition(&sp, text, parts); !slices.Equal(got, want) {
			t.Fatalf("tokens %q %v, parts %+v:\n got %v\nwant %v", tokens, types, parts, got, want)
		}
	}
}

// TestCutManyTokens has thousands of tokens that begin alike, all of them in a long
// text: a search for each of them would take minutes.
func TestCutManyTokens(t *testing.T) {
	var tokens []string
	var types []uint8
	var all strings.Builder
	for i := range 6000 {
		token := fmt.Sprintf("<|reserved_special_token_%d|>", i)
		tokens, types = append(tokens, token), append(types, TypeControl)
		all.WriteString(token)
	}
	for n := 1; n < 32; n++ {
		tokens, types = append(tokens, strings.Repeat("\n", n)), append(types, TypeUserDefined)
	}
	text := all.String() + strings.Repeat("<|reserved_special_token_", 8_000) + strings.Repeat("\n", 20_000)
	sp := newSpecials(tokens, types)
	var s scratch
	found := sp.cut(&s, text, []Part{{Text: text, ParseSpecial: true}})
	if want := 6000 + 1 + (20_000+30)/31; len(found) != want {
		t.Errorf("%d fragments, want %d", len(found), want)
	}
}
