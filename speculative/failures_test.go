package speculative

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// stuck is a sequence that cannot be shortened once it is.
type stuck struct {
	*fake
	is bool
}

var errStuck = errors.New("stuck")

func (s *stuck) Truncate(n int) error {
	if s.is {
		return errStuck
	}
	return s.fake.Truncate(n)
}

// A sequence that cannot go back to what a new prompt has in common with the last one ends the text with its error,
// before anything is fed: the target's, and that of every drafter that has one.
func TestSequencesThatCannotGoBackEndTheText(t *testing.T) {
	words := vocabulary(t, "a", "b", "c", "d", "e", "f", "g", "h")
	both := Tokenizers{Target: words, Draft: words}
	model := random(5)
	for name, drafter := range map[string]func(Sequence) Drafter{
		"target": nil, "model": Model, "tree": func(s Sequence) Drafter { return Tree(s, TreeOptions{}) },
		"reencode":  func(s Sequence) Drafter { return Reencode(s, both) },
		"intersect": func(s Sequence) Drafter { return Intersect(s, both) },
	} {
		one := &stuck{fake: newFake(t, 8, 100, model)}
		var target Sequence = one
		var d Drafter
		if drafter != nil {
			target, d = newFake(t, 8, 100, model), drafter(one)
		}
		dec := New(target, d, Options{MaxTokens: 5, Schedule: Constant(ConstantOptions{Length: 2})})
		collect(t, dec, []int32{1, 2, 3}, engine.Sampling{})
		one.is = true
		fed, n := one.fed, 0
		var err error
		for _, err = range dec.Generate(context.Background(), []int32{4, 5, 6}, engine.Sampling{}) {
			if n++; err != nil {
				break
			}
		}
		if !errors.Is(err, errStuck) || n != 1 || one.fed != fed {
			t.Errorf("%s: %d tokens and %d passed, %v", name, n-1, one.fed-fed, err)
		}
	}
}

// A round that is cancelled before it begins drafts nothing and evaluates nothing, though the target would not notice.
func TestCancelledRoundsBeginNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	target := newFake(t, matrixVocab, 100, random(1))
	drafts := &drafting{}
	d := New(target, drafts, Options{MaxTokens: 20, Schedule: Constant(ConstantOptions{Length: 2})})
	var err error
	tokens, drafted, passes := 0, 0, 0
	for _, err = range d.Generate(ctx, matrixPrompt, engine.Sampling{}) {
		if err != nil {
			break
		}
		tokens++
		drafted, passes = drafts.n, target.passes
		cancel()
	}
	if !errors.Is(err, context.Canceled) || tokens != 1 || drafts.n != drafted || target.passes != passes || drafted != 1 {
		t.Errorf("%d tokens, %d drafts and %d passes, then %d and %d: %v", tokens, drafted, passes, drafts.n, target.passes,
			err)
	}
}

// drafting counts its drafts, which are empty.
type drafting struct{ n int }

func (d *drafting) Start(context.Context, Setup) error { return nil }
func (d *drafting) Observe(*Round)                     {}
func (d *drafting) Draft(context.Context, []int32, *Draft) error {
	d.n++
	return nil
}

// told is a shared sequence that counts what it is told.
type told struct {
	Shared
	n int
}

func (s *told) Announce(bool) { s.n++ }

// A drafter's sequence whose passes are shared is told of each draft, once, however often it enlists; one that is not
// shared, or not there, is none.
func TestSequencesAreToldOfDraftsOnce(t *testing.T) {
	var c Clock
	one, two := &told{}, &told{}
	for range 3 {
		for _, s := range []Sequence{one, nil, (*told)(nil), newFake(t, 8, 8, nil), two} {
			c.Enlist(s)
		}
	}
	if len(c.announced) != 2 {
		t.Fatalf("%d sequences are told", len(c.announced))
	}
	c.Announce(true)
	c.Announce(false)
	if one.n != 2 || two.n != 2 {
		t.Errorf("told %d and %d times of the beginning and the end of a draft", one.n, two.n)
	}
}

// awaiting is a shared sequence of eight tokens that counts how often it is to wait.
type awaiting struct {
	told
	waits int
}

func (*awaiting) Context() int                     { return 8 }
func (s *awaiting) Await(context.Context, []int32) { s.waits++ }

// A head waits for others' reading of a text that it can draft after, and of no longer one.
func TestTextsThatAreTooLongAreNotAwaited(t *testing.T) {
	for n, want := range map[int]int{1: 1, 9: 1, 10: 0, 100: 0} {
		var c Clock
		one := &awaiting{}
		if c.await(context.Background(), one, make([]int32, n)); one.waits != want || len(c.announced) != 1 {
			t.Errorf("a text of %d tokens: %d waits, %d told of drafts", n, one.waits, len(c.announced))
		}
		if (&head{seq: &cachedSequence{Sequence: one}}).beyond(n) != (want == 0) {
			t.Errorf("a text of %d tokens: the head can draft after it, or cannot", n)
		}
	}
}

// A head whose vocabulary lacks the text's last token, or one of the draft's, drafts nothing after it; it is not asked.
func TestHeadsDraftNothingAfterUnknownTokens(t *testing.T) {
	m := &modelDrafter{head: &head{}}
	m.seq.Sequence = newFake(t, 8, 100, nil)
	for _, x := range []struct {
		text    []int32
		written int
	}{{[]int32{1, 8}, 2}, {[]int32{1, 9, 2}, 2}, {[]int32{1, 2, 8}, 2}} {
		if row, err := m.logits(context.Background(), x.text, x.written, &Draft{}); row != nil || err != nil {
			t.Errorf("%v of which %d are written: %v, %v", x.text, x.written, row, err)
		}
	}
}

