package spec

import (
	"errors"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// With a draft vocabulary the text is the same, the drafts are of its tokens, and its rows count in the model's bytes:
// of a draft model, alone and in shared passes, and of the target in fewer bits.
func TestDraftVocab(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	tok := p.Target.Tokenizer()
	some := speculative.DraftVocab(tok, 300, nil)
	r := Request{Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 24}
	var want string
	for name, c := range map[string]struct {
		o    Options
		form bool
	}{
		"model": {Options{Speculation: speculative.Choice{Drafter: "model", Schedule: "constant"}}, true},
		"alone": {Options{Speculation: speculative.Choice{Drafter: "tree", Schedule: "constant"}, Parallel: 1}, true},
		"self":  {Options{Speculation: speculative.Choice{Drafter: "self", Schedule: "constant"}}, false},
	} {
		for i, tokens := range [][]int32{nil, some, some} {
			c.o.DraftVocab, c.o.DraftText = tokens, i-2 // without those of the text at first
			text := []int{0, -1, 512}[i]
			m, err := New(p, c.o)
			if err != nil {
				t.Fatal(name, err)
			}
			before := m.Bytes() - p.Target.Bytes() - p.Draft.Bytes()
			if rows := p.Draft.DraftVocabBytes(len(tokens), text); before != rows || (rows > 0) != (tokens != nil) {
				t.Errorf("%s, %d tokens: %d bytes, %d expected", name, len(tokens), before, rows)
			}
			one, others := r, 0 // drafted tokens that are not in the list
			one.Trace = func(r *speculative.Round) {
				for _, id := range r.Draft.Tokens {
					if r.Draft.Source == speculative.SourceDraft && tokens != nil && c.o.Speculation.Drafter != "tree" &&
						!slices.Contains(tokens, id) {
						others++
					}
				}
			}
			a, err := Collect(m.Generate(t.Context(), one))
			if err != nil {
				t.Fatal(name, err)
			}
			if want == "" {
				want = a[0].Text
			}
			if a[0].Text != want || a[0].Stats.Drafted == 0 {
				t.Errorf("%s, %d tokens: %+v, %q, want %q", name, len(tokens), a[0].Stats, a[0].Text, want)
			}
			if (others > 0) != (text > 0) && c.o.Speculation.Drafter != "tree" {
				t.Errorf("%s, %d tokens of the text: %d that are not in the list were drafted", name, text, others)
			}
			m.Close()
		}
	}
	p.Close = nil
	for _, bad := range [][]int32{{}, {3, 3}, {-1}, {int32(p.Target.Config().Vocab)}} {
		if _, err := New(p, Options{DraftVocab: bad}); !errors.Is(err, ErrOptions) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	s := engine.Sessions{Tokens: 100, Rows: 8, Count: 1}
	least := func(tokens int) int64 {
		var low *MemoryError
		_, err := Room{Limit: 1, Sessions: s, Kept: -1, DraftVocab: tokens}.Divide(p.Target, p.Draft)
		if !errors.As(err, &low) {
			t.Fatal(err)
		}
		return low.Need
	}
	if more := least(300) - least(0); more != p.Draft.DraftVocabBytes(300, 512) {
		t.Errorf("a draft vocabulary is planned with %d bytes", more)
	}
}
