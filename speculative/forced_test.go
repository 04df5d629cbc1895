package speculative

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/testkit"
)

// TestConstrainedIsPlain: under a constraint every drafter, schedule and draft length writes what plain constrained
// decoding writes, greedy and sampled.
func TestConstrainedIsPlain(t *testing.T) {
	c := records(matrixVocab)
	var texts []matrixText
	for _, s := range []engine.Sampling{{}, {Temperature: 0.8, Seed: 5},
		{Temperature: 1.2, TopP: 0.9, RepeatPenalty: 1.2, Seed: 6}} {
		s.Constraint, s.ConstraintFrom = c, len(matrixPrompt)
		texts = append(texts, matrixText{random(7), s}, matrixText{loops(8), s})
	}
	testMatrix(t, texts, []int{1, 3, 8})
}

// TestLongConstrainedIsPlain: every drafter, schedule and draft length with every way to sample.
func TestLongConstrainedIsPlain(t *testing.T) {
	testkit.Long(t)
	TestConstrainedIsPlain(t)
}

// TestStairsConstrained: the faithful mode computes rows anew; forced tokens are part of them.
func TestStairsConstrained(t *testing.T) {
	s := engine.Sampling{Temperature: 0.8, Seed: 5, Constraint: records(matrixVocab), ConstraintFrom: len(matrixPrompt)}
	want := plain(t, matrixVocab, random(7), matrixPrompt, 40, s)
	for _, recompute := range []bool{false, true} {
		d := New(newFake(t, matrixVocab, matrixContext, random(7)),
			Model(newFake(t, matrixVocab, matrixContext, noisy(random(7), 0.3))),
			Options{Schedule: Constant(ConstantOptions{Length: 3}),
				Verifier: Stairs(StairsOptions{Recompute: recompute}), MaxTokens: 40})
		if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) || d.Stats().ForcedAccepted == 0 {
			t.Errorf("%v, want %v; %+v", got, want, d.Stats())
		}
	}
}

// five is a constraint on five tokens by the last one: 3 is forced after 2, and 1 1 after 4, where 0 is allowed too,
// as other spellings are.
func five() *ruled {
	allowed := [][]int32{{1, 2}, {0, 1, 2, 3, 4}, {3}, {0, 2, 4}, {0, 1}, {0, 1, 2, 3}, {1}}
	return &ruled{
		vocab: tinyVocab,
		next: func(state, id int32) int32 {
			if state == 0 {
				state = 6 // the start
			}
			if !slices.Contains(allowed[state-1], id) {
				return -1
			}
			if state == 5 && id == 1 {
				return 7
			}
			return id + 1
		},
		forced: func(state int32) []int32 {
			return map[int32][]int32{3: {3}, 5: {1, 1}, 7: {1}}[state]
		},
	}
}

// unmasked is a model drafter that knows of no constraint: its q has mass on forbidden tokens.
type unmasked struct{ model *modelDrafter }

func (u unmasked) Start(ctx context.Context, s Setup) error {
	s.Sampling.Constraint = nil
	return u.model.Start(ctx, s)
}
func (u unmasked) Draft(ctx context.Context, text []int32, d *Draft) error {
	return u.model.Draft(ctx, text, d)
}
func (u unmasked) Observe(r *Round) { u.model.Observe(r) }

func TestRejectionConstrained(t *testing.T) { testConstrainedDistribution(t, Rejection) }
func TestBlockConstrained(t *testing.T)     { testConstrainedDistribution(t, Block) }

// TestLongRejectionConstrained and the other: with six times the texts.
func TestLongRejectionConstrained(t *testing.T) {
	testkit.Long(t)
	testConstrainedDistribution(t, Rejection)
}

func TestLongBlockConstrained(t *testing.T) {
	testkit.Long(t)
	testConstrainedDistribution(t, Block)
}

