package shared

import (
	"context"
	"slices"

	"github.com/specgo/spec/engine"
)

// leastShared is the number of tokens from which the state of another sequence is used. A copy of a page costs about
// as much.
const leastShared = 16

// shareable reports whether sequences like that of s are kept, and go on from others'.
func (c *Scheduler) shareable(s *Session) bool { return c.shares(s) && (c.recomputes() || s.read) }

// shares reports whether sequences with the options of s are shared.
func (c *Scheduler) shares(s *Session) bool { return c.o.CacheBytes >= 0 && !s.options.NoCache }

// keep keeps the sequence of a session that ends.
func (c *Scheduler) keep(s *Session) {
	if c.o.CacheBytes <= 0 || c.closed || !c.shareable(s) || s.session == nil || s.cut() != nil {
		return
	}
	o := &prefix{lineage: s.lineage, session: s.session}
	n := s.session.Len()
	if s.read {
		n = s.session.Fed()
	}
	least := leastShared
	if s.input != nil {
		least = 1 // with what the encoder has computed
	}
	if n = s.session.Restorable(n); n < least || s.session.Truncate(n) != nil {
		return
	}
	if s.read && n == s.session.Fed() {
		tokens, states := s.unread()
		o.unread = unread{slices.Clone(tokens), slices.Clone(states)}
	}
	if c.o.Stored != nil && !c.o.Stored.PromptsOnly {
		c.store(o.lineage, s.session, o.unread)
	}
	if c.keepPrefix(o) {
		s.session = nil
	}
}

// keepPrefix keeps a sequence. What it has beyond its session counts from then on: where there is no room for that,
// what is worth least goes. It reports whether the session is the caller's no longer.
func (c *Scheduler) keepPrefix(o *prefix) bool {
	taken := c.prefixes.keep(o)
	for !c.fits(0) && c.prefixes.evict(nil) {
	}
	return taken
}

// goOn looks for a sequence that begins as what is left of a submission does, and goes on from its state. It reports
// true if s is to wait, since an older session is computing the same tokens.
func (c *Scheduler) goOn(s *Session) bool {
	if !c.shareable(s) || s.read || s.anew { // what a fork has of states was too much
		return false
	}
	c.wanted = append(c.wanted[:0], s.tokens...)
	if s.segment.Parents == nil {
		c.wanted = append(c.wanted, s.segment.Tokens[:max(0, len(s.segment.Tokens)-max(s.rows, s.states))]...)
	}
	have := 0
	if s.session != nil {
		have = s.session.Len()
	}
	if len(c.wanted)-have < leastShared {
		return false
	}
	n, _ := c.adopt(s, have, c.wanted)
	soon := 0
	for _, o := range c.sessions {
		if o.lineage == s.lineage && o.serial < s.serial && o.pending() && o.prompt() && o.segment.Parents == nil {
			k := engine.Common(o.tokens, c.wanted)
			if k == len(o.tokens) {
				k += engine.Common(o.segment.Tokens, c.wanted[k:])
			}
			soon = max(soon, k)
		}
	}
	return soon-n >= leastShared
}

// find is the sequence of a lineage, kept (from) or open, that gives the most of the wanted tokens, and how many. s is
// not looked at.
func (c *Scheduler) find(s *Session, l lineage, wanted []int32) (from *prefix, memory *engine.Session, n int) {
	if from, n = c.prefixes.longest(l, wanted); from != nil {
		memory = from.session
	}
	for _, o := range c.sessions {
		if o == s || o.lineage != l || o.session == nil || o.state == taken {
			continue
		}
		tokens := o.session.Tokens()
		if o.read {
			tokens = tokens[:o.session.Fed()]
		}
		if k := o.session.Restorable(engine.Common(tokens, wanted)); k > n {
			memory, from, n = o.session, nil, k
		}
	}
	return from, memory, n
}

// Reusable is how many tokens at the beginning of a text the sequence would not have to compute: those that it has, or
// that it would go on from now.
func (s *Session) Reusable(text []int32) int {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	n := engine.Common(s.tokens, text)
	if c.closed || s.usable() != nil || !c.shareable(s) || s.read {
		return n
	}
	if _, _, k := c.find(s, s.lineage, text); k-n >= leastShared {
		n = k
	}
	return n
}

