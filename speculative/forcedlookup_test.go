package speculative

import (
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// TestDraftModelFollowsForcedTokens: a draft model that equals the target is right behind forced tokens and after those that
// the target spelled in another way: its cache holds what the text holds.
func TestDraftModelFollowsForcedTokens(t *testing.T) {
	for _, sampling := range []engine.Sampling{{}, {Temperature: 1, Seed: 2}} {
		sampling.Constraint = records(matrixVocab)
		refused := 0
		for name, drafter := range map[string]Drafter{
			"model":  Model(newFake(t, matrixVocab, matrixContext, random(7))),
			"splice": Splice(newFake(t, matrixVocab, matrixContext, random(7)), TreeOptions{Sources: []CandidateSource{}}),
		} {
			trace := func(r *Round) {
				if i := r.rejected(); i >= 0 {
					if !r.Draft.isForced(i) {
						t.Errorf("%s: token %d of %v is wrong, accepted %v, next %d", name, i, r.Draft.Tokens, r.Path, r.Next)
					}
					refused++
				}
			}
			d := New(newFake(t, matrixVocab, matrixContext, random(7)), drafter, Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 100, Trace: trace})
			collect(t, d, matrixPrompt, sampling)
		}
		if refused == 0 {
			t.Error("no forced token was refused: nothing was tested")
		}
	}
}

// TestLookupsAcrossForcedTokens: a repeated text is drafted without an error through its forced runs, and what the lookups
// learn of their matches is not mixed up by them.
func TestLookupsAcrossForcedTokens(t *testing.T) {
	write := slices.Repeat([]int32{1, 2, 3, 4, 5, 4, 1, 2, 3, 4, 6, 4, 1, 2, 3, 4, 7, 4}, 8)
	for name, drafter := range map[string]Drafter{
		"ngram": NGram(NGramOptions{MinMatch: 9, MaxMatch: 20}), "suffix": Suffix(SuffixOptions{MinMatch: 9}),
	} {
		rounds := 0
		trace := func(r *Round) {
			if r.Position > 40 && r.Position+r.Draft.Len() < len(write) {
				rounds++
				if r.Accepted() != 5 || r.Drafted() != 5 {
					t.Errorf("%s at %d: drafted %v, accepted %v", name, r.Position, r.Draft.Tokens, r.Path)
				}
			}
		}
		d := New(newFake(t, 64, 200, script(1, write...)), drafter, Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: len(write), Trace: trace})
		collect(t, d, []int32{50}, engine.Sampling{Constraint: records(64)})
		if rounds < 3 {
			t.Errorf("%s: %d rounds", name, rounds)
		}
		rates := drafter.(interface{ rates() []*rate }).rates()
		seen := 0.0
		for _, r := range rates {
			seen += r.trials
			if r.hits < r.trials-1e-9 {
				t.Errorf("%s: %v of %v right", name, r.hits, r.trials)
			}
		}
		if seen == 0 {
			t.Errorf("%s learned nothing", name)
		}
	}
}

// TestStopLooksAtDraftedTokens: a token of low confidence ends a draft, also with forced tokens behind it.
func TestStopLooksAtDraftedTokens(t *testing.T) {
	var d Draft
	d.vocab, d.rules, d.root = 64, records(64), 5
	d.reset(0, 0, 0)
	d.mostDepth = 20
	d.extend(10, 0, 10)
	d.schedule = Constant(ConstantOptions{Length: 10, MinConfidence: 0.5})
	if !d.Add(5, 0.6, nil) || !d.More() || !d.Add(4, 0.1, nil) {
		t.Fatal("refused")
	}
	if last := d.Extend(1); last != 5 || d.More() {
		t.Errorf("last forced token %d, more %v", last, d.More())
	}
	if d.ownDepth(1) != 2 || d.ownDepth(4) != 2 || !d.isForced(2) || d.isForced(1) {
		t.Errorf("%v", d.own)
	}
}
