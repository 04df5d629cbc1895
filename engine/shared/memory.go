package shared

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// recomputes reports whether tokens alone say what a session holds. Draft heads are also fed the target's hidden states, so their
// sessions keep their memory.
func (c *Scheduler) recomputes() bool { return c.m.Head() == nil }

// room reports whether a new session may begin.
func (c *Scheduler) room() bool {
	n := len(c.sessions) + c.held
	if c.o.Sessions > 0 && n >= c.o.Sessions {
		return false
	}
	if c.o.KVBytes == 0 || n == 0 {
		return true
	}
	wanted := c.empty * int64(1+c.held)
	for _, s := range c.sessions {
		if s.state == submitted && s.session == nil || c.blocked {
			return false // those that are here first
		}
		if !s.taken && (s.session == nil || s.session.Len() == 0) { // those that are taken are in planned
			wanted += c.empty
		}
	}
	for c.used.Load()+c.planned+wanted > c.o.KVBytes {
		if !c.prefixes.evict() {
			return false
		}
	}
	return true
}

// admit lets NewSession calls go on that wait, as long as there is room.
func (c *Scheduler) admit() {
	for len(c.waiting) > 0 && !c.closed && c.room() {
		a := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		a.granted = true
		c.held++
		close(a.ready)
	}
}

// memory gives s the engine's session that it lacks, and makes sure of memory for n more tokens; see reserve.
func (c *Scheduler) memory(s *Session, n int) bool {
	if s.session != nil {
		return c.reserve(s, s.session.Need(n, s.back(n)))
	}
	session, err := c.m.NewSession(s.options.SessionOptions)
	if err != nil {
		s.complete(engine.Result{}, err)
		return false
	}
	fixed := session.Bytes()
	if !c.reserve(s, fixed+session.Need(n, s.back(n))) {
		session.Close()
		return false
	}
	session.Meter(&c.used)
	c.planned -= min(fixed, c.planned) // it is in use now
	s.session = session
	return true
}

// back is the number of the submission's next n tokens that may be cut back.
func (s *Session) back(n int) int {
	switch {
	case s.missing() > 0 || n < s.left():
		return 0
	case s.segment.Parents != nil:
		return n
	}
	return min(s.rows, n, engine.MostBack)
}

// reserve makes sure of memory for s: it drops sequences that are kept, then has others give up theirs. It reports false if s
// has to wait, or fails because it does not fit by itself.
func (c *Scheduler) reserve(s *Session, bytes int64) bool {
	for c.o.KVBytes > 0 && bytes > 0 && c.used.Load()+c.planned+bytes > c.o.KVBytes {
		if c.prefixes.evict() {
			continue
		}
		if !c.recomputes() { // none gives up its memory for another, so waiting for it could last for ever
			s.complete(engine.Result{}, fmt.Errorf("%s: %w: %d bytes and %d more, budget of %d", c.m.Name(), engine.ErrKVBudget, c.used.Load(), bytes, c.o.KVBytes))
			return false
		}
		if v := c.victim(s); v != nil {
			v.drop()
			c.stats.Preemptions++
			continue
		}
		alone := c.planned == 0
		for _, o := range c.sessions {
			alone = alone && (o == s || o.session == nil || o.session.Bytes() == 0)
		}
		if alone {
			s.complete(engine.Result{}, fmt.Errorf("%s: %w: %d bytes and %d more, budget of %d", c.m.Name(), engine.ErrKVBudget, c.used.Load(), bytes, c.o.KVBytes))
		}
		return false
	}
	c.planned += bytes
	return true
}

// victim is the session that gives up its memory for s: one that nobody waits for, the youngest first, or else the youngest
// of those that are younger than s.
func (c *Scheduler) victim(s *Session) *Session {
	var young, still *Session
	if !c.recomputes() {
		return nil
	}
	for _, o := range c.sessions {
		if o == s || o.taken || o.lent || o.session == nil || o.session.Bytes() == 0 {
			continue
		}
		if o.state != submitted && !o.expected && (still == nil || o.serial > still.serial) {
			still = o
		}
		if o.serial > s.serial && (young == nil || o.serial > young.serial) {
			young = o
		}
	}
	if still != nil {
		return still
	}
	return young
}
