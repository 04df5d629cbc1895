package shared

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
)

// lentChain is chainOf for a session of shared passes.
func lentChain(tb testing.TB, s *LentSession, token int32, h []float32, steps int) (logits [][]float32) {
	tb.Helper()
	for range steps {
		r, err := s.EvalSegment(context.Background(),
			engine.Segment{Tokens: []int32{token}, States: h, Logits: engine.Last, Hidden: engine.Last,
				Layers: []int{engine.FinalNorm}})
		if err != nil {
			tb.Fatal(err)
		}
		logits, h = append(logits, slices.Clone(r.Logits.Row(0))), slices.Clone(r.Hidden.Row(0))
		token = greatest(logits[len(logits)-1])
	}
	return logits
}

// TestLentSessions: a draft head computes over a cache that is lent what it computes over a private session's, while
// others' passes run, prompts that begin alike are shared, and memory is short.
func TestLentSessions(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, head := openAssistant(t, rt)
	one := newSession(t, target, engine.SessionOptions{})
	if _, err := one.Eval(context.Background(), []int32{1}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	page := one.Bytes()
	const users, steps = 6, 5
	for _, budget := range []int64{0, 4 * page} {
		c := New(target, Options{KVBytes: budget, CacheBytes: 1 << 30})
		var wait sync.WaitGroup
		for u := range users {
			wait.Go(func() {
				ctx := context.Background()
				s, err := c.NewSession(ctx, SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				d, err := NewLentSession(head, s, engine.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer d.Close()
				alone, err := target.NewSession(engine.SessionOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				defer alone.Close()
				ids := append(randomTokens(40, recipeVocab, 1), randomTokens(60, recipeVocab, uint64(u))...)
				lost := 0
				for n := 40; n < len(ids)-1; n += 5 {
					if _, err := alone.Eval(ctx, ids[alone.Len():n], nil, engine.None); err != nil {
						t.Error(err)
						return
					}
					r, err := s.EvalSegment(ctx,
						engine.Segment{Tokens: ids[s.Len():n], Hidden: engine.Last, Layers: []int{engine.FinalNorm}})
					if err != nil {
						t.Error(err)
						return
					}
					h, token := slices.Clone(r.Hidden.Row(0)), ids[n]
					for range steps {
						r, err := d.EvalSegment(ctx,
							engine.Segment{Tokens: []int32{token}, States: h, Logits: engine.Last, Hidden: engine.Last,
								Layers: []int{engine.FinalNorm}})
						if errors.Is(err, engine.ErrKVBudget) && budget > 0 {
							lost++
							break
						} else if err != nil {
							t.Error(err)
							return
						}
						got, state := slices.Clone(r.Logits.Row(0)), slices.Clone(r.Hidden.Row(0))
						own, err := head.NewSession(engine.SessionOptions{Target: alone})
						if err == nil {
							r, err = own.EvalSegment(ctx, engine.Segment{Tokens: []int32{token}, States: h, Logits: engine.Last})
						}
						if err != nil || !slices.Equal(r.Logits.Data, got) {
							t.Errorf("user %d, after %d tokens: other logits than alone (%v)", u, n, err)
						}
						h, token = state, greatest(got)
					}
				}
				if lost > 10 {
					t.Errorf("user %d: %d of 12 drafts had no memory", u, lost)
				}
			})
		}
		wait.Wait()
		c.Close()
		if n := c.Stats().KVBytes; n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	}
}

// TestLoans: memory that is lent stays, until it is given back; a sequence without memory lends none.
func TestLoans(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	target, head := openAssistant(t, rt)
	ctx := context.Background()
	c := New(target, Options{})
	defer c.Close()
	var s [2]*Session
	for i := range s {
		var err error
		if s[i], err = c.NewSession(ctx, SessionOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := NewLentSession(head, s[1], engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := engine.Segment{Tokens: []int32{1}, States: make([]float32, recipeWidth), Logits: engine.Last}
	refused := func(what string, want error) {
		t.Helper()
		if _, err := d.EvalSegment(ctx, g); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no memory yet", engine.ErrKVBudget)
	// A head looks at its own target's sessions alone.
	if err := d.head.SetTarget(newSession(t, smallLlama(t, rt, 100), engine.SessionOptions{})); err == nil {
		t.Error("a head looks at the cache of another model")
	}
	r, err := s[1].EvalSegment(ctx,
		engine.Segment{Tokens: randomTokens(20, recipeVocab, 3), Hidden: engine.Last, Layers: []int{engine.FinalNorm}})
	if err != nil {
		t.Fatal(err)
	}
	h := slices.Clone(r.Hidden.Row(0))
	before := lentChain(t, d, 3, h, 3)
	if d.Len() != 0 || d.Spent() <= 0 || d.Model() != head || d.Vocab() != recipeVocab || d.Target() != s[1] {
		t.Errorf("%d tokens, %v", d.Len(), d.Spent())
	}
	victim := func() *Session {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.victim(s[0])
	}
	if victim() != s[1] {
		t.Error("the younger session gives up nothing")
	}
	lent, err := s[1].lend()
	if err != nil || victim() != nil {
		t.Errorf("the memory of a loan is taken: %v", err)
	}
	s[1].giveBack()
	if v := victim(); v != s[1] || lent.Bytes() == 0 {
		t.Error("the loan has not ended")
	}
	c.mu.Lock()
	s[1].drop()
	c.mu.Unlock()
	refused("no memory any more", engine.ErrKVBudget)
	part, err := target.NewSession(engine.SessionOptions{}) // as where computing it again was cancelled
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	_, err = part.Eval(ctx, s[1].tokens[:10], nil, engine.None)
	s[1].session = part
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	refused("the memory of a part", engine.ErrKVBudget)
	if _, err := s[1].Eval(ctx, []int32{3}, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	if err := s[1].Truncate(20); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "computed again", slices.Concat(lentChain(t, d, 3, h, 3)...), slices.Concat(before...))

	// Close waits for the end of a loan.
	if lent, err = s[1].lend(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	for begun := false; !begun; runtime.Gosched() {
		c.mu.Lock()
		begun = c.closed
		c.mu.Unlock()
	}
	if lent.Bytes() == 0 {
		t.Error("closed during a loan")
	}
	s[1].giveBack()
	<-closed
	if lent.Bytes() != 0 {
		t.Error("not closed after the loan")
	}
	refused("a closed scheduler", engine.ErrClosed)

	// Sessions that cannot be.
	for what, f := range map[string]func() (*LentSession, error){
		"no session": func() (*LentSession, error) { return NewLentSession(head, nil, engine.SessionOptions{}) },
		"no head":    func() (*LentSession, error) { return NewLentSession(target, s[0], engine.SessionOptions{}) },
		"a long context": func() (*LentSession,
			error) {
			return NewLentSession(head, s[0], engine.SessionOptions{Context: 2001})
		},
	} {
		if _, err := f(); !errors.Is(err, engine.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
	}
	llama := smallLlama(t, rt, 512)
	others := New(llama, Options{})
	defer others.Close()
	other, err := others.NewSession(ctx, SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLentSession(head, other, engine.SessionOptions{}); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("another model's session: %v", err)
	}
}
