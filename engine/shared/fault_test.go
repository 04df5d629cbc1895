package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// breaking is a context that panics in the middle of a pass, which looks at it between the layers: now and then.
type breaking struct {
	context.Context
	looks, every int64
}

func (b *breaking) Err() error {
	if b.looks++; b.looks%b.every == 0 {
		panic("injected into a pass")
	}
	return b.Context.Err()
}

// Sessions of models with recurrent layers and windows share passes, what prompts have in common, and a budget that
// counts their states: each has the logits that it has alone, bit for bit, also where passes panic between the
// layers.
func TestSchedulerIdentityOfHybrids(t *testing.T) {
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	const walks = 8
	names, steps := []string{"qwen35", "lfm2 windows", "falcon-h1", "gemma4"}, 20
	if !testkit.IsLong(t) {
		steps = 10
	}
	if testing.Short() {
		names = names[:2]
	}
	var hits, preempted int64 // how often depends on how goroutines run
	for i, name := range names {
		m := openRecipe(t, rt, name)
		var want [walks][]float32
		var one int64 // bytes of a session with a long text
		for i := range walks {
			s := newSession(t, m, engine.SessionOptions{})
			out, err := walk(s, m.Config().Vocab, steps, uint64(i), once)
			if err != nil {
				t.Fatal(err)
			}
			want[i] = out
			one = max(one, s.Bytes())
		}
		for k, c := range []struct {
			name   string
			o      Options
			panics int64
		}{
			{"plain", Options{}, 0},
			{"prefixes", Options{CacheBytes: 1 << 30, Sessions: 3}, 0},
			{"budget", Options{KVBytes: 5 * one / 2, Wait: -1}, 0},
			{"panics", Options{KVBytes: 4 * one, Sessions: 6}, 37},
		} {
			if (i+i/2+k)%2 > 0 && !testing.Short() && !testkit.IsLong(t) {
				continue // each with two of the four models
			}
			sched := New(m, c.o)
			var most int64
			sched.prepare = func(engine.Batch) time.Duration {
				most = max(most, sched.used.Load()+sched.planned)
				return 0
			}
			if c.panics > 0 {
				sched.ctx = &breaking{Context: sched.ctx, every: c.panics}
			}
			eval := func(s sequence, tokens, parents []int32, want engine.Rows) ([]float32, error) {
				for n := s.Len(); ; {
					l, err := s.Eval(context.Background(), tokens, parents, want)
					if !errors.Is(err, engine.ErrPanic) {
						return slices.Clone(l.Data), err
					}
					if s.Len() != n {
						return nil, fmt.Errorf("a failed Eval moved the session from %d to %d tokens", n, s.Len())
					}
				}
			}
			walkTogether(t, name+", "+c.name+", walk", sched, steps, want[:], eval)
			st := sched.Stats()
			t.Logf("%s, %s: %+v", name, c.name, st)
			hits, preempted = hits+st.PrefixHits, preempted+st.Preemptions
			if c.o.KVBytes > 0 && most > c.o.KVBytes {
				t.Errorf("%s, %s: %d bytes in use, budget of %d", name, c.name, most, c.o.KVBytes)
			}
			if c.panics > 0 && st.Panics == 0 {
				t.Errorf("%s, %s: no pass panicked", name, c.name)
			}
			sched.Close()
			if n := sched.used.Load(); n != 0 {
				t.Errorf("%s, %s: %d bytes are left", name, c.name, n)
			}
		}
	}
	if hits == 0 || preempted == 0 {
		t.Errorf("%d sequences went on from others', %d gave up their memory", hits, preempted)
	}
}

// TestLongSchedulerIdentityOfHybrids: longer walks, with all options for each model.
func TestLongSchedulerIdentityOfHybrids(t *testing.T) {
	testkit.Long(t)
	TestSchedulerIdentityOfHybrids(t)
}

