package spec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// An answer is the same alone, beside others of the request, with a buffer and without, and however it speculates.
func TestAnswersDoNotDependOnHowTheyAreComputed(t *testing.T) {
	m := newModel(t, Options{})
	r := Request{
		Prompts: []Prompt{{Text: "func (r *Ring) Push("}, {Text: "for i := 0; i < n; i++ {\n"}}, N: 2, MaxTokens: 24,
		Sampling: engine.Sampling{Temperature: 0.8, Seed: 5},
	}
	want := make([]string, 4)
	for i := range want {
		one := r
		one.Prompts, one.N, one.Speculation.Drafter = r.Prompts[i/2:i/2+1], 1, "none"
		one.Sampling.Seed += uint64(i % 2)
		list, err := Collect(m.Generate(t.Context(), one))
		if err != nil {
			t.Fatal(err)
		}
		if want[i] = list[0].Text; list[0].Finish != FinishLength || list[0].Stats.Generated != 24 {
			t.Errorf("%+v", list[0])
		}
	}
	for _, drafter := range []string{"none", "model", "tree", "ngram"} {
		for _, run := range []Run{{}, {AtOnce: 1}, {AtOnce: 3, Buffer: 1000}} {
			r.Speculation.Drafter = drafter
			task, err := m.Prepare(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Collect(task.Generate(t.Context(), run))
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if list[i].Text != want[i] {
					t.Errorf("%s, %+v: answer %d is %q, alone %q", drafter, run, i, list[i].Text, want[i])
				}
			}
			task.Close()
		}
	}
}

// Whoever breaks out of the loop, or cancels, ends the answers: nothing runs on, and the next request is answered.
func TestLeavingEndsTheAnswers(t *testing.T) {
	m := newModel(t, Options{})
	for _, n := range []int{1, 3} {
		r := Request{Prompts: []Prompt{{Text: "func"}}, N: n, Sampling: engine.Sampling{Temperature: 1}}
		for _, err := range m.Generate(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		var failed error
		for _, err := range m.Generate(ctx, r) {
			cancel()
			failed = err
		}
		cancel()
		if !errors.Is(failed, context.Canceled) {
			t.Errorf("%d answers, cancelled: %v", n, failed)
		}
		if s := m.Stats().Target; s.Sessions != 0 {
			t.Errorf("%d answers: %d sequences are open", n, s.Sessions)
		}
	}
}

// The figures of an answer are told also where its loop is left, once.
func TestFiguresOfAnswersThatAreLeft(t *testing.T) {
	m := newModel(t, Options{})
	for _, run := range []Run{{}, {Buffer: 1000}} {
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "func"}}, MaxTokens: 64})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		run.Figures = func(answer int, s speculative.Stats) {
			if answer == 0 && s.Prompt > 0 && s.Generated > 0 {
				told++
			}
		}
		for _, err := range task.Generate(t.Context(), run) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if task.Close(); told != 1 {
			t.Errorf("told %d times, with a buffer for %d", told, run.Buffer)
		}
	}
}

// A panic in an answer of several, or in its pass, is that answer's error and is told.
func TestPanicIsAnError(t *testing.T) {
	var bad atomic.Bool
	m := newModel(t, Options{Around: func(s Sequence) Sequence {
		if bad.Load() {
			return panicking{s}
		}
		return s
	}})
	told := 0
	m.OnPanic(func(any, []byte) { told++ })
	bad.Store(true)
	task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "func"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(task.Generate(t.Context(), Run{Buffer: 9})); !errors.Is(err, engine.ErrPanic) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	if _, err := m.Embed(t.Context(), []string{"func"}, EmbedOptions{}); !errors.Is(err, engine.ErrPanic) || told != 2 {
		t.Errorf("embedding: %v, told %d times", err, told)
	}
	m.OnPanic(nil)
	if _, err := Collect(task.Generate(t.Context(), Run{Buffer: 9})); !errors.Is(err, engine.ErrPanic) || told != 2 {
		t.Errorf("%v, told %d times, the last to nobody", err, told)
	}
	bad.Store(false)
	if _, err := Collect(task.Generate(t.Context(), Run{Buffer: 9999})); err != nil {
		t.Error(err)
	}
}

// A negative number of a Run is refused, by name; it ended the answers as if they were read too slowly.
func TestNegativeRunIsRefused(t *testing.T) {
	m := newModel(t, Options{})
	task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "func"}}, MaxTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	for field, run := range map[string]Run{"Run.Buffer -1": {Buffer: -1}, "Run.AtOnce -2": {AtOnce: -2}} {
		_, err := Collect(task.Generate(t.Context(), run))
		if !errors.Is(err, engine.ErrUsage) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// An Around that returns nothing is an error that names it, of each use of a sequence.
func TestAroundOfNothingIsRefused(t *testing.T) {
	for _, parallel := range []int{1, 2} {
		m := newModel(t, Options{Parallel: parallel, Around: func(Sequence) Sequence { return nil }})
		_, err := Collect(m.Generate(t.Context(), Request{Prompts: []Prompt{{Text: "func"}}, MaxTokens: 1}))
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "Around") {
			t.Errorf("an answer, %d at once: %v", parallel, err)
		}
		if _, err := m.Embed(t.Context(), []string{"func"}, EmbedOptions{}); !errors.Is(err, ErrOptions) {
			t.Errorf("a vector, %d at once: %v", parallel, err)
		}
	}
}

