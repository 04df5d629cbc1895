package shared

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

const (
	shortRows = 8  // tokens without logits up to which a submission is not cut: what a decoder feeds before it drafts
	lately    = 10 // times maxWait: how long after a result a session counts as one that generates
	leastRows = 16 // of a chunk of a prompt, whatever it delays
	mostWaits = 4  // times the bound: how long a pass waits at most while the runtime computes other models' passes
)

// wait is the bound: how long a pass waits for those that are expected.
func (c *Scheduler) wait() time.Duration {
	if c.o.Wait != 0 {
		return max(c.o.Wait, 0)
	}
	return min(max(c.cost.Mean(), minWait), maxWait)
}

// moment is a time, and for how long the runtime had computed other Schedulers' passes by then.
type moment struct {
	at     time.Time
	worked time.Duration
}

func (c *Scheduler) now() moment {
	_, worked := c.others()
	return moment{time.Now(), worked}
}

// others is how many passes of other models run or wait, and for how long the runtime has computed such passes.
func (c *Scheduler) others() (open int, worked time.Duration) {
	open, worked = c.m.Runtime().Turns()
	if c.running { // that one is its own
		open--
	}
	return open, worked - time.Duration(c.worked.Load())
}

// left is how long it is until the bound, counted from a moment, has passed; 0 if it has. The time that the runtime spends on passes of
// other models, such as those of drafts, does not count: to wait for what they are for costs nothing. But it ends at mostWaits bounds.
func (c *Scheduler) left(from moment) time.Duration {
	bound, since := c.wait(), time.Since(from.at)
	most := mostWaits*bound - since
	if most <= 0 || bound == 0 {
		return 0
	}
	open, worked := c.others()
	left := bound - since + worked - from.worked
	if left < minWait && open > 0 {
		left = minWait
	}
	return min(max(left, 0), most)
}

// expect has passes wait for s, unless it was late the last time.
func (c *Scheduler) expect(s *Session) {
	s.expectAt = c.now()
	if !s.expected && !s.late {
		s.expected = true
		c.missing++
	}
}

func (c *Scheduler) unexpect(s *Session) {
	if s.expected {
		s.expected = false
		c.missing--
	}
}

// kick has a pass begin if it is time: it tells one of the sessions in it to run it. It is called after every change that may
// be the one that passes wait for.
func (c *Scheduler) kick() {
	if c.running || c.closed || len(c.pending) == 0 {
		c.disarm()
		return
	}
	if c.missing > 0 {
		if !c.armed {
			c.armed, c.since = true, c.now()
			c.timer.Reset(c.wait())
		}
		if c.left(c.since) > 0 {
			return
		}
		for _, s := range c.sessions {
			if s.expected {
				c.unexpect(s)
				s.late = true
				c.stats.Late++
			}
		}
		c.blocked = false // they may have to give up memory now
	}
	c.disarm()
	if c.blocked {
		return
	}
	c.running = true
	leader := c.pending[0]
	leader.lead = true
	select {
	case leader.wake <- struct{}{}:
	default:
	}
}

func (c *Scheduler) disarm() {
	if c.armed {
		c.armed = false
		c.timer.Stop()
	}
}

// bound is called by the timer.
func (c *Scheduler) bound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return // the pass began meanwhile
	}
	if left := c.left(c.since); left > 0 { // the bound of an earlier pass, or it has grown
		c.timer.Reset(left)
		return
	}
	c.kick()
}

// pass runs one pass. c.mu is held, but not during the pass itself.
func (c *Scheduler) pass() {
	if err := c.guard(c.steps.build); err != nil { // what is wrong with which of them is not known
		for _, s := range c.order {
			if s.state == submitted {
				c.fail(s, err)
			}
		}
		clear(c.order)
		clear(c.batch)
		clear(c.taken)
		c.batch, c.taken = c.batch[:0], c.taken[:0]
	}
	if len(c.batch) > 0 {
		c.mu.Unlock()
		done := &c.steps
		done.results, done.took, done.err = c.compute()
		c.lead(done)
		c.mu.Lock()
		if err := c.guard(c.steps.settle); err != nil {
			for _, s := range c.taken {
				if s.taken {
					c.fail(s, err)
				}
			}
		}
		done.results, done.err = nil, nil
		clear(c.batch)
		clear(c.taken)
		c.batch, c.taken = c.batch[:0], c.taken[:0]
	}
	c.running, c.planned = false, 0
	c.ended.Broadcast()
	c.admit()
	c.kick()
}

// lead announces the sequences that follow the sessions of a pass, before any of them goes on: so their passes wait for all.
func (c *Scheduler) lead(p *passSteps) {
	for i, s := range c.taken {
		if s.follower != nil && !s.chunked && p.err == nil && p.results[i].Err == nil {
			s.follower.Announce(true)
		}
	}
}

// passSteps is what a pass gave, and what happens before and after it, as functions: to make them anew would allocate.
type passSteps struct {
	results []engine.Result
	took    time.Duration
	err     error

	build, settle func()
}

// settle hands out what a pass gave.
func (c *Scheduler) settle() {
	p := &c.steps
	c.account(p.took, p.err)
	for i, s := range c.taken {
		var r engine.Result
		if p.err == nil {
			r = p.results[i]
		}
		s.advance(r, p.err)
		s.taken = false
	}
}

// fail ends a submission after a panic. The session's memory, whose state is not known, is given up.
func (c *Scheduler) fail(s *Session, err error) {
	s.taken = false
	_ = c.guard(s.drop)
	s.session = nil
	if s.state == submitted {
		s.complete(engine.Result{}, err)
	}
}

// guard calls f, which has c.mu, and returns an error if it panics.
func (c *Scheduler) guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := debug.Stack()
			c.mu.Unlock()
			defer c.mu.Lock()
			err = c.panicked(v, stack)
		}
	}()
	f()
	return nil
}

