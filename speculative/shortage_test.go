package speculative

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// meagre is a session for which memory is short at times.
type meagre struct {
	*engine.Session
	refuse  func(call, tokens int) bool // nil: never
	calls   int                         // passes that were asked for
	refused int
}

func (s *meagre) short(tokens int) error {
	s.calls++
	if s.refuse == nil || !s.refuse(s.calls, tokens) {
		return nil
	}
	s.refused++
	return fmt.Errorf("session: %w", engine.ErrKVBudget)
}

func (s *meagre) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if err := s.short(len(tokens)); err != nil {
		return engine.Logits{}, err
	}
	return s.Session.Eval(ctx, tokens, parents, want)
}

func (s *meagre) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if err := s.short(len(g.Tokens)); err != nil {
		return engine.Result{}, err
	}
	return s.Session.EvalSegment(ctx, g)
}

// Drafts that memory is refused for cost no answer: the text is plain decoding's, whoever drafts and verifies, and
// whether the draft's passes are refused, from the prompt on or in the middle of a draft, or those of the target that
// have a draft in them. What was refused is asked for again, at growing distances.
func TestDraftsWithoutMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near := randomModel(t, rt, 0), randomModel(t, rt, 0.05)
	eagle := randomHead(t, rt, target)
	const tokens = 60
	type refusals struct {
		when   string
		refuse func(call, tokens int) bool
	}
	drafting := []refusals{
		{"never", nil},
		{"always", func(int, int) bool { return true }},
		{"at first", func(call, _ int) bool { return call <= 3 }},
		{"every third pass", func(call, _ int) bool { return call%3 == 0 }},
		{"from some on", func(call, _ int) bool { return call > 12 }},
	}
	verifying := []refusals{
		{"never", nil},
		{"more than one", func(call, tokens int) bool { return call > 1 && tokens > 1 }},
		{"more than three", func(call, tokens int) bool { return call > 1 && tokens > 3 }},
		{"for a while", func(call, tokens int) bool { return call > 1 && call < 8 && tokens > 1 }},
	}
	drafters := []struct {
		name string
		of   *engine.Model
		make func(Sequence) Drafter
	}{
		{"model", near, Model},
		{"tree", near, func(s Sequence) Drafter { return Tree(s, TreeOptions{}) }},
		{"splice", near, func(s Sequence) Drafter { return Splice(s, TreeOptions{}) }},
		{"merge", near, func(s Sequence) Drafter { return Merge(Model(s), NGram(NGramOptions{})) }},
		{"eagle", eagle, func(s Sequence) Drafter { return headed(s, headOptions{}) }},
		{"eagle tree", eagle, func(s Sequence) Drafter { return headed(s, headOptions{Tree: true}) }},
	}
	samplings := []engine.Sampling{{}, {Temperature: 0.9, Seed: 5}}
	var texts [][]int32
	for _, s := range samplings {
		text, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: tokens}), matrixPrompt, s)
		texts = append(texts, text)
	}
	for _, c := range testkit.Combinations(t, len(drafting), len(verifying), len(drafters), len(samplings)) {
		drafts, verifies, drafter, s, want := drafting[c[0]], verifying[c[1]], drafters[c[2]], samplings[c[3]], texts[c[3]]
		how, when := drafts.when, verifies.when
		name := fmt.Sprintf("%s, drafts refused %s, verification %s, temperature %v", drafter.name, how, when, s.Temperature)
		draft := &meagre{Session: session(t, drafter.of, 0), refuse: drafts.refuse}
		whole := &meagre{Session: session(t, target, 0), refuse: verifies.refuse}
		d := New(whole, drafter.make(draft), Options{MaxTokens: tokens, Schedule: Constant(ConstantOptions{Length: 4})})
		got, _ := collect(t, d, matrixPrompt, s)
		stats := d.Stats()
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\n got %v\nwant %v", name, got, want)
		}
		if stats.Drafted+stats.Rounds != stats.TargetTokens || len(stats.DraftedAt) > stats.Drafted {
			t.Errorf("%s: %d tokens drafted, %d evaluated in %d rounds", name, stats.Drafted, stats.TargetTokens,
				stats.Rounds)
		}
		if stats.Generated != len(want) || stats.TargetPasses != stats.Rounds {
			t.Errorf("%s: %d tokens in %d passes and %d rounds", name, stats.Generated, stats.TargetPasses, stats.Rounds)
		}
		if how == "always" && draft.refused > 8 { // pauses grow: 4, 8, 16 and 32 rounds
			t.Errorf("%s: asked in vain for %d passes in %d rounds", name, draft.refused, stats.Rounds)
		}
		if when == "more than one" && how == "never" && whole.refused > 8 {
			t.Errorf("%s: asked in vain for %d passes in %d rounds", name, whole.refused, stats.Rounds)
		}
		if verifies.refuse == nil && (how == "at first" || how == "never") && drafter.name != "merge" &&
			stats.DraftPasses == 0 {
			t.Errorf("%s: never drafted again: %+v", name, stats)
		}
		if how == "never" && when == "for a while" && stats.Drafted < 20 {
			t.Errorf("%s: drafted %d tokens", name, stats.Drafted)
		}
	}
}

