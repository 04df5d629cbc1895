package shared

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
)

// A caller who leaves during the only pass of its submission, which another session runs, has its context's error and
// no result; the session has not moved, and no tree waits.
func TestSchedulerLeaveInPass(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		s, leads := sharedSession(t, c), sharedSession(t, c)
		feed(t, s, 5, engine.Last)
		for _, parents := range [][]int32{nil, {-1, -1}} {
			s.Announce(false)
			s.Announce(true)
			var wait sync.WaitGroup
			wait.Go(func() {
				feed(t, leads, 1, engine.Last)
				leads.Announce(false)
			})
			synctest.Wait() // it waits for s, and is the first in the pass
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			l, err := s.Eval(ctx, []int32{1, 2}, parents, engine.All)
			cancel()
			wait.Wait()
			if !errors.Is(err, context.DeadlineExceeded) || len(l.Data) > 0 {
				t.Errorf("parents %v: %v, %d logits", parents, err, len(l.Data))
			}
			if s.Len() != 5 {
				t.Errorf("parents %v: %d tokens", parents, s.Len())
			}
			if parents != nil {
				if err := s.Commit([]int32{0}); !errors.Is(err, engine.ErrUsage) {
					t.Errorf("a tree of a submission that failed: %v", err)
				}
			}
		}
		if n := len(*passes); n != 3 {
			t.Errorf("%d passes", n)
		}
		begin := time.Now()
		for range 5 { // nobody waits for one whose Eval has failed
			feed(t, leads, 1, engine.Last)
		}
		if took := time.Since(begin); took != 5*20*time.Millisecond {
			t.Errorf("5 passes of 20 ms took %v", took)
		}
	})
}

// loneSession is the only session of a small model.
func loneSession(t *testing.T) *Session {
	t.Helper()
	c := New(smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512), Options{})
	t.Cleanup(c.Close)
	return sharedSession(t, c)
}

// Truncate drops a tree that waits.
func TestSchedulerTruncateDropsTree(t *testing.T) {
	s := loneSession(t)
	feed(t, s, 5, engine.Last)
	if _, err := s.Eval(context.Background(), []int32{1, 2}, []int32{-1, -1}, engine.All); err != nil {
		t.Fatal(err)
	}
	if err := s.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]int32{0}); !errors.Is(err, engine.ErrUsage) || s.Len() != 5 {
		t.Errorf("%v, %d tokens", err, s.Len())
	}
}

// A path that is none is refused also where the memory of the tree was given up, and the tree is still there.
func TestPathsAreCheckedWithoutMemory(t *testing.T) {
	for _, kept := range []bool{true, false} {
		s := loneSession(t)
		feed(t, s, 5, engine.Last)
		if _, err := s.Eval(context.Background(), []int32{1, 2, 3}, []int32{-1, 0, -1}, engine.All); err != nil {
			t.Fatal(err)
		}
		if !kept {
			s.c.mu.Lock()
			s.drop()
			s.c.mu.Unlock()
		}
		for _, path := range [][]int32{{1}, {0, 2}, {0, 0}, {3}, {-1}, {2, 1}} {
			if err := s.Commit(path); !errors.Is(err, engine.ErrUsage) || s.Len() != 5 {
				t.Errorf("%v, memory %v: %v, %d tokens", path, kept, err, s.Len())
			}
		}
		if err := s.Commit([]int32{0, 1}); err != nil || !slices.Equal(s.Tokens()[5:], []int32{1, 2}) {
			t.Errorf("memory %v: %v, tokens %d", kept, err, s.Tokens())
		}
	}
}

