package speculative

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
)

// outsider is a drafter as one from outside the project: it drafts wide trees, reads the clock and says what its
// confidence means.
type outsider struct {
	record   []int32
	prompt   int
	branches int
	now      func() time.Duration
	clocks   int
}

func (o *outsider) Branches() int                          { return o.branches }
func (o *outsider) SetClock(now func() time.Duration)      { o.now, o.clocks = now, o.clocks+1 }
func (o *outsider) Start(_ context.Context, s Setup) error { o.prompt = len(s.Prompt); return nil }
func (o *outsider) Observe(*Round)                         {}
func (o *outsider) Draft(_ context.Context, sequence []int32, d *Draft) error {
	d.Ranked, d.Calibrated = true, true
	at := -1
	for i := len(sequence) - o.prompt; i < len(o.record) && d.More(); i++ {
		next := -1
		for j := range o.branches {
			if d.AddChild(at, (o.record[i]+int32(j))%int32(d.Vocab()), 0.9, nil) && j == 0 {
				next = d.Len() - 1
			}
		}
		if at = next; at < 0 {
			break
		}
	}
	return nil
}

// What drafters can do beyond their interface they can do from outside the package, and within merges.
func TestAbilitiesFromOutside(t *testing.T) {
	var _ = []any{Branching(&outsider{}), Clocked(&outsider{}), Clocked(&tree{}), Branching(&merge{}), Clocked(&merge{}),
		Evaluator(&stairs{}), Listed(&engine.Session{}), Modeled(&engine.Session{})}
	model := random(1)
	want := plain(t, matrixVocab, model, matrixPrompt, 60, engine.Sampling{})
	for _, nest := range []func(Drafter) Drafter{
		func(d Drafter) Drafter { return d },
		func(d Drafter) Drafter { return Merge(NGram(NGramOptions{}), Merge(d)) },
	} {
		o := &outsider{record: want, branches: 4}
		most := 0
		d := New(newFake(t, matrixVocab, 200, model), nest(o),
			Options{Schedule: Constant(ConstantOptions{Length: 5}), MaxTokens: 60,
				Trace: func(r *Round) { most = max(most, r.Drafted()) }})
		var clock time.Duration = 42
		d.now = func() time.Duration { return clock }
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
			t.Error("other text")
		}
		if most < 20 || o.clocks != 1 || o.now() != 42 {
			t.Errorf("drafts of %d tokens, want 4 branches of 5; the clock was set %d times", most, o.clocks)
		}
	}
}

// A verifier from outside may compute logits in its own way.
func TestEvaluatorFromOutside(t *testing.T) {
	model := random(2)
	want := plain(t, matrixVocab, model, matrixPrompt, 60, engine.Sampling{})
	e, passes := &oneByOne{Verifier: Greedy()}, 0
	d := New(newFake(t, matrixVocab, 200, model), Replay(ReplayOptions{Tokens: want, ErrorEvery: 7}),
		Options{Schedule: Constant(ConstantOptions{Length: 5}), Verifier: e, MaxTokens: 60,
			Trace: func(r *Round) { passes += 1 + r.Drafted() }})
	for range 2 {
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
			t.Error("other text")
		}
	}
	if e.passes != passes {
		t.Errorf("%d passes, want %d", e.passes, passes)
	}
}

// oneByOne verifies in passes of one token.
type oneByOne struct {
	Verifier
	passes int
	data   []float32
}

func (o *oneByOne) Work() (passes, tokens int) { return 1, 1 }

func (o *oneByOne) Evaluate(ctx context.Context, target Sequence, sequence []int32, d *Draft) (engine.Logits, error) {
	o.data = o.data[:0]
	for _, id := range append([]int32{sequence[len(sequence)-1]}, d.Tokens...) {
		o.passes++
		l, err := target.Eval(ctx, []int32{id}, nil, engine.Last)
		if err != nil {
			return l, err
		}
		o.data = append(o.data, l.Row(0)...)
	}
	return engine.Logits{Vocab: target.Vocab(), Data: o.data}, nil
}

// knowing is a source that knows a text.
type knowing struct {
	text   []int32
	resets int
}

func (k *knowing) Reset()        { k.resets++ }
func (k *knowing) Begin([]int32) {}
func (k *knowing) Next(path []int32, _ int) (int32, int) {
	if n := len(path) - len(matrixPrompt); n < len(k.text) {
		return k.text[n], 50
	}
	return 0, 0
}