// TestLongDraftsWithoutMemory: every two ways to refuse with every drafter, greedily and sampled.
func TestLongDraftsWithoutMemory(t *testing.T) {
	testkit.Long(t)
	TestDraftsWithoutMemory(t)
}

// stepwise is a verifier that evaluates a draft token by token.
type stepwise struct {
	match
	data []float32
	work int
}

func (s *stepwise) Work() (passes, tokens int) { return s.work, s.work } // as one

func (s *stepwise) Evaluate(ctx context.Context, target Sequence, sequence []int32, d *Draft) (engine.Logits, error) {
	s.data, s.work = s.data[:0], 0
	for _, id := range append(slices.Clone(sequence[target.Len():]), d.Tokens...) {
		logits, err := target.Eval(ctx, []int32{id}, nil, engine.Last)
		if err != nil {
			return logits, err
		}
		s.data = append(s.data, logits.Row(0)...)
	}
	s.work = 1
	return engine.Logits{Vocab: target.Vocab(), Data: s.data}, nil
}

// A verifier that evaluates drafts by itself leaves the target anywhere when memory is refused: the text goes on.
func TestEvaluatorsWithoutMemory(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near := randomModel(t, rt, 0), randomModel(t, rt, 0.05)
	const tokens = 30
	want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: tokens}), matrixPrompt, engine.Sampling{})
	for name, verifier := range map[string]func() Verifier{
		"stairs":   func() Verifier { return Stairs(StairsOptions{Recompute: true}) },
		"stepwise": func() Verifier { return &stepwise{} },
	} {
		for at := 2; at < 30; at += 3 {
			whole := &meagre{Session: session(t, target, 0), refuse: func(call, _ int) bool { return call == at }}
			d := New(whole, Model(session(t, near, 0)), Options{MaxTokens: tokens, Verifier: verifier(),
				Schedule: Constant(ConstantOptions{Length: 3})})
			if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) || whole.refused != 1 {
				t.Errorf("%s, pass %d refused, %d times:\n got %v\nwant %v", name, at, whole.refused, got, want)
			}
		}
	}
}

// Where there is no memory for a pass without a draft either, the text ends with that error, as plain decoding's does.
func TestNoMemoryWithoutDraftsEither(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, near := randomModel(t, rt, 0), randomModel(t, rt, 0.05)
	whole := &meagre{Session: session(t, target, 0), refuse: func(call, _ int) bool { return call > 4 }}
	d := New(whole, Model(session(t, near, 0)), Options{MaxTokens: 60, Schedule: Constant(ConstantOptions{Length: 3})})
	var last error
	for _, err := range d.Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
		last = err
	}
	if !errors.Is(last, engine.ErrKVBudget) || whole.refused != 2 {
		t.Errorf("%v after %d refusals", last, whole.refused)
	}
}

// A drafter of another vocabulary goes on without memory too.
func TestCrossVocabularyWithoutMemory(t *testing.T) {
	target, draft := pair(t)
	texts := prompts(t, "prompts-code.jsonl", 1)
	prompt := target.Tokenizer().Encode(texts[0], bpe.EncodeOptions{AddSpecial: true})[:60]
	want, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 24}), prompt, engine.Sampling{})
	for name, make := range map[string]func(Sequence, Tokenizers) Drafter{"reencode": Reencode, "intersect": Intersect} {
		for _, from := range []int{1, 2, 5} {
			small := &meagre{Session: session(t, draft, 0),
				refuse: func(call, _ int) bool { return call >= from && call < from+3 }}
			d := New(session(t, target, 0), make(small, Tokenizers{target.Tokenizer(), draft.Tokenizer()}),
				Options{MaxTokens: 24, Schedule: Constant(ConstantOptions{Length: 3})})
			if got, _ := collect(t, d, prompt, engine.Sampling{}); !slices.Equal(got, want) || small.refused == 0 {
				t.Errorf("%s from pass %d on:\n got %v\nwant %v", name, from, got, want)
			}
		}
	}
}
