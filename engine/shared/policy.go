package shared

import (
	"cmp"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// The policy: what a pass computes, who gives up memory for it, and who may begin. The oldest session comes first in
// all of it.
//
//   - A pass has what the sessions that generate have submitted. Prompts share what room there is beside it: as many
//     tokens as delay the others by Options.Delay, or as many as fit in a pass where nobody generates.
//   - An encoder's input is computed as a whole, one in each pass, the oldest session's first. Sessions with the same
//     input wait for it.
//   - A prompt goes on from the state of a sequence that begins alike, before anyone takes memory for the pass, and
//     waits for an older session that computes the same tokens.
//   - Where memory is short, what drafts by early exit have goes first, then kept sequences, what is worth least
//     first; then a session for which nobody waits gives up its own, the youngest first, and then those that are
//     younger than the one that needs it. It is computed again later.
//   - A new session waits until there is a place, and memory for its first tokens that it takes from no other session;
//     none overtakes another. It drops nothing that is kept: that may be what its prompt begins with.

const (
	lately     = 10 // times maxWait: how long after a result a session counts as one that generates
	leastRows  = 16 // of a chunk of a prompt, whatever it delays
	firstChunk = 32 // prompt tokens of a chunk where nothing is known
)

// build chooses the segments of the next pass among what is pending.
func (c *Scheduler) build() {
	c.planned = 0
	c.order = append(c.order[:0], c.pending...)
	slices.SortFunc(c.order, func(a, b *Session) int { return cmp.Compare(a.serial, b.serial) })
	for _, s := range c.order {
		s.waits = s.prompt() && c.goOn(s) || c.findInput(s)
		if !s.waits && !s.encodes() && s.remaining() == 0 && (len(s.segment.Tokens) > 0 || s.encode) {
			s.complete(engine.Result{Logits: engine.Logits{Vocab: c.m.Config().Vocab}}, nil)
		}
	}
	rows, prompts := 0, 0
	for _, s := range c.order {
		switch n := s.remaining(); {
		case s.state != submitted || s.waits || s.encodes():
		case s.prompt():
			prompts++
		case c.take(s, n):
			rows += n
		}
	}
	for _, s := range c.order {
		if s.state == submitted && !s.waits && s.encodes() && c.takeInput(s) {
			break
		}
	}
	if prompts > 0 {
		room := c.chunk(rows)
		for _, s := range c.order {
			if s.state != submitted || s.waits || s.encodes() || !s.prompt() {
				continue
			}
			if room <= 0 {
				break
			}
			share := max(room/max(prompts, 1), leastRows) // more may be prompts by now: they gave up their memory
			prompts--
			n := s.remaining()
			if m := s.missing(); m > 0 && s.anew { // parts leave copies of states, which there was no room for
				n = m
			} else if m > 0 {
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
	c.blocked = len(c.batch) == 0 && c.encoding == nil && len(c.pending) > 0
}

// take adds the next n tokens of a submission to the batch, if there is memory for them.
func (c *Scheduler) take(s *Session, n int) bool {
	if !c.memory(s, n) {
		return false
	}
	if m := s.missing(); m > 0 {
		n = min(n, m) // it may be computed anew
		have := s.session.Len()
		c.stats.Recomputed += int64(max(0, min(have+n, s.computed)-have))
	}
	s.chunk = s.long() || s.missing() > 0
	g := s.part(n)
	g.Chunk = s.chunk
	c.batch, c.taken = append(c.batch, g), append(c.taken, s)
	c.enter(s, taken)
	return true
}

// chunk is the number of prompt tokens that may join a pass of so many rows.
func (c *Scheduler) chunk(rows int) int {
	for _, s := range c.sessions {
		if s.decoding && !(s.pending() && s.prompt()) && time.Since(s.expectAt.at) < lately*maxWait {
			n := c.cost.PromptTokens(rows, c.o.Delay)
			if n == 0 {
				n = firstChunk
			}
			return min(max(leastRows, n), max(engine.PassRows-rows, leastRows))
		}
	}
	return c.most
}

// reserve makes sure of memory for s: it drops sequences that are kept, then has others give up theirs. It reports
// false if s has to wait, or fails because it does not fit by itself.
func (c *Scheduler) reserve(s *Session, bytes int64) bool {
	for bytes > 0 && !c.fits(bytes) {
		if c.takeExit() || c.prefixes.evict(nil) || c.stored.drop() {
			continue
		}
		if c.stored.cancel() { // there is more when that has ended
			return false
		}
		if !c.recomputes() && c.copies == 0 { // none gives up its memory for another, so waiting for it could last for ever
			s.complete(engine.Result{}, c.full(c.m, bytes))
			return false
		}
		if v := c.victim(s); v != nil {
			v.drop()
			c.stats.Preemptions++
			continue
		}
		// a pass that runs may need nothing more, and still has memory; so has a sequence that is being read, or saved
		alone := c.planned == 0 && c.lent == 0 && c.loads == 0 && c.copies == 0
		for _, o := range c.sessions {
			alone = alone && (o == s || o.session == nil || o.session.Bytes() == 0)
		}
		if alone {
			s.complete(engine.Result{}, c.full(c.m, bytes))
		}
		return false
	}
	c.planned += bytes
	return true
}

// victim is the session that gives up its memory for s: one that nobody waits for, the youngest first, or else the
// youngest of those that are younger than s.
func (c *Scheduler) victim(s *Session) *Session {
	var young, still *Session
	if !c.recomputes() {
		return nil
	}
	for _, o := range c.sessions {
		if o == s || o.state == taken || o.lent || o.session == nil || o.session.Bytes() == 0 {
			continue
		}
		if !o.pending() && !o.expected() && (still == nil || o.serial > still.serial) {
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

// room reports whether a new session may begin.
func (c *Scheduler) room() bool {
	n := len(c.sessions)
	if c.o.Sessions > 0 && n >= c.o.Sessions {
		return false
	}
	if c.budget == 0 || n == 0 {
		return true
	}
	wanted := c.empty
	for _, s := range c.sessions {
		if s.pending() && s.session == nil || c.blocked {
			return false // those that are here first
		}
		if s.state != taken && (s.session == nil || s.session.Len() == 0) { // those that are taken are in planned
			wanted += c.empty
		}
	}
	return c.fits(wanted - c.prefixes.bytes.Load())
}

// admit lets NewSession calls go on that wait, as long as there is room. The next pass waits for what they submit.
func (c *Scheduler) admit() {
	for len(c.waiting) > 0 && !c.closed && c.room() {
		a := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.open(a.session)
		a.session.expectAt = c.now()
		c.enter(a.session, announced)
		close(a.ready)
	}
}