// Trees take candidates from any source: the one with the longest match is heard, and one that is always right makes
// up for a model that never is.
func TestTreeSources(t *testing.T) {
	model := random(3) // repeats nothing
	want := plain(t, matrixVocab, model, matrixPrompt, 60, engine.Sampling{})
	passes := func(spliced bool, sources ...CandidateSource) int {
		if sources == nil {
			sources = []CandidateSource{}
		}
		make := Tree
		if spliced {
			make = Splice
		}
		d := New(newFake(t, matrixVocab, 200, model),
			make(newFake(t, matrixVocab, 200, random(99)), TreeOptions{Sources: sources}),
			Options{Schedule: Constant(ConstantOptions{Length: 8}), MaxTokens: 60})
		if got, _ := collect(t, d, matrixPrompt, engine.Sampling{}); !slices.Equal(got, want) {
			t.Error("other text")
		}
		return d.Stats().TargetPasses
	}
	for _, spliced := range []bool{false, true} {
		k := &knowing{text: want}
		none, lookups, all := passes(spliced), passes(spliced, SuffixSource(SuffixOptions{}), NGramSource(NGramOptions{})),
			passes(spliced, SuffixSource(SuffixOptions{}), k, NGramSource(NGramOptions{}))
		if all > 25 || none < 35 || lookups < 30 || k.resets != 1 {
			t.Errorf("spliced %v: %d passes without sources, %d with lookups, %d with one that knows the text",
				spliced, none, lookups, all)
		}
	}
	repeating := loops(4)
	want = plain(t, matrixVocab, repeating, matrixPrompt, 200, engine.Sampling{})
	for _, source := range []CandidateSource{SuffixSource(SuffixOptions{}), NGramSource(NGramOptions{MinMatch: 2})} {
		d := New(newFake(t, matrixVocab, 400, repeating),
			Tree(newFake(t, matrixVocab, 400, random(99)), TreeOptions{Sources: []CandidateSource{source}}),
			Options{Schedule: Constant(ConstantOptions{Length: 8}), MaxTokens: 200})
		collect(t, d, matrixPrompt, engine.Sampling{})
		if s := d.Stats(); s.TargetPasses > 90 {
			t.Errorf("%T: %d passes for a text that repeats itself", source, s.TargetPasses)
		}
	}
	for _, err := range New(newFake(t, matrixVocab, 200, model),
		Tree(newFake(t, matrixVocab, 200, model), TreeOptions{Sources: []CandidateSource{nil}}), Options{}).Generate(
		context.Background(), matrixPrompt, engine.Sampling{}) {
		if err == nil {
			t.Error("a source that is nil is taken")
		}
		break
	}
}

// queued is a sequence whose passes wait for others': half of the time that they take is not its own.
type queued struct {
	*fake
	clock *time.Duration
	spent time.Duration
}

func (q *queued) Spent() time.Duration { return q.spent }
func (q *queued) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	begin := *q.clock
	l, err := q.fake.Eval(ctx, tokens, parents, want)
	q.spent += *q.clock - begin
	*q.clock += time.Duration(mix64(uint64(*q.clock))%100) * time.Millisecond // in the queue
	return l, err
}

// Schedules and drafters see what a metered sequence's passes cost, whatever the clock says: they decide as if it
// were alone.
func TestMeteredSequences(t *testing.T) {
	model := loops(80)
	for name, drafter := range map[string]func(Sequence) Drafter{
		"model": Model,
		"tree":  func(s Sequence) Drafter { return Tree(s, TreeOptions{}) },
		"merge": func(s Sequence) Drafter { return Merge(NGram(NGramOptions{}), Tree(s, TreeOptions{})) },
	} {
		for _, verifier := range []func() Verifier{
			Match, Rejection, func() Verifier { return Stairs(StairsOptions{Recompute: true}) }} {
			write := func(shared bool) (drafts [][]int32, total time.Duration) {
				var clock time.Duration
				target, draft := newFake(t, matrixVocab, 800, model), newFake(t, matrixVocab, 800, noisy(model, 0.5))
				target.spend = func(n int) { clock += 20*time.Millisecond + time.Duration(n)*time.Millisecond }
				draft.spend = func(n int) { clock += 2 * time.Millisecond }
				var one, two Sequence = target, draft
				if shared {
					one, two = &queued{fake: target, clock: &clock}, &queued{fake: draft, clock: &clock}
				}
				d := New(one, drafter(two), Options{Verifier: verifier(), MaxTokens: 300,
					Trace: func(r *Round) { drafts = append(drafts, slices.Clone(r.Draft.Tokens)) }})
				d.now = func() time.Duration { return clock }
				collect(t, d, matrixPrompt, engine.Sampling{})
				return drafts, clock
			}
			alone, took := write(false)
			shared, longer := write(true)
			if !slices.EqualFunc(alone, shared, slices.Equal) {
				t.Errorf("%s, %T: other drafts where passes wait in a queue", name, verifier())
			}
			if longer < took+time.Second {
				t.Errorf("%s: the queue took no time", name)
			}
		}
	}
}