func testConstrainedDistribution(t *testing.T, verifier func() Verifier) {
	fresh := func(seed uint64) *fake { return newFake(t, tinyVocab, 32, tiny(seed)) }
	for _, x := range []named[Drafter]{
		{"none", func() Drafter { return nil }},
		{"model", func() Drafter { return Model(fresh(8)) }},
		{"unmasked", func() Drafter { return unmasked{Model(fresh(8)).(*modelDrafter)} }},
		{"ngram", func() Drafter { return NGram(NGramOptions{MinMatch: 1, MaxMatch: 2}) }},
		{"suffix", func() Drafter { return Suffix(SuffixOptions{MinMatch: 1}) }},
		{"replay", func() Drafter { return Replay(ReplayOptions{Tokens: []int32{0, 1, 2, 3, 4, 0}}) }},
		{"tree", func() Drafter {
			return Tree(fresh(8), TreeOptions{Sources: []CandidateSource{NGramSource(NGramOptions{MinMatch: 1})}})
		}},
		{"splice", func() Drafter { return Splice(fresh(8), TreeOptions{}) }},
		{"siblings", func() Drafter { return &siblings{} }},
		{"merged", func() Drafter {
			return Merge(Model(fresh(8)), unmasked{Model(fresh(9)).(*modelDrafter)}, NGram(NGramOptions{MinMatch: 1}))
		}},
	} {
		for sampling, s := range map[string]engine.Sampling{
			"plain": {Temperature: 1}, "filtered": {Temperature: 0.8, TopP: 0.9}} {
			texts := resolving(t) / 5
			s.Constraint, s.ConstraintFrom = five(), 2
			off := chiSquared(t, s, texts, func() *Decoder {
				return New(fresh(3), x.make(), Options{
					Schedule: Constant(ConstantOptions{Length: 3}), Verifier: verifier(), MaxTokens: 6, Trace: func(r *Round) {
						if x.name != "unmasked" && x.name != "merged" && slices.Contains(r.Draft.states, deadState) {
							t.Errorf("%s drafted a forbidden token", x.name)
						}
					}})
			})
			if math.Abs(off) > 4 {
				t.Errorf("%s, %s: off by %.1f", x.name, sampling, off)
			}
		}
	}
}

// TestForcedTokensSavePasses: forced runs are verified in one pass without a drafter, behind the tokens of a drafter
// without passes of its model, and say who wrote them.
func TestForcedTokensSavePasses(t *testing.T) {
	c := records(64)
	// Records of 1 2 3 4 5 4, of which 1 2 3 4 are forced, 18 tokens.
	write := slices.Repeat([]int32{1, 2, 3, 4, 5, 4}, 3)
	constant := func() Schedule { return Constant(ConstantOptions{Length: 2}) }
	run := func(drafter Drafter) (*Decoder, []Token) {
		d := New(newFake(t, 64, 100, script(1, write...)), drafter, Options{Schedule: constant(), MaxTokens: len(write)})
		var all []Token
		for tok, err := range d.Generate(context.Background(), []int32{50}, engine.Sampling{Constraint: c}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tok)
		}
		checkStats(t, d.Stats(), len(write))
		for i, tok := range all {
			if tok.ID != write[i] {
				t.Fatalf("token %d is %d, want %d", i, tok.ID, write[i])
			}
		}
		return d, all
	}

	d, all := run(nil)
	// 1 2 3 4 with the target's 5, then its 4.
	if s := d.Stats(); s.TargetPasses != 6 || s.Forced != 12 || s.ForcedAccepted != 12 ||
		s.Drafted != 0 || s.Accepted != 0 {
		t.Errorf("without a drafter: %+v", s)
	}
	for i, tok := range all {
		want := SourceGrammar
		if i%6 >= 4 {
			want = SourceTarget
		}
		if tok.Source != want || tok.Drafted != (want == SourceGrammar) {
			t.Errorf("token %d: %q, drafted %v", i, tok.Source, tok.Drafted)
		}
	}

	draft := newFake(t, 64, 100, script(1, write...))
	d, all = run(Model(draft))
	// Round 1: 1 2 3 4, drafted 5 and 4, 1 2 3 4, and the target's 5. Round 2: drafted 4, 1 2 3 4, drafted 5, and the
	// target's 4.
	if s := d.Stats(); s.TargetPasses != 2 || s.Forced != 12 || s.Drafted != 4 || s.Accepted != 4 ||
		s.DraftPasses != 4 || draft.passes != 4 {
		t.Errorf("with a model: %+v, %d passes", s, draft.passes)
	}
	if all[4].Source != SourceDraft || all[6].Source != SourceGrammar || all[17].Source != SourceTarget {
		t.Errorf("with a model: %+v", all)
	}
	if s := d.Stats(); !slices.Equal(s.DraftedAt, []int{2, 2}) || !slices.Equal(s.AcceptedAt, []int{2, 2}) {
		t.Errorf("positions: %v, %v", s.DraftedAt, s.AcceptedAt)
	}
	for name, drafter := range map[string]Drafter{
		"tree":   Tree(newFake(t, 64, 100, script(1, write...)), TreeOptions{}),
		"merge":  Merge(Model(newFake(t, 64, 100, script(1, write...))), NGram(NGramOptions{})),
		"replay": Replay(ReplayOptions{Tokens: write}),
	} {
		if d, _ = run(drafter); d.Stats().TargetPasses > 4 || d.Stats().ForcedAccepted < 8 || d.Stats().Accepted == 0 {
			t.Errorf("%s: %+v", name, d.Stats())
		}
	}
	// A drafter that does not continue forced tokens is not asked where a run begins, and its drafts are extended.
	d, _ = run(&scripted{tokens: write})
	if s := d.Stats(); s.ForcedAccepted < 4 || s.Accepted == 0 {
		t.Errorf("scripted: %+v", s)
	}
}