// stalling is a sequence whose passes take until their context ends.
type stalling struct {
	Sequence
	begun chan<- struct{}
}

func (s stalling) Eval(ctx context.Context, _, _ []int32, _ engine.Rows) (engine.Logits, error) {
	s.begun <- struct{}{}
	<-ctx.Done()
	return engine.Logits{}, ctx.Err()
}

func (s stalling) EvalSegment(ctx context.Context, _ engine.Segment) (engine.Result, error) {
	s.begun <- struct{}{}
	<-ctx.Done()
	return engine.Result{}, ctx.Err()
}

// The error of a context that ends is that of an answer, with what is known of it, also where several are written.
func TestCancelledAnswersEndWithTheirEvents(t *testing.T) {
	for _, n := range []int{1, 3} {
		begun := make(chan struct{}, 9)
		m := newModel(t, Options{Around: func(s Sequence) Sequence { return stalling{s, begun} }})
		task, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "func"}}, N: n})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		events := 0
		for e, err := range task.Generate(ctx, Run{AtOnce: 1}) {
			if events++; !errors.Is(err, context.Canceled) || e.Stats == nil || e.Stats.Prompt == 0 {
				t.Errorf("%d answers: %+v, %v", n, e, err)
			}
		}
		if task.Close(); events != 1 {
			t.Errorf("%d answers: %d events", n, events)
		}
	}
}

type panicking struct{ Sequence }

func (panicking) Eval(context.Context, []int32, []int32, engine.Rows) (engine.Logits, error) {
	panic("zanzibar")
}
func (panicking) EvalSegment(context.Context, engine.Segment) (engine.Result, error) {
	panic("zanzibar")
}

// Rounds and figures come with the events that ask for them, and what they say adds up.
func TestRoundsAddUp(t *testing.T) {
	m := newModel(t, Options{})
	r := Request{
		Prompts: []Prompt{{Text: "for i := 0; i < n; i++ {\n\tfor"}}, MaxTokens: 40, Rounds: true, Timings: true,
		Speculation: speculative.Choice{Drafter: "model", Schedule: "constant", Max: 3},
	}
	drafted, tokens := 0, 0
	var last Event
	for e, err := range m.Generate(t.Context(), r) {
		if err != nil || e.Stats == nil {
			t.Fatal(err, e)
		}
		if e.Token.ID >= 0 {
			tokens++
		}
		if e.Round != nil {
			drafted += e.Round.Drafted
		}
		last = e
	}
	if last.Stats.Drafted != drafted || last.Stats.Generated != tokens || drafted == 0 {
		t.Errorf("rounds drafted %d tokens, %d came; %+v", drafted, tokens, last.Stats)
	}
}

// A buffer loses nothing when many write at once, and where writers wait for room it holds no more than it may.
func TestBufferLosesNothing(t *testing.T) {
	for _, waits := range []bool{false, true} {
		most := 1000
		if waits {
			most = 5
		}
		b := newBuffer(most, 3, waits)
		write := func() {
			for range 99 {
				if !b.put(t.Context(), message{}) {
					t.Error("no room")
				}
			}
			b.close(message{})
		}
		got := 0
		testkit.AtOnce(1, write, write, write, func() {
			var dst []message
			for ok := true; ok; {
				var err error
				if dst, ok, err = b.take(t.Context(), dst); err != nil {
					t.Error(err)
				}
				if got += len(dst); waits && len(dst) > most+3 {
					t.Errorf("%d messages at once", len(dst))
				}
				time.Sleep(time.Microsecond)
			}
		})
		if got != 300 {
			t.Errorf("%d messages of 300", got)
		}
	}
	b := newBuffer(1, 1, true)
	ctx, cancel := context.WithCancel(t.Context())
	b.put(ctx, message{})
	cancel()
	if b.put(ctx, message{}) {
		t.Error("a writer that is cancelled finds room")
	}
}

// TestUsualSamplingIsLlamas: what a request does not say about the choice of tokens is as llama.cpp has it.
func TestUsualSamplingIsLlamas(t *testing.T) {
	s := UsualSampling()
	got := []float32{s.Temperature, float32(s.TopK), s.TopP, s.MinP, s.RepeatPenalty, s.TypicalP, s.FrequencyPenalty,
		s.PresencePenalty, s.XTC.Probability, s.DRY.Multiplier, float32(s.PenaltyLastN)}
	if want := []float32{0.8, 40, 0.95, 0.05, 1, 1, 0, 0, 0, 0, 64}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}
