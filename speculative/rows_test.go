package speculative

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// With any bound of the rows of a pass every drafter writes what plain decoding writes, free and under a constraint,
// greedy and sampled, and no pass of the target has more rows of logits.
func TestRowsBoundPassesAndChangeNoText(t *testing.T) {
	model := loops(8)
	samplings := []engine.Sampling{{}, {Constraint: records(matrixVocab), ConstraintFrom: len(matrixPrompt)},
		{Temperature: 0.8, Seed: 5, Constraint: records(matrixVocab), ConstraintFrom: len(matrixPrompt)}}
	var want [][]int32
	var drafters [][]named[Drafter]
	for _, s := range samplings {
		text := plain(t, matrixVocab, model, matrixPrompt, matrixTokens, s)
		want, drafters = append(want, text), append(drafters, matrixDrafters(t, model, text))
	}
	schedules := slices.DeleteFunc(matrixSchedules(8), func(s named[Schedule]) bool {
		return s.name == "constant/threshold" || s.name == "heuristic" // bounded like the others
	})
	for _, c := range testkit.Combinations(t, len(samplings), len(drafters[0]), len(schedules)) {
		s, want, drafter, schedule := samplings[c[0]], want[c[0]], drafters[c[0]][c[1]], schedules[c[2]]
		widest := 0
		for _, rows := range []int{1, 2, 4, 0} {
			target := newFake(t, matrixVocab, matrixContext, model)
			d := New(target, drafter.make(), Options{Schedule: schedule.make(), MaxTokens: matrixTokens, Rows: rows})
			name := fmt.Sprintf("%s/%s, constraint %v, %d rows", drafter.name, schedule.name, s.Constraint != nil, rows)
			for range 2 {
				if got, _ := collect(t, d, matrixPrompt, s); !slices.Equal(got, want) {
					t.Errorf("%s:\n got %v\nwant %v", name, got, want)
				}
			}
			if rows > 0 && target.rows > rows {
				t.Errorf("%s: a pass of %d", name, target.rows)
			}
			widest = target.rows
		}
		if widest <= 4 && schedule.name == "constant" && s.Constraint != nil {
			t.Errorf("%s: %d rows without a bound, which proves nothing", drafter.name, widest)
		}
	}
}

// What a bound of the rows cuts off does not depend on the tokens: under verifiers that need probabilities the text
// keeps its distribution.
func TestRowsKeepTheDistribution(t *testing.T) {
	const rows, bound = 4, 4*7 + 24/tinyVocab + 1 // each has three distributions beside it
	fresh := func(seed uint64) *fake { return newFake(t, tinyVocab, 32, tiny(seed)) }
	for _, verifier := range []func() Verifier{Rejection, Block} {
		for _, x := range []named[Drafter]{
			{"tree", func() Drafter { return Tree(fresh(8), TreeOptions{}) }},
			{"merged", func() Drafter { return Merge(Model(fresh(8)), Tree(fresh(9), TreeOptions{}), Model(fresh(7))) }},
		} {
			for _, rules := range []*ruled{nil, five()} {
				s, target := engine.Sampling{Temperature: 1}, fresh(3)
				if rules != nil {
					s.Constraint, s.ConstraintFrom = rules, 2
				}
				off := chiSquared(t, s, resolving(t)/5, func() *Decoder {
					return New(target, x.make(), Options{Schedule: Constant(ConstantOptions{Length: 3}), Verifier: verifier(),
						MaxTokens: 6, Rows: bound})
				})
				if math.Abs(off) > 4 || target.rows != rows {
					t.Errorf("%s, constraint %v: off by %.1f, passes of %d rows", x.name, rules != nil, off, target.rows)
				}
			}
		}
	}
}