// TestForcedBounds: forced tokens stay within token budget and context.
func TestForcedBounds(t *testing.T) {
	c := &ruled{vocab: 64, next: func(s, id int32) int32 {
		if id == 7 {
			return s + 1
		}
		return -1
	}, forced: func(int32) []int32 { return slices.Repeat([]int32{7}, 500) }}
	s := engine.Sampling{Constraint: c}
	for _, most := range []int{1, 2, 40, 63, 64, 65, 200} {
		for _, drafter := range []func() Drafter{
			func() Drafter { return nil }, func() Drafter { return Model(newFake(t, 64, 90, random(2))) }} {
			d := New(newFake(t, 64, 400, random(1)), drafter(),
				Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: most})
			if got, _ := collect(t, d, []int32{1}, s); len(got) != most || d.drafter == nil &&
				d.Stats().TargetPasses != (most+ForcedMost)/(ForcedMost+1) {
				t.Errorf("%d tokens: %d in %d passes", most, len(got), d.Stats().TargetPasses)
			}
			d = New(newFake(t, 64, most, random(1)), drafter(), Options{Schedule: Constant(ConstantOptions{Length: 5})})
			if got, _ := collect(t, d, []int32{1}, s); len(got) != most || d.Stats().End != EndContext {
				t.Errorf("context of %d: %d tokens, %s", most, len(got), d.Stats().End)
			}
		}
	}
}

// TestConstraintEndsInsideDraft: what a drafter proposes behind the end of the constrained text is refused.
func TestConstraintEndsInsideDraft(t *testing.T) {
	c := &ruled{vocab: 64, final: func(s int32) bool { return s == 3 }, next: func(s, id int32) int32 {
		if s < 3 && id == 10+s || s == 3 && id == 63 {
			return s + 1
		}
		return -1
	}}
	eog := func(id int32) bool { return id == 63 }
	for _, end := range []struct {
		s   engine.Sampling
		n   int
		end End
	}{{engine.Sampling{}, 4, EndOfText}, {engine.Sampling{Banned: []int32{63}}, 3, EndComplete}} {
		end.s.Constraint = c
		for name, drafter := range map[string]Drafter{
			"chain":        &scripted{tokens: []int32{10, 11, 12, 13, 14, 15}},
			"past the end": &scripted{tokens: []int32{10, 11, 12, 63, 10, 11}},
			"replay":       Replay(ReplayOptions{Tokens: []int32{10, 11, 12, 10, 11, 12}}),
			"merge":        Merge(&scripted{tokens: []int32{10, 11, 12, 13}}, &scripted{tokens: []int32{10, 12}}),
		} {
			target := newFake(t, 64, 100, random(1))
			d := New(target, drafter, Options{Schedule: Constant(ConstantOptions{Length: 8}), EOG: eog})
			if got, _ := collect(t, d, []int32{1}, end.s); !slices.Equal(got[:3], []int32{10, 11, 12}) || len(got) != end.n ||
				d.Stats().End != end.end {
				t.Errorf("%s: %v, %s", name, got, d.Stats().End)
			}
			if target.passes != 1 {
				t.Errorf("%s: %d passes", name, target.passes)
			}
		}
	}
}

