package shared

import (
	"slices"

	"github.com/specgo/spec/engine"
)

// leastShared is the number of tokens from which the state of another sequence is used. A copy of a page costs about
// as much.
const leastShared = 16

// shareable reports whether sequences like that of s are kept, and go on from others'.
func (c *Scheduler) shareable(s *Session) bool {
	return c.o.CacheBytes >= 0 && !s.options.NoCache && (c.recomputes() || s.read)
}

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
	if n = s.session.Restorable(n); n < leastShared || s.session.Truncate(n) != nil {
		return
	}
	if s.read && n == s.session.Fed() {
		tokens, states := s.unread()
		o.unread = unread{slices.Clone(tokens), slices.Clone(states)}
	}
	if c.prefixes.keep(o) {
		s.session = nil
	}
}

// goOn looks for a sequence that begins as what is left of a submission does, and goes on from its state. It reports
// true if s is to wait, since an older session is computing the same tokens.
func (c *Scheduler) goOn(s *Session) bool {
	if !c.shareable(s) || s.read {
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
			k := common(o.tokens, c.wanted)
			if k == len(o.tokens) {
				k += common(o.segment.Tokens, c.wanted[k:])
			}
			soon = max(soon, k)
		}
	}
	return soon-n >= leastShared
}

// adopt gives s the memory of a sequence of its lineage, kept or open, of which more of the wanted tokens are of use
// than the have that s has itself. It returns how many s then has, and what the kept sequence had beyond all of it.
//
// What is kept is forked; where that needs memory that others would have to give up, s takes it over, and what a fork
// would save of it is lost, if that is less than a page.
func (c *Scheduler) adopt(s *Session, have int, wanted []int32) (n int, beyond unread) {
	var memory *engine.Session
	from, n := c.prefixes.longest(s.lineage, wanted)
	if from != nil {
		memory = from.session
	}
	for _, o := range c.sessions {
		if o == s || o.lineage != s.lineage || o.session == nil || o.state == taken {
			continue
		}
		tokens := o.session.Tokens()
		if o.read {
			tokens = tokens[:o.session.Fed()]
		}
		if k := o.session.Restorable(common(tokens, wanted)); k > n {
			memory, from, n = o.session, nil, k
		}
	}
	if n < have+leastShared {
		return have, unread{}
	}
	if from != nil && n == memory.Len() {
		beyond = from.unread
	}
	need := c.empty + memory.ForkBytes()
	if from == nil || memory.Len()-n >= engine.KVPage {
		for !c.fits(need) && c.prefixes.evict(from) {
		}
	}
	var err error
	forked := c.fits(need)
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
		s.from, from.open = from, n
	}
	s.reused += n - have
	c.stats.PrefixHits++
	c.stats.PrefixTokens += int64(n - have)
	return n, beyond
}

// Resume tells of the empty sequence of a draft head that it will read a text: its tokens follow before, the first
// tokens of the text, and each goes in with the target's states, so that the text determines what it computes. The
// sequence then goes on from another one that has read the beginning of the same text, at most to the end of tokens,
// and is kept for others when it is closed; Len says how far it has got. If that is all of the other one, Resume
// returns what that one had of its text beyond it: states that a pass of the target gave for tokens, which may differ
// from those of this text. When the session is closed, its owner's unread is asked for such tokens and states.
func (s *Session) Resume(before, tokens []int32, unread func() ([]int32, []float32)) (next []int32, states []float32) {
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
	n, beyond := c.adopt(s, 0, tokens)
	s.tokens = append(s.tokens[:0], tokens[:n]...)
	s.computed = n
	return beyond.tokens, beyond.states
}