// A session that is closed is waited for by nobody, and its place is taken at once by the first who waits, also where
// no pass runs.
func TestSchedulerClosedSession(t *testing.T) {
	inTime(t, Options{Sessions: 2}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		a, b := sharedSession(t, c), sharedSession(t, c)
		feed(t, a, 1, engine.Last)
		a.Announce(false)
		feed(t, b, 1, engine.Last)
		a.Announce(true) // and never comes
		admitted := make(chan int, 2)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var wait sync.WaitGroup
		for i := range 2 {
			wait.Go(func() {
				if s, err := c.NewSession(ctx, SessionOptions{}); err == nil {
					admitted <- i
					<-ctx.Done()
					s.Close()
				}
			})
			synctest.Wait()
		}
		if n := c.Stats(); n.Waiting != 2 || n.Sessions != 2 {
			t.Errorf("%+v", n)
		}
		a.Close()
		synctest.Wait()
		if n := c.Stats(); len(admitted) != 1 || n.Waiting != 1 || n.Sessions != 2 {
			t.Fatalf("%d admitted, %+v", len(admitted), n)
		}
		if first := <-admitted; first != 0 {
			t.Error("the one who came last went first")
		}
		begin := time.Now()
		for range 10 {
			feed(t, b, 1, engine.Last)
		}
		if took := time.Since(begin); took != (1+10)*20*time.Millisecond { // a bound for the one that never submits
			t.Errorf("a bound and 10 passes of 20 ms took %v", took)
		}
		cancel()
		wait.Wait()
	})
}

// inPages is inTime with a budget of so many pages of 256 tokens, and nothing shared.
func inPages(t *testing.T, pages int64, test func(t *testing.T, c *Scheduler, held func(s *Session) bool)) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	page := newSession(t, m, engine.SessionOptions{}).Need(1, 1)
	inTime(t, Options{KVBytes: pages * page, CacheBytes: -1}, 20*time.Millisecond, 0,
		func(t *testing.T, c *Scheduler, _ *[]engine.Batch) {
			test(t, c, func(s *Session) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return s.session != nil
			})
		})
}

// Of several that could give up their memory it is the youngest: among those that nobody waits for, and among those
// that have submitted.
func TestSchedulerVictims(t *testing.T) {
	inPages(t, 3, func(t *testing.T, c *Scheduler, held func(*Session) bool) {
		var s [3]*Session
		for i := range s {
			s[i] = sharedSession(t, c)
			feed(t, s[i], 200, engine.Last)
			s[i].Announce(false)
		}
		feed(t, s[0], 100, engine.Last) // a second page
		if !held(s[0]) || !held(s[1]) || held(s[2]) {
			t.Errorf("idle ones: the sessions have their memory: %v %v %v, want that of the youngest gone", held(s[0]),
				held(s[1]), held(s[2]))
		}
	})
	inPages(t, 3, func(t *testing.T, c *Scheduler, held func(*Session) bool) {
		var s [3]*Session
		for i := range s {
			s[i] = sharedSession(t, c)
			feed(t, s[i], 200, engine.Last)
			s[i].Announce(false)
		}
		for i := range s {
			s[i].Announce(true)
		}
		var seen [3]bool
		var gone int64
		look, prepare := true, c.prepare
		c.prepare = func(b engine.Batch) time.Duration {
			if look {
				for i := range s {
					seen[i] = held(s[i])
				}
				look, gone = false, c.Stats().Preemptions
			}
			return prepare(b)
		}
		var wait sync.WaitGroup
		for i := range s {
			wait.Go(func() {
				feed(t, s[i], 100, engine.Last)
				s[i].Close()
			})
		}
		wait.Wait()
		if seen != [3]bool{true, true, false} || gone != 1 {
			t.Errorf("busy ones: in the pass the sessions have their memory: %v, %d gave it up; want that of the youngest gone",
				seen, gone)
		}
	})
}

// A younger sequence waits for memory as long as an older one needs its own.
func TestSchedulerOlderKeepsMemory(t *testing.T) {
	inPages(t, 2, func(t *testing.T, c *Scheduler, held func(*Session) bool) {
		old, young := sharedSession(t, c), sharedSession(t, c)
		feed(t, old, 200, engine.Last)
		feed(t, young, 200, engine.Last)
		feed(t, old, 1, engine.Last)
		feed(t, old, 1, engine.Last) // at once, so that passes wait for it again
		var wait sync.WaitGroup
		var done atomic.Bool
		wait.Go(func() {
			feed(t, young, 100, engine.Last) // a second page
			done.Store(true)
		})
		synctest.Wait() // it has submitted that before the older one goes on
		for range 40 {
			feed(t, old, 1, engine.Last)
		}
		if n := c.Stats().Preemptions; n > 0 || done.Load() || !held(old) {
			t.Errorf("%d sequences gave up their memory; the younger one has its result: %v", n, done.Load())
		}
		old.Close()
		wait.Wait()
	})
}