// panicked is the error of a panic, which it tells.
func (c *Scheduler) panicked(v any, stack []byte) (err error) {
	c.panics.Add(1)
	err = fmt.Errorf("%s: %w: %v", c.m.Name(), engine.ErrPanic, v)
	if c.o.Panicked != nil {
		defer func() { _ = recover() }() // a panic of Panicked itself ends nothing
		c.o.Panicked(v, stack)
	}
	return err
}

// compute is the pass itself, and how long it took without the wait for other models' passes.
func (c *Scheduler) compute() (results []engine.Result, took time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			results, err = nil, c.panicked(v, debug.Stack())
		}
	}()
	turn := c.m.Runtime().Turn()
	defer func() {
		took = turn.Took
		c.worked.Add(int64(took))
		turn.End()
	}()
	if c.prepare != nil {
		turn.Took = c.prepare(c.batch)
	}
	results, err = turn.Forward(c.ctx, c.m, c.batch)
	return results, 0, err
}

// advance takes a session's result: the submission ends, or goes on with its next chunk.
func (s *Session) advance(r engine.Result, err error) {
	c := s.c
	if err == nil {
		err = r.Err
	}
	switch {
	case s.abandoned:
		s.complete(engine.Result{}, s.err)
	case c.closed:
		s.complete(engine.Result{}, errSchedulerClosed)
	case err != nil:
		s.complete(engine.Result{}, err)
	default:
		if s.states > s.rows && len(r.Hidden.Layers) > 0 {
			s.gathered = append(s.gathered, r.Hidden.Data...)
			r.Hidden.Data = s.gathered
		}
		if s.left() == 0 {
			s.complete(r, nil)
		}
	}
}

// left is the number of tokens that have to be computed until the submission is.
func (s *Session) left() int {
	have := 0
	if s.session != nil {
		have = s.session.Len() + s.session.Nodes()
	}
	return len(s.tokens) + len(s.segment.Tokens) - have
}

// build chooses the segments of the next pass among what is pending, the oldest session first.
func (c *Scheduler) build() {
	c.planned = 0
	c.order = append(c.order[:0], c.pending...)
	slices.SortFunc(c.order, func(a, b *Session) int { return cmp.Compare(a.serial, b.serial) })
	rows, prompts := 0, 0
	for _, s := range c.order {
		if n := s.left(); s.prompt() {
			prompts++
		} else if c.take(s, n) {
			rows += n
		}
	}
	if prompts > 0 {
		room := c.chunk(rows)
		for _, s := range c.order {
			if s.taken || s.state != submitted || !s.prompt() {
				continue
			}
			if room <= 0 {
				break
			}
			share := max(room/max(prompts, 1), leastRows) // more may be prompts by now: they gave up their memory
			prompts--
			if c.goOn(s) {
				continue
			}
			n := s.left()
			if n == 0 {
				s.complete(engine.Result{Logits: engine.Logits{Vocab: c.m.Config().Vocab}}, nil)
				continue
			}
			if m := s.missing(); m > 0 {
				n = min(share, m)
			} else if n-s.rows > share {
				n = share
			}
			if c.take(s, n) {
				room -= n
			}
		}
	}
	clear(c.order)
	c.blocked = len(c.batch) == 0 && len(c.pending) > 0
}

// missing is the number of tokens of the sequence itself that the engine's session lacks: it gave up its memory.
func (s *Session) missing() int {
	if s.session == nil {
		return len(s.tokens)
	}
	return len(s.tokens) - s.session.Len()
}

// prompt reports whether so much is left that chunks are cut.
func (s *Session) prompt() bool { return s.missing() > 0 || s.long && s.left()-s.rows > 0 }

// take adds the next n tokens of a submission to the batch, if there is memory for them.
func (c *Scheduler) take(s *Session, n int) bool {
	if !c.memory(s, n) {
		return false
	}
	g := s.segment
	g.Session = s.session
	if m := s.missing(); m > 0 {
		have := s.session.Len()
		g = engine.Segment{Session: s.session, Tokens: s.tokens[have : have+n]}
		c.stats.Recomputed += int64(max(0, min(have+n, s.computed)-have))
	} else if g.Parents == nil {
		at := s.session.Len() - len(s.tokens)
		g.Tokens = g.Tokens[at : at+n]
		if len(g.States) > 0 && n < len(s.segment.Tokens) {
			size := len(g.States) / len(s.segment.Tokens)
			g.States = g.States[at*size : (at+n)*size]
		}
		all := len(s.segment.Tokens)
		if at+n < all {
			g.Logits = engine.None
		}
		if first := all - s.states; s.states > s.rows { // it may have given up its memory after some chunks
			known := max(0, at-first)
			s.gathered = s.gathered[:min(len(s.gathered), known*c.m.Config().HiddenSize*len(g.Layers))]
			g.Hidden = engine.Rows(max(0, at+n-max(at, first)))
		} else if at+n < all {
			g.Hidden = engine.None
		}
		if g.Hidden == engine.None {
			g.Layers = nil
		}
	}
	s.taken, s.chunked = true, s.long || s.missing() > 0
	c.batch = append(c.batch, g)
	c.taken = append(c.taken, s)
	return true
}

// chunk is the number of prompt tokens that may join a pass of so many rows.
func (c *Scheduler) chunk(rows int) int {
	for _, s := range c.sessions {
		if s.decoding && (s.state != submitted || !s.prompt()) && time.Since(s.expectAt.at) < lately*maxWait {
			return min(max(leastRows, c.cost.Chunk(rows, c.o.Delay)), max(engine.PassRows-rows, leastRows))
		}
	}
	return engine.PassRows
}
