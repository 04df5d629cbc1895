package speculative

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// With a draft vocabulary, of one token, of a few and of half of all, draft models, heads of all kinds and the model
// itself in fewer bits draft its tokens alone, and the text is that of plain decoding: greedy, sampled, with penalties,
// by stairs, as trees, and under a constraint that allows few or none of them.
func TestDraftVocabLeavesTheText(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	models := openHeads(t, rt)
	target, draft := pair(t)
	models["model"], models["self"] = [2]*engine.Model{target, draft}, [2]*engine.Model{target, target}
	code := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	for name, pair := range models {
		target, draft, prompt := pair[0], pair[1], code
		vocab := int32(target.Config().Vocab)
		if name != "model" && name != "self" {
			prompt = []int32{5, 40, 11, 3, 19, 3, 19, 8, 60, 22}
		}
		half := make([]int32, 0, vocab/2)
		for id := int32(0); id < vocab; id += 2 {
			half = append(half, id)
		}
		lists := [][]int32{{vocab - 1}, {4, 5, 7, 9, 13}, half}
		if name == "model" || name == "self" {
			lists = lists[2:]
		}
		var plain [7][]int32 // texts without drafts
		for k, tokens := range lists {
			f := engine.DraftFormOptions{Tokens: tokens, SameBits: name != "self"}
			if len(tokens) != 1 {
				f.Text = 6 // with tokens of the text itself
			}
			form, err := draft.NewDraftForm(context.Background(), f)
			if err != nil {
				t.Fatal(err)
			}
			drafter := func(one *engine.Session, tree bool) Drafter {
				if name == "self" {
					d, err := Self(draft, func() *engine.DraftForm { return form }, engine.SessionOptions{})
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				o := engine.SessionOptions{Form: form, Context: min(one.Context(), draft.Config().Context)}
				if h := draft.Head(); h != nil && h.SharesCache {
					o.Target = one
				}
				s, err := draft.NewSession(o)
				if err != nil {
					t.Fatal(err)
				}
				if tree {
					return Tree(s, TreeOptions{})
				}
				return Model(s)
			}
			for i, c := range []struct {
				s engine.Sampling
				v Verifier
			}{{}, {s: engine.Sampling{Temperature: 0.8, Seed: 3}}, {s: penalties(engine.Sampling{Temperature: 0.8, Seed: 4})},
				{v: Stairs(StairsOptions{})}, {s: engine.Sampling{Constraint: records(int(vocab))}},
				{s: engine.Sampling{Temperature: 0.9, Seed: 5}, v: Rejection()},
				{s: engine.Sampling{Temperature: 0.9, Seed: 6}, v: Block()}} {
				if len(lists) > 1 && (i+k)%2 > 0 && !testkit.IsLong(t) {
					continue // the way with one token is that with half of all
				}
				const n = 14
				if plain[i] == nil {
					plain[i], _ = collect(t, New(session(t, target, 0), nil, Options{MaxTokens: n}), prompt, c.s)
				}
				want := plain[i]
				for _, tree := range []bool{false, true} {
					what := fmt.Sprint(name, ", ", len(tokens), " tokens, ", i, ", tree ", tree)
					o := Options{MaxTokens: n, Verifier: c.v, Schedule: Constant(ConstantOptions{Length: 4})}
					if tree && (name == "self" || c.v != nil) {
						continue
					}
					known := slices.Clone(tokens)
					if f.Text > 0 {
						known = append(known, prompt...)
					}
					o.Trace = func(r *Round) {
						for j, id := range r.Draft.Tokens {
							if r.Draft.Sources[j] == SourceDraft && !slices.Contains(known, id) {
								t.Errorf("%s: %d was drafted", what, id)
							}
							if f.Text > 0 { // what is forced is text, too
								known = append(known, id, r.Next)
							}
						}
					}
					one := session(t, target, 0)
					decoder := New(one, drafter(one, tree), o)
					got, _ := collect(t, decoder, prompt, c.s)
					if follows := i > 4; follows && len(got) != n || !follows && !slices.Equal(got, want) {
						t.Errorf("%s:\n got %v\nwant %v", what, got, want)
					}
					if st := decoder.Stats(); st.Drafted == 0 && i != 4 {
						t.Errorf("%s: nothing was drafted", what)
					}
				}
			}
			form.Close()
		}
	}
}

// TestLongDraftVocabLeavesTheText: each vocabulary with each way to write.
func TestLongDraftVocabLeavesTheText(t *testing.T) {
	testkit.Long(t)
	TestDraftVocabLeavesTheText(t)
}

// listedOnly is a model that knows some tokens of the tiny vocabulary alone.
func listedOnly(model func([]int32, []float32), without ...int) func([]int32, []float32) {
	return func(sequence []int32, row []float32) {
		model(sequence, row)
		for _, id := range without {
			row[id] = float32(math.Inf(-1))
		}
	}
}

// A draft vocabulary begins with the tokens that end texts, control and added tokens, then has the frequent ones of
// texts, then the short ones, and the others in their order.
func TestDraftVocabulary(t *testing.T) {
	const control, added, unused = bpe.TypeControl, bpe.TypeUserDefined, bpe.TypeUnused
	tokens := []string{"the", "a", "xyz", "b", "abc", "<tool>", "<end>", "<s>", "[PAD8]", "def", "<|extra|>"}
	types := []int32{1, 1, 1, 1, 1, added, control, control, unused, 1, control}
	tok, err := bpe.New(bpe.Config{Model: "gpt2", Tokens: tokens, Types: types, BOS: 7, EOS: 6})
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]uint64, len(tokens))
	counts[4], counts[9], counts[2] = 7, 9, 7
	for _, c := range []struct {
		n      int
		counts []uint64
		want   []int32
	}{
		{1, nil, []int32{6}}, {2, nil, []int32{1, 6}}, {4, nil, []int32{1, 3, 5, 6}}, {6, nil, []int32{0, 1, 3, 5, 6, 7}},
		{6, counts, []int32{2, 4, 5, 6, 7, 9}}, {7, counts, []int32{1, 2, 4, 5, 6, 7, 9}},
		{5, counts, []int32{2, 4, 5, 6, 9}}, {100, counts, []int32{0, 1, 2, 3, 4, 5, 6, 7, 9, 10}},
	} {
		if got := DraftVocab(tok, c.n, c.counts); !slices.Equal(got, c.want) {
			t.Errorf("%d tokens, counts %v: %v, want %v", c.n, c.counts, got, c.want)
		}
	}
}