// TestConstraintFailsInDraft: an error of the constraint about a draft, or about what is forced, ends no text, and
// drafts go on some rounds later. One about a token of the text ends it where plain decoding's ends.
func TestConstraintFailsInDraft(t *testing.T) {
	const n, wrong, behindWrong = 40, 63, 100
	broken, prompt, drafted := errors.New("broken"), []int32{2, 3, 4, 1}, count(n)
	drafted[3] = wrong
	for name, x := range map[string]struct {
		state  int32 // that it fails in
		forced bool  // while it looks for forced tokens
		n      int   // tokens of the text
	}{"text": {2, false, 2}, "forced": {2, true, n}, "draft": {behindWrong, false, n}} {
		for i, drafter := range []func() Drafter{
			func() Drafter { return &scripted{tokens: drafted} },
			func() Drafter { return Merge(Replay(ReplayOptions{Tokens: drafted}), NGram(NGramOptions{})) },
			func() Drafter { return NGram(NGramOptions{MinMatch: 1}) },
			func() Drafter { return nil },
		} {
			for _, verifier := range []func() Verifier{Greedy, Rejection, Block} {
				c := &ruled{vocab: 64, next: func(s, id int32) int32 {
					if id == wrong {
						return behindWrong
					}
					return s + 1
				}}
				fails := func(s int32) error { return at(s, x.state, broken) }
				if c.fails = fails; x.forced {
					c.fails, c.forcedErr = nil, fails
				}
				d := New(newFake(t, 64, 100, script(len(prompt), count(n)...)), drafter(),
					Options{Schedule: Constant(ConstantOptions{Length: 8}), Verifier: verifier(), MaxTokens: n})
				var got []int32
				var failed error
				for tok, err := range d.Generate(context.Background(), prompt, engine.Sampling{Constraint: c}) {
					if failed = err; err == nil {
						got = append(got, tok.ID)
					}
				}
				ends := errors.Is(failed, broken) && errors.Is(failed, sampling.ErrConstraint)
				if !slices.Equal(got, count(x.n)) || ends != (x.n < n) || failed != nil && !ends {
					t.Errorf("%s, %T, %T: %v, %v", name, drafter(), verifier(), got, failed)
				}
				if s := d.Stats(); name == "draft" && i < 2 && s.Accepted < n/2 {
					t.Errorf("%T, %T: drafts do not go on: %+v", drafter(), verifier(), s)
				}
			}
		}
	}
}

func at(state, where int32, err error) error {
	if state == where {
		return err
	}
	return nil
}

// TestAutoCountsForcedTokensAsFree: Auto verifies forced runs that are accepted, and stops where they are not.
func TestAutoCountsForcedTokensAsFree(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		c := &ruled{vocab: 64, next: func(s, id int32) int32 { return 0 },
			forced: func(int32) []int32 { return []int32{5, 5, 5, 5} }}
		model := func(_ []int32, row []float32) {
			clear(row)
			row[5] = 1
			if !accepted {
				row[6] = 2
			}
		}
		target := newFake(t, 64, 4000, model)
		var now time.Duration
		target.spend = func(n int) { now += time.Duration(20+2*n) * time.Millisecond }
		d := New(target, nil, Options{MaxTokens: 1000})
		d.now = func() time.Duration { return now }
		collect(t, d, []int32{1}, engine.Sampling{Constraint: c})
		s := d.Stats()
		if accepted && s.TargetPasses > 230 || !accepted && s.Forced > 300 {
			t.Errorf("accepted %v: %d passes, %d of %d forced tokens accepted", accepted, s.TargetPasses,
				s.ForcedAccepted, s.Forced)
		}
		if !accepted && s.Forced < 6 {
			t.Errorf("%d forced tokens: no trials", s.Forced)
		}
	}
}

// TestDraftModelFollowsForcedTokens: a draft model that equals the target is right behind forced tokens and after
// those that the target spelled in another way: its cache holds what the text holds.
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
			d := New(newFake(t, matrixVocab, matrixContext, random(7)), drafter,
				Options{Schedule: Constant(ConstantOptions{Length: 6}), MaxTokens: 100, Trace: trace})
			collect(t, d, matrixPrompt, sampling)
		}
		if refused == 0 {
			t.Error("no forced token was refused: nothing was tested")
		}
	}
}

// TestLookupsAcrossForcedTokens: a repeated text is drafted without an error through its forced runs, and what the
// lookups learn of their matches is not mixed up by them.
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
		d := New(newFake(t, 64, 200, script(1, write...)), drafter,
			Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: len(write), Trace: trace})
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

// A constraint is not asked what follows a token that it forbids.
func TestNothingIsAskedBehindAForbiddenToken(t *testing.T) {
	asked := 0
	rules := &ruled{vocab: 8, next: func(state, id int32) int32 { asked++; return -1 }}
	c := &constrained{rules: rules, states: []int32{deadState}}
	if to, ok := c.after(0, 1); to != deadState || ok || asked != 0 || c.err != nil {
		t.Errorf("state %d, %v, %d times asked, %v", to, ok, asked, c.err)
	}
	if !c.dead(0) || c.dead(-1) {
		t.Error("what is dead")
	}
	if to, ok := c.after(-1, -1); to != deadState || ok || asked != 0 {
		t.Errorf("of no token: state %d, %v, %d times asked", to, ok, asked)
	}
	if _, ok := c.after(-1, 1); ok || asked != 1 {
		t.Errorf("of a token: %v, %d times asked", ok, asked)
	}
}
