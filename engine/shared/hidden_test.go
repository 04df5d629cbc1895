package shared

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
)

// A prompt whose hidden states are wanted is cut into chunks like any other, so that those who generate keep their
// pace; its states are those of a session of its own, also when it gave up its memory between two chunks. Its
// beginning is computed although another sequence has it.
func TestSchedulerGathersStates(t *testing.T) {
	ids := randomTokens(601, 70, 9)
	layers := []int{2, 0, engine.FinalNorm}
	alone := newSession(t, smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 2048), engine.SessionOptions{})
	r, err := alone.EvalSegment(context.Background(),
		engine.Segment{Tokens: ids[:600], Logits: engine.Last, Hidden: engine.All, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(r.Hidden.Data), r.Logits.Data...)
	for _, small := range []bool{false, true} {
		inTime(t, Options{CacheBytes: 1 << 30}, 20*time.Millisecond, time.Millisecond,
			func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
				old := sharedSession(t, c)
				feed(t, old, 246, engine.Last)
				if small {
					c.budget = 3 * old.session.Bytes() // of 256 tokens each
				}
				before := sharedSession(t, c) // begins alike
				if _, err := before.Eval(context.Background(), ids[:100], nil, engine.Last); err != nil {
					t.Fatal(err)
				}
				before.Close()
				s := sharedSession(t, c)
				var wait sync.WaitGroup
				wait.Go(func() {
					for range 100 { // into a second page
						feed(t, old, 1, engine.Last)
					}
					old.Announce(false)
				})
				feed(t, s, 0, engine.None)
				from := len(*passes)
				r, err := s.EvalSegment(context.Background(),
					engine.Segment{Tokens: ids[:600], Logits: engine.Last, Hidden: engine.All, Layers: layers})
				if err != nil {
					t.Fatal(err)
				}
				if r.Hidden.Rows() != 600 || r.Logits.Rows() != 1 {
					t.Fatalf("%d rows of states, %d of logits", r.Hidden.Rows(), r.Logits.Rows())
				}
				sameBits(t, "gathered", append(slices.Clone(r.Hidden.Data), r.Logits.Data...), want)
				chunks := 0
				for _, b := range (*passes)[from:] {
					for _, g := range b {
						if len(g.Layers) > 0 {
							chunks++
						}
					}
				}
				if chunks < 3 {
					t.Errorf("%d chunks", chunks)
				}
				// The next one is short.
				next, err := s.EvalSegment(context.Background(),
					engine.Segment{Tokens: ids[600:], Logits: engine.Last, Hidden: engine.All, Layers: layers})
				if err != nil || next.Hidden.Rows() != 1 {
					t.Errorf("%d rows of states, %v", next.Hidden.Rows(), err)
				}
				wait.Wait()
				if n := c.Stats().Preemptions; small != (n > 0) {
					t.Errorf("memory for few %v: %d sequences gave up theirs", small, n)
				}
				if n := s.Reused(); n > 0 {
					t.Errorf("%d tokens were not computed", n)
				}
			})
	}
}

// Heads take a prompt's states in chunks too. They keep their memory: one that finds none fails at once, instead of
// waiting for another that waits as well.
func TestSchedulerHeads(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target := smallLlama(t, rt, 512)
	head := openFile(t, rt, randommodel.Eagle{}.File(t), engine.Options{Target: target})
	ids := randomTokens(401, 70, 9)
	states := statesFor(t, target, head, ids[:400])
	g := engine.Segment{Tokens: ids[1:], States: states, FromTarget: true, Logits: engine.Last, Hidden: engine.Last,
		Layers: []int{1}}
	row := func(r engine.Result) []float32 { return append(slices.Clone(r.Logits.Data), r.Hidden.Data...) }
	alone, err := newSession(t, head, engine.SessionOptions{}).EvalSegment(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	want := row(alone)
	c := New(head, Options{})
	defer c.Close()
	a, b := sharedSession(t, c), sharedSession(t, c)
	r, err := a.EvalSegment(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "a head's prompt", row(r), want)
	a.Close()
	page := c.empty
	a = sharedSession(t, c)
	c.mu.Lock()
	c.budget = 2*page - 1
	c.mu.Unlock()
	if _, err := a.EvalSegment(context.Background(), g); !errors.Is(err, engine.ErrKVBudget) || a.Len() != 0 {
		t.Errorf("no memory: %v, %d tokens", err, a.Len())
	}
	g.Tokens, g.States = g.Tokens[:100], g.States[:100*192]
	if _, err := a.EvalSegment(context.Background(), g); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := b.EvalSegment(ctx, g); !errors.Is(err, engine.ErrKVBudget) {
		t.Errorf("no memory beside another: %v", err)
	}
}

// A prompt of whose end hidden states are wanted goes on from a kept sequence for its beginning, and is cut into
// chunks: its states are those of a session of its own, whatever part is wanted.
func TestStatesOfTheEndAreGathered(t *testing.T) {
	ids, layers := randomTokens(600, 70, 9), []int{2, engine.FinalNorm}
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 2048)
	for _, n := range []engine.Rows{1, 5, 350, 500, 599, 600, engine.All} {
		g := engine.Segment{Tokens: ids, Logits: engine.Rows(2), Hidden: n, Layers: layers}
		r, err := newSession(t, m, engine.SessionOptions{}).EvalSegment(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		want := append(slices.Clone(r.Hidden.Data), r.Logits.Data...)
		inTime(t, Options{CacheBytes: 1 << 30}, 20*time.Millisecond, time.Millisecond,
			func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
				before, other, s := sharedSession(t, c), sharedSession(t, c), sharedSession(t, c)
				if _, err := before.Eval(context.Background(), ids[:100], nil, engine.Last); err != nil {
					t.Fatal(err)
				}
				before.Close()
				var wait sync.WaitGroup
				wait.Go(func() {
					for range 100 {
						feed(t, other, 1, engine.Last)
					}
					other.Close()
				})
				feed(t, s, 0, engine.None)
				from := passesOf(c, passes)
				r, err := s.EvalSegment(context.Background(), g)
				if err != nil {
					t.Fatal(err)
				}
				sameBits(t, "states and logits", append(slices.Clone(r.Hidden.Data), r.Logits.Data...), want)
				reused, passed := s.Reused(), passesOf(c, passes)-from
				if wanted := min(100, 600-max(2, rowsOf(n, 600))); reused != wanted && wanted >= leastShared || passed < 3 {
					t.Errorf("states of %d: %d tokens were not computed, of at most %d; %d passes", n, reused, wanted, passed)
				}
				wait.Wait()
			})
	}
	for _, n := range []engine.Rows{-2, 601} {
		c := New(m, Options{})
		s := sharedSession(t, c)
		g := engine.Segment{Tokens: ids, Hidden: n, Layers: layers}
		if _, err := s.EvalSegment(context.Background(), g); !errors.Is(err, engine.ErrUsage) || s.Len() != 0 {
			t.Errorf("states of %d positions: %v", n, err)
		}
		c.Close()
	}
}
