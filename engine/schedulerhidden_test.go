package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// A prompt whose hidden states are wanted is cut into chunks like any other, so that those who generate keep their pace; its states
// are those of a session of its own, also when it gave up its memory between two chunks. Its beginning is computed although another
// sequence has it.
func TestSchedulerGathersStates(t *testing.T) {
	shape := smallLlama()
	shape.context = 2048
	ids := randomTokens(601, 70, 9)
	layers := []int{2, 0, FinalNorm}
	alone := newSession(t, shape.open(t, newRuntime(t, RuntimeOptions{Threads: 1}), Options{}), SessionOptions{})
	r, err := alone.EvalSegment(context.Background(), Segment{Tokens: ids[:600], Logits: Last, Hidden: All, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(r.Hidden.Data), r.Logits.Data...)
	for _, small := range []bool{false, true} {
		inTime(t, SchedulerOptions{Prefixes: 4}, 20*time.Millisecond, time.Millisecond, func(t *testing.T, c *Scheduler, passes *[]Batch) {
			old := sharedSession(t, c)
			feed(t, old, 246, Last)
			if small {
				c.o.KVBytes = 3 * old.session.Bytes() // of 256 tokens each
			}
			before := sharedSession(t, c) // begins alike
			if _, err := before.Eval(context.Background(), ids[:100], nil, Last); err != nil {
				t.Fatal(err)
			}
			before.Close()
			s := sharedSession(t, c)
			var wait sync.WaitGroup
			wait.Go(func() {
				for range 100 { // into a second page
					feed(t, old, 1, Last)
				}
				old.Announce(false)
			})
			feed(t, s, 0, None)
			from := len(*passes)
			r, err := s.EvalSegment(context.Background(), Segment{Tokens: ids[:600], Logits: Last, Hidden: All, Layers: layers})
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
			next, err := s.EvalSegment(context.Background(), Segment{Tokens: ids[600:], Logits: Last, Hidden: All, Layers: layers})
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

// Heads take a prompt's states in chunks too. They keep their memory: one that finds none fails at once, instead of waiting for another
// that waits as well.
func TestSchedulerHeads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	target := smallLlama().open(t, rt, Options{})
	file := eagleFile{}.bytes(t)
	head, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(head.Close)
	ids := randomTokens(401, 70, 9)
	states := statesFor(t, target, head, ids[:400])
	g := Segment{Tokens: ids[1:], States: states, FromTarget: true, Logits: Last, Hidden: Last, Layers: []int{1}}
	row := func(r Result) []float32 { return append(slices.Clone(r.Logits.Data), r.Hidden.Data...) }
	alone, err := newSession(t, head, SessionOptions{}).EvalSegment(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	want := row(alone)
	c := NewScheduler(head, SchedulerOptions{})
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
	c.o.KVBytes = 2*page - 1
	c.mu.Unlock()
	if _, err := a.EvalSegment(context.Background(), g); !errors.Is(err, ErrKVBudget) || a.Len() != 0 {
		t.Errorf("no memory: %v, %d tokens", err, a.Len())
	}
	g.Tokens, g.States = g.Tokens[:100], g.States[:100*192]
	if _, err := a.EvalSegment(context.Background(), g); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := b.EvalSegment(ctx, g); !errors.Is(err, ErrKVBudget) {
		t.Errorf("no memory beside another: %v", err)
	}
}