// adopt gives s the memory of a sequence of its lineage, kept or open, of which more of the wanted tokens are of use
// than the have that s has itself. It returns how many s then has, and what the kept sequence had beyond all of it.
//
// What is kept is forked; where that needs memory that others would have to give up, s takes it over, and what a fork
// would save of it is lost, if that is less than a page. So it does where that is less than the fork's copy of a page
// costs, in models whose sequences can be cut back to any length: others go on from s then.
func (c *Scheduler) adopt(s *Session, have int, wanted []int32) (n int, beyond unread) {
	from, memory, n := c.find(s, s.lineage, wanted)
	if n < have+leastShared {
		return have, unread{}
	}
	if from != nil && n == memory.Len() {
		beyond = from.unread
	}
	need := memory.ForkBytes(n)
	if from == nil || memory.Len()-n >= engine.KVPage {
		for !c.fits(need) && c.prefixes.evict(from) {
		}
	}
	var err error
	forked := c.fits(need) && !(from != nil && c.everywhere && memory.Len()-n < leastShared)
	switch {
	case forked && from != nil:
		memory, err = c.prefixes.fork(from, n)
	case forked:
		memory, err = memory.ForkAt(n)
	case from != nil:
		memory, err = c.prefixes.give(from, n)
	default:
		return have, unread{}
	}
	if err != nil { // it is computed
		return have, unread{}
	}
	s.drop()
	if s.session = memory; from != nil && forked {
		s.from, s.forked = from, n
		from.open = append(from.open, n)
	}
	s.gain(max(0, n-max(have, s.computed)))
	c.stats.PrefixHits++
	c.stats.PrefixTokens += int64(n - have)
	return n, beyond
}

// reading is what a draft head's session says of the text that it reads.
type reading struct {
	unread func() ([]int32, []float32) // see Resume
	text   []int32                     // see Await; empty: no more of it is to come
	order  uint64                      // of those that Await
}

// Await says that the sequence of a draft head is to read a text with the target's states, and waits until nothing can
// be gained from others that began before to read one that begins alike: then [Session.Resume] goes on from what they
// have. The sequence is taken to be reading until its next Announce, an Eval that fails, or Close. ctx ends the wait,
// without an error.
func (s *Session) Await(ctx context.Context, text []int32) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recomputes() || c.closed || s.usable() != nil || !c.shares(s) {
		return
	}
	s.hasRead()
	c.awaits++
	s.text, s.order = append(s.text[:0], text...), c.awaits
	for c.gains(s) && ctx.Err() == nil && !c.closed {
		if s.state == announced { // as it is after it waited for its place: passes are not to wait for it
			c.enter(s, idle)
			c.changed()
		}
		c.mu.Unlock()
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
}

// gains reports whether s has to compute less of its text once those that began before have read theirs. One that has
// the beginning of the text itself goes on from that.
func (c *Scheduler) gains(s *Session) bool {
	soon, l, text := 0, s.lineage, s.text
	for _, o := range c.sessions {
		if o.options == s.options && o.order < s.order {
			soon = max(soon, engine.Common(o.text, text))
		}
	}
	if l.read, l.before = true, -1; soon > 0 && !c.m.Head().FirstToken {
		l.before, text, soon = text[0], text[1:], soon-1
	}
	if soon < leastShared || engine.Common(s.tokens, text) > 1 {
		return false
	}
	_, _, n := c.find(s, l, text)
	return soon-n >= leastShared
}

// computing reports whether the pass that runs has a sequence of the lineage of s which gives more of the wanted tokens
// than any other: nobody can go on from it until the pass ends.
func (c *Scheduler) computing(s *Session, wanted []int32) bool {
	soon := 0
	for _, o := range c.taken {
		if o.state == taken && o.lineage == s.lineage {
			soon = max(soon, engine.Common(o.tokens, wanted))
		}
	}
	if soon < leastShared {
		return false
	}
	_, _, n := c.find(s, s.lineage, wanted)
	return soon-n >= leastShared
}

// hasRead ends the reading of a text: nobody is to wait for more of it.
func (s *Session) hasRead() {
	if len(s.text) > 0 {
		s.text = s.text[:0]
		s.c.readers()
	}
}

// readers wakes the sessions that may wait for others' reading.
func (c *Scheduler) readers() {
	for _, o := range c.sessions {
		if len(o.text) > 0 && !o.pending() {
			o.tell()
		}
	}
}

// Resume tells of the empty sequence of a draft head that it will read a text: its tokens follow before, the first
// tokens of the text, and each goes in with the target's states, so that the text determines what it computes. The
// sequence then goes on from another one that has read the beginning of the same text, at most to the end of tokens,
// and is kept for others when it is closed; Len says how far it has got. If that is all of the other one, Resume
// returns what that one had of its text beyond it: states that a pass of the target gave for tokens, which may differ
// from those of this text. When the session is closed, its owner's unread is asked for such tokens and states.
// ctx ends the search in a store, without an error.
func (s *Session) Resume(ctx context.Context, before, tokens []int32, unread func() ([]int32, []float32)) (
	next []int32, states []float32) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recomputes() || c.closed || s.usable() != nil || len(s.tokens) > 0 || len(before) > 1 {
		return nil, nil
	}
	s.read, s.before, s.unread = true, -1, unread
	if len(before) > 0 {
		s.before = before[0]
	}
	if !c.shareable(s) {
		return nil, nil
	}
	c.recall(ctx, s, tokens)
	if c.closed {
		return nil, nil
	}
	for c.computing(s, tokens) {
		if c.ended.Wait(); c.closed {
			return nil, nil
		}
	}
	n, beyond := c.adopt(s, 0, tokens)
	s.tokens = append(s.tokens[:0], tokens[:n]...)
	s.computed = n
	return beyond.tokens, beyond.states
}
