package speculative_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// used counts what the decoder uses of a part from outside.
type used map[string]int

// first drafts a chain of a model's most likely tokens. It has every ability of this package's drafters.
type first struct {
	used
	seq   speculative.Sequence
	clock *speculative.Clock
	late  bool
	kept  string
}

func (f *first) Start(_ context.Context, s speculative.Setup) error {
	f.used["start"]++
	f.clock, f.late = s.Clock, s.Late
	f.clock.Enlist(f.seq)
	return f.seq.Truncate(0)
}

func (f *first) Draft(ctx context.Context, sequence []int32, d *speculative.Draft) error {
	f.used["draft"]++
	text := slices.Concat(sequence, d.Tokens)
	for d.More() {
		done := f.clock.Pass(f.seq)
		logits, err := f.seq.Eval(ctx, text[f.seq.Len():], nil, engine.Last)
		done()
		if err != nil {
			return err
		}
		d.Passes++
		best := int32(0)
		for id, x := range logits.Row(0) {
			if x > logits.Row(0)[best] {
				best = int32(id)
			}
		}
		if !d.Add(best, 0.9, nil) {
			break
		}
		text = append(text, best)
	}
	return f.seq.Truncate(min(f.seq.Len(), len(sequence)-1))
}

func (f *first) Observe(*speculative.Round)                  { f.used["observe"]++ }
func (f *first) Branches() int                               { f.used["branches"]++; return 2 }
func (f *first) Continues() bool                             { f.used["continues"]++; return true }
func (f *first) SetClock(func() time.Duration)               { f.used["clock"]++ }
func (f *first) Sequence() speculative.Sequence              { f.used["sequence"]++; return f.seq }
func (f *first) Save() ([]byte, error)                       { return []byte(`"first"`), nil }
func (f *first) Restore(state []byte) error                  { f.kept = string(state); return nil }
func (f *first) HiddenLayers(speculative.Sequence) []int     { f.used["layers"]++; return []int{1} }
func (f *first) Known(context.Context, []int32) (int, error) { f.used["known"]++; return 0, nil }
func (f *first) Hidden(_ context.Context, _ int, tokens, _ []int32, s engine.HiddenStates) error {
	f.used["hidden"]++
	if s.Rows() != len(tokens) {
		return errors.New("not a state for each token")
	}
	return nil
}

// all merges the drafts of several drafters.
type all struct {
	used
	drafters []speculative.Drafter
	own      speculative.Draft
	separate bool
}

