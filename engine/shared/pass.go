package shared

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/specgo/spec/engine"
)

// pass runs one pass. c.mu is held, but not during the pass itself.
func (c *Scheduler) pass() {
	if err := c.guard(c.steps.build); err != nil { // what is wrong with which of them is not known
		for _, s := range c.order {
			if s.pending() {
				c.fail(s, err)
			}
		}
		clear(c.order)
		clear(c.batch)
		clear(c.taken)
		c.batch, c.taken, c.encoding = c.batch[:0], c.taken[:0], nil
		c.allocated()
	}
	if len(c.batch) > 0 || c.encoding != nil {
		c.mu.Unlock()
		done := &c.steps
		if c.encoding != nil {
			done.encoding, done.refused = c.encode()
		}
		if len(c.batch) > 0 {
			done.results, done.took, done.err = c.compute()
			c.announce(done)
		}
		c.mu.Lock()
		c.allocated()
		if err := c.guard(c.steps.settle); err != nil {
			for _, s := range c.sessions {
				if s.state == taken {
					c.fail(s, err)
				}
			}
		}
		c.encoding, done.results, done.err, done.refused = nil, nil, nil, nil
		clear(c.batch)
		clear(c.taken)
		c.batch, c.taken = c.batch[:0], c.taken[:0]
	}
	c.running = false
	c.readers()
	c.ended.Broadcast()
	c.admit()
	c.kick()
}

// announce announces the sequences that follow the sessions of a pass, before any of them goes on: so their passes
// wait for all.
func (c *Scheduler) announce(p *passSteps) {
	for i, s := range c.taken {
		if s.follower != nil && !s.chunk && p.err == nil && p.results[i].Err == nil {
			s.follower.Announce(true)
		}
	}
}

// passSteps is what a pass gave, and what happens before and after it, as functions: to make them anew would allocate.
type passSteps struct {
	results []engine.Result
	took    time.Duration
	err     error

	encoding time.Duration // what the encoder took
	refused  error         // its error

	build, settle func()
}

// settle hands out what a pass gave.
func (c *Scheduler) settle() {
	p := &c.steps
	if c.encoding != nil {
		c.encoded(p.encoding, p.refused)
	}
	if len(c.taken) > 0 {
		c.account(p.took, p.err)
	}
	for i, s := range c.taken {
		var r engine.Result
		if p.err == nil {
			r = p.results[i]
		}
		if s.advance(r, p.err); s.state == taken {
			c.enter(s, submitted)
		}
	}
}

// fail ends a submission after a panic. The session's memory, whose state is not known, is given up.
func (c *Scheduler) fail(s *Session, err error) {
	_ = c.guard(s.drop)
	s.session = nil
	if s.pending() {
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
	defer c.endTurn(&turn, &took)
	if c.prepare != nil {
		turn.Took = c.prepare(c.batch)
	}
	results, err = turn.Forward(c.ctx, c.m, c.batch)
	return results, 0, err
}

// endTurn ends a turn and says how long it took.
func (c *Scheduler) endTurn(turn *engine.Turn, took *time.Duration) {
	*took = turn.Took
	c.worked.Add(int64(turn.Took))
	turn.End()
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
		s.complete(engine.Result{}, c.errClosed())
	case err != nil:
		s.complete(engine.Result{}, err)
	default:
		if s.states > s.rows && len(r.Hidden.Layers) > 0 {
			s.gathered = append(s.gathered, r.Hidden.Data...)
			r.Hidden.Data = s.gathered
		}
		if s.remaining() == 0 {
			s.complete(r, nil)
		}
	}
}