// The distributions that verifiers compare take no memory beyond that of the rows that are planned for a pass: where
// the filters leave all tokens, drafts are shorter. Where they leave few, drafts are about as long.
func TestDistributionsTakePlannedMemory(t *testing.T) {
	const vocab, rows = 512, 42
	planned := engine.Sessions{Count: 1, Rows: rows}.Logits(&engine.Description{Config: engine.Config{Vocab: vocab}})
	near := func() *fake { return newFake(t, vocab, 400, noisy(random(1), 0.1)) }
	for what, drafter := range map[string]func() Drafter{
		"model":  func() Drafter { return Model(near()) },
		"tree":   func() Drafter { return Tree(near(), TreeOptions{}) },
		"splice": func() Drafter { return Splice(near(), TreeOptions{}) },
		"merged": func() Drafter { return Merge(Model(near()), Tree(near(), TreeOptions{}), Model(near())) },
	} {
		for verify, make := range map[string]func() Verifier{"rejection": Rejection, "block": Block, "match": Match} {
			for topK, least := range map[int]int{0: 4, 2: 30} {
				target := newFake(t, vocab, 400, random(1))
				v := make()
				var d *Decoder
				took, widest := int64(0), 0
				o := Options{Verifier: v, Rows: rows, DraftMax: 60, MaxTokens: 80,
					Schedule: Constant(ConstantOptions{Length: 60}), Trace: func(*Round) {
						widest = max(widest, target.rows)
						took = int64(4 * vocab * widest)
						for _, q := range d.draft.probs.all {
							took += int64(8 * cap(q))
						}
						switch v := v.(type) {
						case *rejection:
							took += int64(8 * cap(v.p))
						case *block:
							for _, p := range v.p {
								took += int64(8 * cap(p))
							}
						}
					}}
				if verify == "match" {
					o.DraftSampling = DraftFromQ // which asks for distributions by itself
				}
				d = New(target, drafter(), o)
				for i := range 2 { // the second text has the memory of the first one
					collect(t, d, matrixPrompt, engine.Sampling{Temperature: 3, TopK: topK, Seed: uint64(i)})
					if took > planned || took < planned/4 || widest < least {
						t.Errorf("%s, %s, top-k %d: %d bytes, planned %d; passes of %d rows", what, verify, topK, took, planned,
							widest)
					}
				}
			}
		}
	}
}

// Forced tokens come in pieces of as many as there are rows, with a token of the target behind each.
func TestForcedTokensComeInPieces(t *testing.T) {
	write := slices.Repeat([]int32{1, 2, 3, 4, 5, 4}, 3)
	for rows, passes := range map[int]int{1: 18, 2: 12, 3: 9, 4: 9, 5: 6, 0: 6} {
		target := newFake(t, 64, 100, script(1, write...))
		d := New(target, nil, Options{Schedule: Constant(ConstantOptions{Length: 2}), MaxTokens: len(write), Rows: rows})
		got, _ := collect(t, d, []int32{50}, engine.Sampling{Constraint: records(64)})
		if !slices.Equal(got, write) || d.Stats().TargetPasses != passes {
			t.Errorf("%d rows: %v in %d passes, want %d", rows, got, d.Stats().TargetPasses, passes)
		}
	}
}

// A prompt is scored in pieces of as many tokens as there are rows, with the same scores.
func TestRowsBoundScores(t *testing.T) {
	prompt := plain(t, matrixVocab, random(8), []int32{1}, 80, engine.Sampling{})
	var first []Token
	for _, rows := range []int{0, 1, 7, 100} {
		var scores []Token
		target := newFake(t, matrixVocab, matrixContext, random(5))
		d := New(target, nil, Options{MaxTokens: 1, LogProbs: true, Rows: rows,
			Scored: func(t Token) { scores = append(scores, t) }})
		collect(t, d, prompt, engine.Sampling{})
		if first == nil {
			first = scores
		}
		same := slices.EqualFunc(scores, first, func(a, b Token) bool {
			return a.ID == b.ID && a.LogProb == b.LogProb && a.Rank == b.Rank
		})
		if !same || len(scores) != len(prompt)-1 || rows > 0 && target.rows > rows || target.rows > scoreChunk {
			t.Errorf("%d rows: %d scores, the same %v, in passes of %d", rows, len(scores), same, target.rows)
		}
	}
}