// Where a source drafts by itself its token is accepted as often as it was so far, whatever the model would say.
func TestPlacesOfASourceHaveItsAcceptance(t *testing.T) {
	tr := &tree{}
	for _, q := range []float32{0.01, 0.5, 1} {
		if got := tr.acceptance(&place{sourceAlone: 0.25}, q); got != 0.25 {
			t.Errorf("%v at a probability of %v", got, q)
		}
		if got := tr.acceptance(&place{}, q); got == 0.25 || got < 0 || got > 1 {
			t.Errorf("%v of the model's at a probability of %v", got, q)
		}
	}
}

// A tree of a vocabulary of one token has one candidate after each node.
func TestTreesOfOneCandidate(t *testing.T) {
	model := func(_ []int32, row []float32) { row[0] = 1 }
	for _, o := range []TreeOptions{{}, {Sources: []CandidateSource{}}} {
		d := New(newFake(t, 1, 100, model), Tree(newFake(t, 1, 100, model), o),
			Options{MaxTokens: 9, Schedule: Constant(ConstantOptions{Length: 3})})
		if ids, _ := collect(t, d, []int32{0, 0}, engine.Sampling{}); len(ids) != 9 || d.Stats().Accepted == 0 {
			t.Errorf("%v, %+v", ids, d.Stats())
		}
	}
}

// In the round of a text's last token there is no room for a draft: those who wait for one are told that none comes.
func TestLastRoundsAnnounceNoDraft(t *testing.T) {
	d := New(newFake(t, matrixVocab, 100, random(1)), NGram(NGramOptions{}), Options{MaxTokens: 1})
	collect(t, d, matrixPrompt, engine.Sampling{})
	one := &told{}
	d.clock.announced, d.following = []Shared{one}, true // as after a pass of shared sequences
	d.sequence, d.stats = d.sequence[:len(matrixPrompt)], Stats{}
	if err := d.propose(context.Background()); err != nil || one.n != 1 {
		t.Errorf("told %d times: %v", one.n, err)
	}
}

// A caller that leaves in the middle of a round has the text that was yielded, whatever the round had drafted: figures
// and sequence are those of plain decoding left there, and the reason is that it left, unless that was the end.
func TestLeavingInTheMiddleOfARound(t *testing.T) {
	const most = 20
	c := records(matrixVocab)
	for name, drafter := range map[string]func() Drafter{
		"none": func() Drafter { return nil }, "chain": func() Drafter { return Replay(ReplayOptions{Tokens: count(most)}) },
		"previous": func() Drafter { return Previous(PreviousOptions{Tokens: count(most)}) },
		"tree":     func() Drafter { return &bush{count(most), 3} },
	} {
		for _, s := range []engine.Sampling{{}, {Constraint: c}} {
			for leave := 1; leave <= most; leave++ {
				d := New(newFake(t, matrixVocab, 100, script(len(matrixPrompt), count(most)...)), drafter(),
					Options{Schedule: Constant(ConstantOptions{Length: 7}), MaxTokens: most})
				var got []int32
				for tok, err := range d.Generate(context.Background(), matrixPrompt, s) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, tok.ID); len(got) == leave {
						break
					}
				}
				stats, end := d.Stats(), EndCancel
				if leave == most {
					end = EndLength
				}
				checkStats(t, stats, leave)
				if !slices.Equal(d.sequence, slices.Concat(matrixPrompt, got)) || stats.End != end ||
					name == "previous" && stats.Previous.Accepted != stats.Accepted {
					t.Errorf("%s, left after %d tokens: %v, %+v", name, leave, d.sequence, stats)
				}
				if whole, _ := collect(t, d, matrixPrompt, s); !slices.Equal(whole[:leave], got) {
					t.Errorf("%s, after it was left behind %d tokens: %v, it had %v", name, leave, whole, got)
				}
			}
		}
	}
}

// counting is a schedule that counts the texts that begin and end.
type counting struct {
	Schedule
	begun, ended int
}

func (c *counting) Start(*Setup, Drafter) { c.begun++ }
func (c *counting) End()                  { c.ended++ }

// A text ends for those who share what it holds also where a panic ends it, in a pass or in the caller's loop.
func TestPanicsEndTexts(t *testing.T) {
	target := newFake(t, matrixVocab, 100, random(1))
	s := &counting{Schedule: Constant(ConstantOptions{Length: 2})}
	d := New(target, NGram(NGramOptions{}), Options{MaxTokens: 9, Schedule: s})
	for _, inPass := range []bool{true, false} {
		target.onEval = nil
		if inPass {
			target.onEval = func(pass int) error {
				if pass > 2 {
					panic("in a pass")
				}
				return nil
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			n := 0
			for range d.Generate(context.Background(), matrixPrompt, engine.Sampling{}) {
				if n++; n > 4 && !inPass {
					panic("in the loop")
				}
			}
		}()
		if d.Stats().End != EndError || s.begun != s.ended || s.ended == 0 {
			t.Errorf("%d texts begun, %d ended, the last by %q", s.begun, s.ended, d.Stats().End)
		}
	}
	target.onEval = nil
	if collect(t, d, matrixPrompt, engine.Sampling{}); s.begun != 3 || s.ended != 3 {
		t.Errorf("%d texts begun, %d ended", s.begun, s.ended)
	}
}