func (a *all) Drafters() []speculative.Drafter { a.used["drafters"]++; return a.drafters }
func (a *all) Start(ctx context.Context, s speculative.Setup) error {
	s.Lanes = &speculative.Lanes{}
	for i, d := range a.drafters {
		s.Lane = s.Lanes.Take(i)
		if err := d.Start(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (a *all) Draft(ctx context.Context, sequence []int32, d *speculative.Draft) error {
	for i, x := range a.drafters {
		if !d.Sub(&a.own, a, i) {
			continue
		}
		if err := x.Draft(ctx, sequence, &a.own); err != nil {
			return err
		}
		if a.used["joined"] += a.own.Len(); !d.Join(&a.own, a.separate) {
			return nil
		}
	}
	return nil
}

// Branches is the sum of those of the drafters.
func (a *all) Branches() (n int) {
	for _, d := range a.drafters {
		if b, ok := d.(speculative.Branching); ok {
			n += b.Branches()
		} else {
			n++
		}
	}
	return n
}

func (a *all) Observe(r *speculative.Round) {
	for _, d := range a.drafters {
		d.Observe(r)
	}
}

// five drafts five tokens and has four of them verified. It has every ability of this package's schedules.
type five struct {
	used
	target speculative.Shared
	kept   string
}

func (f *five) Length(int) int               { return 5 }
func (f *five) Stop(*speculative.Draft) bool { return false }
func (f *five) NeedsConfidence() bool        { return false }
func (f *five) Observe(r *speculative.Round) {
	f.used["observe"]++
	f.used["drafted"] = max(f.used["drafted"], r.Drafted())
}
func (f *five) SetClock(now func() time.Duration) { f.used["clock"]++ }
func (f *five) Force(n int) int                   { f.used["force"]++; return n }
func (f *five) Begin(int, int) bool               { f.used["begin"]++; return true }
func (f *five) End()                              { f.used["end"]++ }
func (f *five) Save() ([]byte, error)             { return []byte(`"five"`), nil }
func (f *five) Restore(state []byte) error        { f.kept = string(state); return nil }
func (f *five) Start(s *speculative.Setup, d speculative.Drafter) {
	f.used["start"]++
	s.Late = true
	f.target, _ = s.Target.(speculative.Shared)
}

func (f *five) Trim(d *speculative.Draft) (path []int) {
	for node := -1; len(path) < 4; {
		next := -1
		for i := range d.Len() {
			if next < 0 && d.Parent(i) == node {
				next = i
			}
		}
		if next < 0 {
			break
		}
		path, node = append(path, next), next
	}
	return path
}

// matching accepts what the target samples, of logits that it has computed itself.
type matching struct {
	used
	speculative.Verifier
}

type evaluating struct{ *matching }

func (m *matching) Verify(v *speculative.Verification) { m.used["verify"]++; m.Verifier.Verify(v) }
func (e evaluating) Work() (passes, tokens int)        { e.used["work"]++; return 1, 1 }
func (e evaluating) Evaluate(ctx context.Context, target speculative.Sequence, sequence []int32,
	d *speculative.Draft) (engine.Logits, error) {
	e.used["evaluate"]++
	fed := slices.Concat(sequence[target.Len():], d.Tokens)
	return target.Eval(ctx, fed, nil, engine.Rows(d.Len()+1))
}

var (
	_ = []speculative.Drafter{speculative.Branching(&first{}), speculative.Continuing(&first{}),
		speculative.Attentive(&first{}),
		speculative.Sequenced(&first{}), speculative.Merging(&all{}), speculative.Branching(&all{})}
	_ = []speculative.Schedule{speculative.Starting(&five{}), speculative.Trimming(&five{}), speculative.Choosing(&five{}),
		speculative.Forcing(&five{})}
	_ = []speculative.Learning{&first{}, &five{}}
	_ = []speculative.Clocked{&first{}, &five{}}
	_ = speculative.Evaluator(evaluating{})
)

// TestPartsFromOutside: a drafter, a schedule and a verifier of another package are told and asked everything that
// those of this package are, alone and merged, on shared passes, and the text is plain decoding's.
func TestPartsFromOutside(t *testing.T) {
	ctx := t.Context()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target, err := engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	draft, err := engine.New(ctx, rt, testdata.Draft(), testdata.Draft().Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Close()
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	how := sampling.Options{Temperature: 0.7, Seed: 3}
	write := func(d speculative.Drafter, o speculative.Options) (text []int32) {
		targets := shared.New(target, shared.Options{})
		defer targets.Close()
		s, err := targets.NewSession(ctx, shared.SessionOptions{SessionOptions: engine.SessionOptions{Context: 128}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		o.MaxTokens = 24
		for token, err := range speculative.New(s, d, o).Generate(ctx, prompt, how) {
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, token.ID)
		}
		return text
	}
	plain := write(nil, speculative.Options{})
	for _, merged := range []bool{false, true} {
		for _, evaluates := range []bool{false, true} {
			own, err := draft.NewSession(engine.SessionOptions{Context: 128})
			if err != nil {
				t.Fatal(err)
			}
			u := used{}
			d, schedule, verifier := &first{used: used{}, seq: own}, &five{used: used{}},
				&matching{used: used{}, Verifier: speculative.Match()}
			o := speculative.Options{Schedule: schedule, Verifier: verifier, Experience: &speculative.Experience{}}
			var drafter speculative.Drafter = d
			if merged {
				drafter = &all{used: u, drafters: []speculative.Drafter{d, speculative.NGram(speculative.NGramOptions{})}}
			}
			if evaluates {
				o.Verifier, drafter = evaluating{verifier}, speculative.NGram(speculative.NGramOptions{})
			}
			text := write(drafter, o)
			if !slices.Equal(text, plain) {
				t.Errorf("merged %v, evaluates %v: %v, plain decoding writes %v", merged, evaluates, text, plain)
			}
			uses := func(what string, u used, names ...string) {
				for _, name := range names {
					if u[name] == 0 {
						t.Errorf("merged %v, evaluates %v: %s of the %s is not used", merged, evaluates, name, what)
					}
				}
			}
			uses("schedule", schedule.used, "observe", "clock", "start", "end")
			uses("verifier", verifier.used, "verify")
			if evaluates {
				uses("verifier", verifier.used, "evaluate", "work")
				continue
			}
			uses("drafter", d.used, "start", "draft", "observe", "layers", "known", "hidden")
			if merged {
				uses("merging drafter", u, "drafters", "joined")
				uses("schedule", schedule.used, "begin")
			} else {
				uses("drafter", d.used, "branches", "clock")
				if write(drafter, o); d.kept != `"first"` || schedule.kept != `"five"` {
					t.Errorf("%s and %s are restored", d.kept, schedule.kept)
				}
			}
			if schedule.target == nil || !d.late || schedule.used["drafted"] != 4 {
				t.Errorf("shared target %v, late %v, %d tokens verified", schedule.target, d.late, schedule.used["drafted"])
			}
			own.Close()
		}
	}
	// A merge of another package drafts what Merge does, in nested merges too.
	drafts := func(merge func(...speculative.Drafter) speculative.Drafter) (tokens [][]int32, parents [][]int32) {
		own, err := draft.NewSession(engine.SessionOptions{Context: 128})
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		write(merge(speculative.Suffix(speculative.SuffixOptions{}), speculative.Merge(speculative.Model(own),
			speculative.NGram(speculative.NGramOptions{}))), speculative.Options{
			Schedule: speculative.Constant(speculative.ConstantOptions{Length: 4}), Trace: func(r *speculative.Round) {
				tokens, parents = append(tokens, slices.Clone(r.Draft.Tokens)), append(parents, slices.Clone(r.Draft.Parents))
			}})
		return tokens, parents
	}
	tokens, parents := drafts(speculative.Merge)
	likeTokens, likeParents := drafts(func(d ...speculative.Drafter) speculative.Drafter {
		return &all{used: used{}, drafters: d}
	})
	if !slices.EqualFunc(tokens, likeTokens, slices.Equal) || !slices.EqualFunc(parents, likeParents, slices.Equal) {
		t.Errorf("drafts %v with parents %v, those of Merge are %v with %v", likeTokens, likeParents, tokens, parents)
	}
	// Auto looks at the sequence of a drafter that has one.
	own, err := draft.NewSession(engine.SessionOptions{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	d := &first{used: used{}, seq: own}
	if text := write(d, speculative.Options{}); !slices.Equal(text, plain) || d.used["sequence"] == 0 {
		t.Errorf("under auto: %v, plain decoding writes %v; used %v", text, plain, d.used)
	}
}
