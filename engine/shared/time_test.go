package shared

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
)

// inTime runs a test in virtual time: the passes of its Scheduler take fixed and row for each token, and nothing else
// takes any.
func inTime(t *testing.T, o Options, fixed, row time.Duration,
	test func(t *testing.T, c *Scheduler, passes *[]engine.Batch)) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}),
		2048) // without workers, which do not belong to the bubble
	synctest.Test(t, func(t *testing.T) {
		c := New(m, o)
		defer c.Close()
		var passes []engine.Batch
		c.prepare = func(b engine.Batch) time.Duration {
			rows := 0
			for i := range b {
				rows += len(b[i].Tokens)
			}
			c.mu.Lock()
			passes = append(passes, slices.Clone(b))
			c.mu.Unlock()
			cost := fixed + time.Duration(rows)*row
			time.Sleep(cost)
			return cost
		}
		test(t, c, &passes)
	})
}

// passesOf is the number of passes so far, some of which may be in progress.
func passesOf(c *Scheduler, passes *[]engine.Batch) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(*passes)
}

func sharedSession(t *testing.T, c *Scheduler) *Session {
	t.Helper()
	s, err := c.NewSession(context.Background(), SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// feed is an Eval of random tokens that must succeed.
func feed(t *testing.T, s *Session, n int, want engine.Rows) {
	if _, err := s.Eval(context.Background(), randomTokens(n, 70, s.serial<<20+uint64(s.Len())), nil, want); err != nil {
		t.Error(err)
	}
}

// Sessions whose owners take a while between their Evals, and not the same, share every pass.
func TestSchedulerShares(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		const sessions, rounds = 8, 30
		var wait sync.WaitGroup
		begin := time.Now()
		for i := range sessions {
			s := sharedSession(t, c)
			wait.Go(func() {
				for j := range rounds {
					feed(t, s, 1, engine.Last)
					time.Sleep(time.Duration((i*7+j*3)%10) * time.Millisecond)
				}
				s.Close()
			})
		}
		wait.Wait()
		if n := len(*passes); n > rounds+2 {
			t.Errorf("%d passes for %d rounds", n, rounds)
		}
		if took := time.Since(begin); took > (rounds+2)*(20+9)*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// A session that is slow, or never comes back, costs the others one bound, not one each time.
func TestSchedulerWaitsOnce(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		var wait sync.WaitGroup
		stop := make(chan bool)
		slow := sharedSession(t, c)
		wait.Go(func() {
			for {
				feed(t, slow, 1, engine.Last)
				select {
				case <-stop:
					return
				case <-time.After(77 * time.Millisecond):
				}
			}
		})
		gone := sharedSession(t, c)
		feed(t, gone, 1, engine.Last)
		quick := sharedSession(t, c)
		begin := time.Now()
		const rounds = 50
		for range rounds {
			feed(t, quick, 1, engine.Last)
		}
		// It may have to wait for the end of a pass that the slow one has begun.
		if took := time.Since(begin); took > (2*rounds+3)*20*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if n := c.Stats().Late; n > 2 {
			t.Errorf("bounds were missed %d times", n)
		}
		close(stop)
		wait.Wait()
	})
}

// A request that waits for a place is in the pass after the one that freed it: those who go on wait for what it
// submits. One that is slow, or goes without a word, costs them one bound at most.
func TestSchedulerWaitsForWhoGetsAPlace(t *testing.T) {
	const pass = 20 * time.Millisecond
	for _, x := range []struct {
		name  string
		takes time.Duration // from the place to the first submission; 0: it leaves at once
		lost  time.Duration // for those that go on
		late  int64
	}{
		{"at once", time.Millisecond, time.Millisecond, 0}, {"late", 2 * pass, pass, 1}, {"gone", 0, 0, 0},
	} {
		inTime(t, Options{Sessions: 2}, pass, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
			begin := time.Now()
			const before, after = 5, 6 // passes, until one ends and later
			goesOn, ends := sharedSession(t, c), sharedSession(t, c)
			goesOn.Announce(true)
			ends.Announce(true) // so that the first pass has both
			var wait sync.WaitGroup
			wait.Go(func() {
				for range before + after {
					feed(t, goesOn, 1, engine.Last)
				}
				if took := time.Since(begin) - (before+after)*pass; took != x.lost {
					t.Errorf("%s: the one that goes on lost %v, want %v", x.name, took, x.lost)
				}
				goesOn.Close()
			})
			wait.Go(func() {
				for range before {
					feed(t, ends, 1, engine.Last)
				}
				ends.Close()
			})
			wait.Go(func() {
				s := sharedSession(t, c) // waits
				if time.Sleep(x.takes); x.takes > 0 {
					feed(t, s, 3, engine.Last)
				}
				s.Close()
			})
			wait.Wait()
			if n := len((*passes)[before]); (n == 2) != (x.takes == time.Millisecond) {
				t.Errorf("%s: the pass after the one that freed the place has %d sessions", x.name, n)
			}
			if n := c.Stats().Late; n != x.late {
				t.Errorf("%s: %d bounds were missed", x.name, n)
			}
		})
	}
}

