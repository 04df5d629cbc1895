package shared

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
)

// Whoever waits is woken by the change that it waits for, and not only by the next one: nothing else happens here.
func TestWhoWaitsIsWoken(t *testing.T) {
	const pass = 20 * time.Millisecond
	type world struct {
		*testing.T
		c    *Scheduler
		done atomic.Int64 // of those that wait
	}
	goes := func(w *world, f func() error) {
		go func() {
			if err := f(); err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, context.Canceled) {
				w.Error(err)
			}
			w.done.Add(1)
		}()
		synctest.Wait()
	}
	eval := func(w *world, s *Session, n int) {
		goes(w, func() error {
			_, err := s.Eval(context.Background(), randomTokens(n, 70, 1), nil, engine.Last)
			return err
		})
	}
	admission := func(w *world, ctx context.Context) {
		goes(w, func() error {
			_, err := w.c.NewSession(ctx, SessionOptions{})
			return err
		})
	}
	for name, x := range map[string]struct {
		o     Options
		pages int64
		waits func(w *world) (change func())
		want  int64
	}{
		"a submission, where the one that is missing takes back its announcement": {Options{Wait: time.Hour}, 0,
			func(w *world) func() {
				a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
				b.Announce(true)
				eval(w, a, 1)
				return func() { b.Announce(false) }
			}, 1},
		"a submission, where the one that is missing is closed": {Options{Wait: time.Hour}, 0, func(w *world) func() {
			a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
			b.Announce(true)
			eval(w, a, 1)
			return b.Close
		}, 1},
		"a submission, where the one that is missing submits": {Options{Wait: time.Hour}, 0, func(w *world) func() {
			a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
			b.Announce(true)
			eval(w, a, 1)
			return func() { feed(w.T, b, 1, engine.Last) }
		}, 1},
		"a submission, where the one that leads leaves": {Options{Wait: time.Hour}, 0, func(w *world) func() {
			a, b, c := sharedSession(w.T, w.c), sharedSession(w.T, w.c), sharedSession(w.T, w.c)
			c.Announce(true)
			ctx, cancel := context.WithCancel(context.Background())
			goes(w, func() error {
				_, err := a.Eval(ctx, []int32{1}, nil, engine.Last)
				return err
			})
			eval(w, b, 1)
			return func() {
				w.c.mu.Lock()
				c.late = true // so that a is told to lead, and finds that its caller has left
				w.c.missing = 0
				cancel()
				w.c.kick()
				w.c.mu.Unlock()
			}
		}, 2},
		"a submission, where memory that was lent is given back": {Options{Wait: -1, CacheBytes: -1}, 2,
			func(w *world) func() {
				a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
				feed(w.T, a, 200, engine.Last)
				feed(w.T, b, 200, engine.Last)
				b.Announce(false)
				if _, err := b.lend(); err != nil {
					w.Fatal(err)
				}
				eval(w, a, 100) // a second page
				time.Sleep(10 * pass)
				return b.giveBack
			}, 1},
		"a new session, where another one is closed": {Options{Sessions: 1}, 0, func(w *world) func() {
			a := sharedSession(w.T, w.c)
			admission(w, context.Background())
			return a.Close
		}, 1},
		"a new session, where the one before it leaves": {Options{}, 2, func(w *world) func() {
			a := sharedSession(w.T, w.c)
			feed(w.T, a, 300, engine.Last) // all of the memory
			ctx, cancel := context.WithCancel(context.Background())
			admission(w, ctx)
			admission(w, context.Background())
			w.c.mu.Lock()
			w.c.budget *= 2
			w.c.mu.Unlock()
			return cancel
		}, 2},
		"a new session, where those who were there first have had their pass": {Options{Wait: time.Hour}, 3,
			func(w *world) func() {
				a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
				b.Announce(true)
				eval(w, a, 1) // without memory as yet
				admission(w, context.Background())
				return func() { b.Announce(false) }
			}, 2},
		"a new session, where the scheduler is closed": {Options{Sessions: 1}, 0, func(w *world) func() {
			sharedSession(w.T, w.c)
			admission(w, context.Background())
			return w.c.Close
		}, 1},
		"a submission, where the scheduler is closed": {Options{Wait: time.Hour}, 0, func(w *world) func() {
			a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
			b.Announce(true)
			eval(w, a, 1)
			return w.c.Close
		}, 1},
		"Close, where the pass that runs ends": {Options{}, 0, func(w *world) func() {
			eval(w, sharedSession(w.T, w.c), 1) // which takes its time
			goes(w, func() error { w.c.Close(); return nil })
			return func() { time.Sleep(pass) }
		}, 2},
		"Close, where the one that leads leaves": {Options{Wait: time.Hour}, 0, func(w *world) func() {
			a, b := sharedSession(w.T, w.c), sharedSession(w.T, w.c)
			b.Announce(true)
			ctx, cancel := context.WithCancel(context.Background())
			goes(w, func() error {
				_, err := a.Eval(ctx, []int32{1}, nil, engine.Last)
				return err
			})
			w.c.mu.Lock()
			w.c.leader, w.c.running = a, true // which has not been told as yet
			w.c.mu.Unlock()
			goes(w, func() error { w.c.Close(); return nil })
			return cancel
		}, 2},
		"Close, where a loan ends": {Options{}, 0, func(w *world) func() {
			s := sharedSession(w.T, w.c)
			feed(w.T, s, 3, engine.Last)
			if _, err := s.lend(); err != nil {
				w.Fatal(err)
			}
			goes(w, func() error { w.c.Close(); return nil })
			return s.giveBack
		}, 1},
		"Close, where a pass of an early exit ends": {Options{}, 0, func(w *world) func() {
			s := sharedSession(w.T, w.c)
			feed(w.T, s, 60, engine.Last)
			e, err := s.Exit(1)
			if err != nil {
				w.Fatal(err)
			}
			e.tokens = append(e.tokens, s.tokens...)
			if _, err := e.take(1); err != nil {
				w.Fatal(err)
			}
			goes(w, func() error { w.c.Close(); return nil })
			return e.giveBack
		}, 1},
	} {
		m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
		x.o.KVBytes = x.pages * newSession(t, m, engine.SessionOptions{}).Need(1, 1)
		inTime(t, x.o, pass, 0, func(t *testing.T, c *Scheduler, _ *[]engine.Batch) {
			w := &world{T: t, c: c}
			change := x.waits(w)
			if n := w.done.Load(); n != 0 {
				t.Errorf("%s: %d did not wait", name, n)
			}
			change()
			if time.Sleep(2 * pass); w.done.Load() != x.want {
				t.Errorf("%s: %d of %d were woken", name, w.done.Load(), x.want)
			}
			// Or else the test would not end.
			c.mu.Lock()
			c.lent = 0
			c.ended.Broadcast()
			c.mu.Unlock()
			for time.Sleep(pass); w.done.Load() < x.want; time.Sleep(pass) {
				c.mu.Lock()
				c.missing, c.running = 0, c.running && c.leader == nil
				for _, a := range c.waiting {
					close(a.ready)
				}
				c.waiting = nil
				c.changed()
				c.mu.Unlock()
			}
		})
	}
}

// Close cancels the pass that runs, and its session's call fails.
func TestCloseEndsThePassThatRuns(t *testing.T) {
	inTime(t, Options{}, time.Second, 0, func(t *testing.T, c *Scheduler, _ *[]engine.Batch) {
		c.prepare = func(engine.Batch) time.Duration { // a pass without another end
			<-c.ctx.Done()
			return 0
		}
		s, failed := sharedSession(t, c), make(chan error, 1)
		go func() {
			_, err := s.Eval(context.Background(), []int32{1}, nil, engine.Last)
			failed <- err
		}()
		synctest.Wait() // until the pass runs
		go c.Close()
		if err := <-failed; !errors.Is(err, engine.ErrClosed) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