// The memory of recurrent layers counts as soon as a session has it, as it grows, and until it is given up; what is
// reserved for a pass suffices for it.
func TestSchedulerCountsStates(t *testing.T) {
	m := openRecipe(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), "qwen35")
	c := New(m, Options{CacheBytes: 1 << 30})
	defer c.Close()
	var reserved, before int64
	c.prepare = func(engine.Batch) time.Duration {
		reserved, before = c.planned, c.used.Load()
		return 0
	}
	s := sharedSession(t, c)
	if n := c.used.Load(); n != 0 {
		t.Errorf("%d bytes of a session without tokens", n)
	}
	for i, n := range []int{1, 3, 70, 200, 200, 1, 1, 90} {
		want := engine.None
		if i%2 == 1 {
			want = engine.All
		}
		if _, err := s.Eval(context.Background(), randomTokens(n, m.Config().Vocab, uint64(i)), nil, want); err != nil {
			t.Fatal(err)
		}
		bytes := s.session.Bytes()
		if used := c.used.Load(); used < bytes || s.session.ForkBytes(s.Len()) == 0 {
			t.Errorf("after %d more tokens: %d bytes counted, the session has %d", n, used, bytes)
		}
		if used := c.used.Load(); n <= engine.PassRows && used > before+reserved {
			t.Errorf("a pass of %d tokens took %d bytes, %d were reserved", n, used-before, reserved)
		}
		if err := s.Truncate(s.Len() - n/3); err != nil {
			t.Fatal(err)
		}
		if n%3 == 0 { // a tree
			if _, err := s.Eval(context.Background(), randomTokens(80, m.Config().Vocab, 9), make80(), engine.All); err != nil {
				t.Fatal(err)
			}
			if used := c.used.Load(); used > before+reserved {
				t.Errorf("a tree took %d bytes, %d were reserved", used-before, reserved)
			}
		}
	}
	s.Close()
	if c.used.Load() == 0 {
		t.Error("the kept sequence does not count")
	}
	for c.prefixes.evict(nil) {
	}
	if n := c.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// make80 is the parents of a tree of 80 nodes, two chains.
func make80() []int32 {
	p := make([]int32, 80)
	for i := range p {
		p[i] = int32(i) - 2
	}
	p[0], p[1] = -1, -1
	return p
}

// A panic while a pass is put together, or while its results are handed out, fails its submissions by name; the lock
// is free, others go on, and the owners of the sessions too.
func TestSchedulerPanicsOutsideOfPasses(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	var told atomic.Int64
	var c *Scheduler
	c = New(m, Options{Panicked: func(any, []byte) {
		told.Add(1)
		c.mu.Lock() // it is not held
		c.sessions = slices.DeleteFunc(c.sessions, func(s *Session) bool { return s == nil })
		c.mu.Unlock()
		panic("the callback's own")
	}})
	defer c.Close()
	ids := randomTokens(20, 70, 1)
	want, err := once(newSession(t, m, engine.SessionOptions{}), ids, nil, engine.Last)
	if err != nil {
		t.Fatal(err)
	}
	for i, damage := range []func(s *Session){
		func(*Session) { c.sessions = append(c.sessions, nil) }, // build
		func(s *Session) { // settle
			c.prepare = func(engine.Batch) time.Duration {
				c.batch, c.prepare = c.batch[:0], nil
				return 0
			}
		},
	} {
		s, other := sharedSession(t, c), sharedSession(t, c)
		if _, err := once(s, ids[:10], nil, engine.None); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := once(other, ids[:10], nil, engine.None)
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		other.Announce(false)
		before := told.Load()
		c.mu.Lock()
		damage(s)
		c.mu.Unlock()
		if _, err := once(s, ids[10:], nil, engine.Last); !errors.Is(err, engine.ErrPanic) {
			t.Errorf("fault %d: %v", i, err)
		}
		if told.Load() == before {
			t.Errorf("fault %d: nobody was told", i)
		}
		if s.Len() != 10 {
			t.Errorf("fault %d: %d tokens", i, s.Len())
		}
		for _, s := range []*Session{s, other} {
			got, err := once(s, ids[10:], nil, engine.Last)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("fault %d, afterwards: %v", i, err)
			}
			s.Close()
		}
		if st := c.Stats(); st.Sessions != 0 || st.Queued != 0 {
			t.Errorf("fault %d: left behind: %+v", i, st)
		}
	}
}