// A sequence that is expected in the place of another one is in the next pass: those who go on wait for its session
// and what that submits. One that does not come costs them one bound, once; one that waits for memory nothing.
func TestSchedulerWaitsForWhoIsExpected(t *testing.T) {
	const pass = 20 * time.Millisecond
	for _, x := range []struct {
		name         string
		sessions     int           // at most
		opens, takes time.Duration // from the end of the other one, and from there to the first submission; 0: never
		lost         time.Duration // for the one that goes on
		next         int           // sessions in the next pass
		late         int64
	}{
		{"at once", 0, time.Millisecond, time.Millisecond, 2 * time.Millisecond, 2, 0},
		{"a session that is late", 0, 3 * pass, time.Millisecond, pass, 1, 1},
		{"a submission that is late", 0, time.Millisecond, 3 * pass, pass, 1, 1},
		{"gone", 0, 0, 0, pass, 1, 1},
		{"it waits for a place", 2, time.Millisecond, time.Millisecond, time.Millisecond, 1, 0},
	} {
		inTime(t, Options{Sessions: x.sessions}, pass, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
			begin := time.Now()
			const before, after = 5, 6
			goesOn, ends := sharedSession(t, c), sharedSession(t, c)
			goesOn.Announce(true)
			ends.Announce(true)
			var wait sync.WaitGroup
			wait.Go(func() {
				for range before + after {
					feed(t, goesOn, 1, engine.Last)
				}
				if took := time.Since(begin) - (before+after)*pass; took != x.lost {
					t.Errorf("%s: the one that goes on lost %v, want %v", x.name, took, x.lost)
				}
				goesOn.Close()
			})
			for range before {
				feed(t, ends, 1, engine.Last)
			}
			if c.Expect(); x.sessions == 0 {
				ends.Close()
			} else {
				ends.Announce(false) // its place is not free
			}
			if time.Sleep(x.opens); x.opens > 0 {
				if x.sessions > 0 {
					time.AfterFunc(2*pass+pass/2, ends.Close) // within a pass
				}
				s := sharedSession(t, c)
				time.Sleep(x.takes)
				feed(t, s, 3, engine.Last)
				s.Close()
			}
			wait.Wait()
			if n := len((*passes)[before]); n != x.next {
				t.Errorf("%s: %d sessions in the next pass, want %d", x.name, n, x.next)
			}
			if n := c.Stats().Late; n != x.late {
				t.Errorf("%s: %d bounds were missed, want %d", x.name, n, x.late)
			}
		})
	}
}