// Several long prompts at once have together what one would have of each pass, and all of them their share.
func TestSchedulerSharesChunks(t *testing.T) {
	const fixed, row, delay = 20 * time.Millisecond, 500 * time.Microsecond, 2
	inTime(t, Options{}, fixed, row, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		feed(t, sharedSession(t, c), 600, engine.Last) // the times are known
		generator := sharedSession(t, c)
		stop := make(chan bool)
		var wait, prompts sync.WaitGroup
		wait.Go(func() {
			defer generator.Close()
			for {
				feed(t, generator, 1, engine.Last)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		time.Sleep(400 * time.Millisecond)
		from := passesOf(c, passes)
		for range 3 {
			s := sharedSession(t, c)
			prompts.Go(func() { feed(t, s, 600, engine.Last) })
		}
		prompts.Wait()
		to := passesOf(c, passes)
		close(stop)
		wait.Wait()
		together, most := 0, 0
		for _, b := range (*passes)[from:to] {
			chunks, rows := 0, 0
			for i := range b {
				rows += len(b[i].Tokens)
				if len(b[i].Tokens) > 1 {
					chunks++
				}
			}
			if chunks == 3 {
				together++
			}
			if chunks > 0 {
				most = max(most, rows)
			}
		}
		if together < 5 {
			t.Errorf("of %d passes %d have a part of all prompts", to-from, together)
		}
		if took, bound := time.Duration(most)*row, time.Duration(1.15*delay*float64(fixed+row)); took > bound {
			t.Errorf("%d tokens of a pass take %v, more than %v", most, took, bound)
		}
	})
}

// Sequences share with those of equal options and salt alone, whether those are open or kept: each option by itself
// separates them, and the logits are those of a session that shares nothing.
func TestPrefixesAreOfEqualOptionsAndSalt(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	ids := randomTokens(120, 70, 3)
	plain := SessionOptions{SessionOptions: engine.SessionOptions{KV: "f16", Adapters: adapters(t, m, 1)}, Salt: "a key"}
	formOf := func(o engine.DraftFormOptions) *engine.DraftForm {
		form, err := m.NewDraftForm(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(form.Close)
		return form
	}
	vocab := formOf(engine.DraftFormOptions{Tokens: []int32{1, 2, 40}, SameBits: true})
	others := map[string]func(o *SessionOptions){
		"Salt":       func(o *SessionOptions) { o.Salt = "another key" },
		"no Salt":    func(o *SessionOptions) { o.Salt = "" },
		"Adapters":   func(o *SessionOptions) { o.Adapters = adapters(t, m, 2) },
		"scale":      func(o *SessionOptions) { o.Adapters = scaled(t, o.Adapters.At(0).Adapter, 0.5) },
		"no adapter": func(o *SessionOptions) { o.Adapters = engine.AdapterSet{} },
		"KV":         func(o *SessionOptions) { o.KV = "f32" },
		"Layers":     func(o *SessionOptions) { o.Layers = 1 },
		"StateBytes": func(o *SessionOptions) { o.StateBytes = 1 << 20 },
		"NoCache":    func(o *SessionOptions) { o.NoCache = true },
		"Form":       func(o *SessionOptions) { o.Form = vocab },
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[SessionOptions]()) {
		if others[f.Name] == nil && !slices.Contains([]string{"SessionOptions", "Context", "Target"}, f.Name) {
			t.Errorf("no case for the option %s", f.Name)
		}
	}
	form := SessionOptions{SessionOptions: engine.SessionOptions{Form: formOf(engine.DraftFormOptions{})}}
	if _, err := New(m, Options{}).NewSession(t.Context(), form); !errors.Is(err, engine.ErrUsage) {
		t.Errorf("a sequence that fewer bits compute: %v", err) // its prefix would be taken for the model's
	}
	for name, set := range others {
		other := plain
		set(&other)
		c := New(m, Options{CacheBytes: 1 << 30})
		open := func(what string, o SessionOptions, reused bool) *Session {
			t.Helper()
			s, err := c.NewSession(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := once(s, ids, nil, engine.Last)
			if err != nil || (s.Reused() > 0) != reused {
				t.Errorf("%s, %s: %v, %d tokens reused", name, what, err, s.Reused())
			}
			want, err := once(newSession(t, m, o.SessionOptions), ids, nil, engine.Last)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: other logits than alone (%v)", name, what, err)
			}
			s.Announce(false)
			return s
		}
		a := open("the first", plain, false)
		open("beside an open one", other, false).Close()
		for c.prefixes.evict(nil) {
		}
		a.Close()
		open("behind a kept one", other, false).Close()
		kept := 2
		if other.NoCache {
			kept = 1
		}
		if n := c.Stats().Prefixes; n != kept {
			t.Errorf("%s: %d sequences are kept, want %d", name, n, kept)
		}
		open("behind a kept one of its own", plain, true).Close()
		open("behind a kept one of its own", other, !other.NoCache).Close()
		c.Close()
	}
}

// A session that missed a bound once, and is in time again, shares every pass again.
func TestSchedulerLateOnce(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		a, b := sharedSession(t, c), sharedSession(t, c)
		var wait sync.WaitGroup
		stop := make(chan bool)
		wait.Go(func() {
			for {
				feed(t, a, 1, engine.Last)
				select {
				case <-stop:
					a.Close()
					return
				default:
				}
			}
		})
		feed(t, b, 1, engine.Last)
		time.Sleep(333 * time.Millisecond)
		if n := c.Stats().Late; n != 1 {
			t.Errorf("%d bounds were missed", n)
		}
		feed(t, b, 1, engine.Last)
		feed(t, b, 1, engine.Last)
		from := passesOf(c, passes)
		const rounds = 60
		for range rounds {
			feed(t, b, 1, engine.Last)
		}
		if n := passesOf(c, passes) - from; n > rounds+4 {
			t.Errorf("%d passes for %d rounds", n, rounds)
		}
		close(stop)
		b.Close()
		wait.Wait()
	})
}

// Two sessions that want hidden states of one pass have their own.
func TestSchedulerHiddenOfEach(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	var want [3][]float32
	segment := func(i int) engine.Segment {
		return engine.Segment{Tokens: randomTokens(5+i, 70, uint64(i)), Logits: engine.Last, Hidden: engine.All,
			Layers: []int{engine.FinalNorm}}
	}
	for i := range want {
		r, err := newSession(t, m, engine.SessionOptions{}).EvalSegment(context.Background(), segment(i))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = slices.Clone(r.Hidden.Data)
	}
	inTime(t, Options{CacheBytes: -1}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		var wait sync.WaitGroup
		var s [3]*Session
		for i := range s {
			s[i] = sharedSession(t, c)
			s[i].Announce(true)
		}
		for i := range s {
			wait.Go(func() {
				r, err := s[i].EvalSegment(context.Background(), segment(i))
				if err != nil || !slices.Equal(r.Hidden.Data, want[i]) {
					t.Errorf("session %d: %v, %d numbers, not those that it has alone", i, err, len(r.Hidden.Data))
				}
			})
		}
		wait.Wait()
		if n := len(*passes); n != 1 {
			t.Errorf("%d passes", n)
		}
	})
}

// A Scheduler of a closed model begins no session, and one that was open already is told at its next Eval; nothing
// hangs.
func TestSchedulerOfClosedModel(t *testing.T) {
	open := loneSession(t)
	feed(t, open, 3, engine.Last)
	open.Model().Close()
	if _, err := open.c.NewSession(context.Background(), SessionOptions{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a new session: %v", err)
	}
	if _, err := open.Eval(context.Background(), []int32{1}, nil, engine.Last); !errors.Is(err, engine.ErrClosed) ||
		open.Len() != 3 {
		t.Errorf("an open session: %v, %d tokens", err, open.Len())
	}
}