// A session that has said that it will not submit is not waited for, and one that announces itself is.
func TestSchedulerAnnounce(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		a, b := sharedSession(t, c), sharedSession(t, c)
		feed(t, a, 1, engine.Last)
		a.Announce(false)
		begin := time.Now()
		for range 10 {
			feed(t, b, 1, engine.Last)
		}
		if took := time.Since(begin); took != 10*20*time.Millisecond {
			t.Errorf("10 passes of 20 ms took %v", took)
		}
		a.Announce(true)
		n := len(*passes)
		var wait sync.WaitGroup
		wait.Go(func() { feed(t, b, 1, engine.Last) })
		time.Sleep(5 * time.Millisecond)
		feed(t, a, 1, engine.Last)
		wait.Wait()
		if len(*passes) != n+1 {
			t.Errorf("%d passes instead of one", len(*passes)-n)
		}
		if c.Stats().Late != 0 {
			t.Error("a bound was missed")
		}
	})
}

// While another session generates, chunks of a long prompt delay it by about twice the time of its passes, or as asked.
func TestSchedulerChunks(t *testing.T) {
	for _, delay := range []float64{0, 0.8, 5} {
		const fixed, row = 20 * time.Millisecond, 500 * time.Microsecond
		inTime(t, Options{Delay: delay}, fixed, row, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
			feed(t, sharedSession(t, c), 1000, engine.Last)
			if len(*passes) != 4 {
				t.Errorf("a prompt of 1000 tokens alone: %d passes", len(*passes))
			}
			generator := sharedSession(t, c)
			stop, longest := make(chan bool), atomic.Int64{} // nanoseconds between two tokens
			var wait sync.WaitGroup
			wait.Go(func() {
				defer generator.Close()
				for {
					begin := time.Now()
					feed(t, generator, 1, engine.Last)
					longest.Store(max(longest.Load(), int64(time.Since(begin))))
					select {
					case <-stop:
						return
					default:
					}
				}
			})
			time.Sleep(400 * time.Millisecond)
			longest.Store(0)
			before := c.Stats().Passes
			feed(t, sharedSession(t, c), 1500, engine.Last)
			n := int(c.Stats().Passes - before)
			close(stop)
			wait.Wait()
			if delay == 0 {
				delay = 2
			}
			// A token may also just miss the beginning of a pass, and then waits for that one.
			bound := time.Duration((2+1.1*delay)*float64(fixed+row)) + row
			t.Logf("delay %v: %d passes, at most %v between tokens, bound %v", delay, n, time.Duration(longest.Load()), bound)
			if time.Duration(longest.Load()) > bound {
				t.Errorf("delay %v: %v between two tokens", delay, time.Duration(longest.Load()))
			}
			if least := 1500 * row / time.Duration(delay*float64(fixed+row)); n > 2*int(least)+4 {
				t.Errorf("delay %v: %d passes", delay, n)
			}
		})
	}
}

// A caller who leaves is free at the end of the pass in progress, also from a long prompt, and its session can go on.
func TestSchedulerLeave(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		s := sharedSession(t, c)
		feed(t, s, 5, engine.Last)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := s.Eval(ctx, randomTokens(1500, 70, 1), nil, engine.Last)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 40*time.Millisecond { // the second of six passes
			t.Errorf("free after %v", took)
		}
		if s.Len() != 5 {
			t.Errorf("%d tokens", s.Len())
		}
		if n := c.Stats(); n.Queued != 0 || n.Cancelled != 1 {
			t.Errorf("%+v", n)
		}
		feed(t, s, 1, engine.Last)
	})
}

// Sequences that begin alike at the same time are computed once up to where they differ.
func TestSchedulerSharesPrompts(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, 0, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		const sessions, common, own = 6, 700, 30
		var wait sync.WaitGroup
		var reused atomic.Int64
		for i := range sessions {
			s := sharedSession(t, c)
			wait.Go(func() {
				ids := slices.Concat(randomTokens(common, 70, 1), randomTokens(own, 70, uint64(100+i)))
				for len(ids) > 0 { // as decoders feed prompts
					n := min(256, len(ids))
					if _, err := s.Eval(context.Background(), ids[:n], nil, engine.None); err != nil {
						t.Error(err)
					}
					ids = ids[n:]
				}
				reused.Add(int64(s.Reused()))
			})
		}
		wait.Wait()
		// Two may take turns: each then computes some of what they share.
		if least := int64((sessions - 1) * (common - leastShared)); reused.Load() < least {
			t.Errorf("%d tokens taken from other sequences, expected at least %d", reused.Load(), least)
		}
		if st := c.Stats(); st.Tokens > common+sessions*(own+leastShared) {
			t.Errorf("%d tokens computed", st.Tokens)
		}
	})
}

// Budgets: when memory runs out the youngest sequence waits, and the oldest goes on as if it were alone.
func TestSchedulerYoungestYields(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	page := newSession(t, m, engine.SessionOptions{}).Need(1, 1)
	inTime(t, Options{KVBytes: 5 * page, CacheBytes: -1}, 20*time.Millisecond, 0,
		func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
			var wait sync.WaitGroup
			var ended [3]time.Duration
			begin := time.Now()
			for i := range ended {
				s := sharedSession(t, c)
				wait.Go(func() {
					for range 900 / 50 {
						feed(t, s, 50, engine.All)
					}
					ended[i] = time.Since(begin)
					s.Close()
				})
			}
			wait.Wait()
			if !(ended[0] < ended[1] && ended[1] < ended[2]) {
				t.Errorf("ended after %v", ended)
			}
			if limit := (900/50 + 1) * 20 * time.Millisecond; ended[0] > limit { // one pass may have begun before its first
				t.Errorf("the oldest took %v, at most %v expected", ended[0], limit)
			}
			if n := c.Stats().Preemptions; n == 0 ||
				n > 8 { // 3 or 4, seldom 5, by the order in which they begin; taking turns would make dozens
				t.Errorf("%d preemptions", n)
			}
		})
}

// What passes cost is divided among their sessions without rest, and a plain session is charged less than one that
// drafts.
func TestSchedulerShareOfTime(t *testing.T) {
	inTime(t, Options{}, 20*time.Millisecond, time.Millisecond, func(t *testing.T, c *Scheduler, passes *[]engine.Batch) {
		a, b := sharedSession(t, c), sharedSession(t, c)
		prices := make([]float64, 12)
		if a.PassCosts(prices) {
			t.Error("costs are known before the first pass")
		}
		for n := range 8 { // passes of several sizes
			feed(t, a, n+1, engine.All)
		}
		if a.PassCosts(prices) {
			t.Error("a session alone is told prices")
		}
		sum := a.Spent() + b.Spent()
		if diff := sum - c.Stats().PassTime; diff.Abs() > time.Microsecond {
			t.Errorf("shares of %v, passes of %v", sum, c.Stats().PassTime)
		}
		a1, b1 := a.Spent(), b.Spent()
		var wait sync.WaitGroup
		wait.Go(func() {
			for range 20 {
				feed(t, a, 7, engine.All)
			}
		})
		for range 20 {
			feed(t, b, 1, engine.All)
		}
		wait.Wait()
		ofA, ofB := (a.Spent()-a1).Seconds()/20, (b.Spent()-b1).Seconds()/20
		if ofA < 0.0155 || ofA > 0.018 || ofB < 0.010 || ofB > 0.0125 { // 10 ms each and 1 ms per row
			t.Errorf("shares of a pass of 28 ms: %v and %v", ofA, ofB)
		}
		if !b.PassCosts(prices) {
			t.Fatal("no prices")
		}
		if step := (prices[7] - prices[0]) / 7; step < 0.0008 || step > 0.0012 || prices[0] < 0.010 || prices[0] > 0.0125 {
			t.Errorf("prices %v", prices)
		}
	})
}
