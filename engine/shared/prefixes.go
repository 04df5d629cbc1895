package shared

import (
	"slices"
	"sync/atomic"

	"github.com/specgo/spec/engine"
)

// leastShared is the number of tokens from which the state of another sequence is used. A copy of a page costs about
// as much.
const leastShared = 16

// lineage is what two sequences have in common, besides tokens, where one can go on from the other's state.
type lineage struct {
	options SessionOptions
	read    bool  // of a draft head: each token goes in with the target's states of a text; see Session.Resume
	before  int32 // of such a text: the token before the sequence; -1: none
}

// prefix is a sequence that is kept after its session, with all that it consists of.
type prefix struct {
	lineage
	session *engine.Session // keys, values, recurrent state
	unread                  // of a draft head
}

// unread is what a draft head has of a text beyond its sequence: the target's states after tokens with which it has
// not been fed.
type unread struct {
	tokens []int32
	states []float32
}

func (u unread) bytes() int64 { return 4 * int64(len(u.tokens)+len(u.states)) }

// prefixes are the sequences that are kept. The one used last comes last.
type prefixes struct {
	kept []*prefix
	most int
	used *atomic.Int64 // bytes
}

// keep adds a sequence, unless it is the beginning of another one, and drops those that are beginnings of it. It
// reports whether it did.
func (p *prefixes) keep(n *prefix) bool {
	tokens := n.session.Tokens()
	for _, o := range p.kept {
		if o.lineage == n.lineage && common(o.session.Tokens(), tokens) == len(tokens) {
			return false
		}
	}
	p.kept = slices.DeleteFunc(p.kept, func(o *prefix) bool {
		part := o.lineage == n.lineage && common(o.session.Tokens(), tokens) == o.session.Len()
		if part {
			p.free(o)
		}
		return part
	})
	for len(p.kept) >= p.most {
		p.evict()
	}
	p.used.Add(n.unread.bytes())
	p.kept = append(p.kept, n)
	return true
}

func (p *prefixes) free(o *prefix) {
	o.session.Close()
	p.used.Add(-o.unread.bytes())
}

// evict drops the sequence that was used longest ago. It reports false if there is none.
func (p *prefixes) evict() bool {
	if len(p.kept) == 0 {
		return false
	}
	p.free(p.kept[0])
	p.kept = slices.Delete(p.kept, 0, 1)
	return true
}

// longest is the sequence of a lineage of which the most tokens can be used, more than least. same is how many of
// them are of use.
func (p *prefixes) longest(l lineage, same func(tokens []int32) int, least int) (from *prefix, n int) {
	n = least
	for _, o := range p.kept {
		if o.lineage == l {
			if k := o.session.Restorable(same(o.session.Tokens())); k > n {
				from, n = o, k
			}
		}
	}
	return from, n
}

// touch makes a sequence the one used last.
func (p *prefixes) touch(o *prefix) {
	i := slices.Index(p.kept, o)
	p.kept = append(slices.Delete(p.kept, i, i+1), o)
}

// shareable reports whether sequences like that of s are kept, and go on from others'.
func (c *Scheduler) shareable(s *Session) bool {
	return c.o.Prefixes >= 0 && !s.options.NoCache && (c.recomputes() || s.read)
}

// keep keeps the sequence of a session that ends.
func (c *Scheduler) keep(s *Session) {
	if c.o.Prefixes <= 0 || c.closed || !c.shareable(s) || s.session == nil || s.cut() != nil {
		return
	}
	p := &prefix{lineage: s.lineage, session: s.session}
	if s.read {
		if s.session.Truncate(s.session.Fed()) != nil {
			return
		}
		tokens, states := s.unread()
		p.unread = unread{slices.Clone(tokens), slices.Clone(states)}
	}
	if s.session.Len() >= leastShared && c.prefixes.keep(p) {
		s.session = nil
	}
}

// goOn looks for a sequence that begins as what is left of a submission does, and goes on from its state. It reports
// true if s is to wait, since an older session is computing the same tokens.
func (c *Scheduler) goOn(s *Session) bool {
	if !c.shareable(s) || s.read {
		return false
	}
	most := len(s.tokens)
	if s.segment.Parents == nil {
		most += len(s.segment.Tokens) - max(s.rows, s.states)
	}
	have := 0
	if s.session != nil {
		have = s.session.Len()
	}
	if most-have < leastShared {
		return false
	}
	n, _ := c.adopt(s, have, func(tokens []int32) int { return s.shares(tokens, most) })
	soon := 0
	for _, o := range c.sessions {
		if o.lineage == s.lineage && o.serial < s.serial && o.pending() && o.prompt() && o.segment.Parents == nil {
			k := s.shares(o.tokens, most)
			if k == len(o.tokens) {
				k += s.sharesAfter(k, o.segment.Tokens, most)
			}
			soon = max(soon, k)
		}
	}
	return soon-n >= leastShared
}

// adopt gives s the memory of a sequence of its lineage, kept or open, of which more tokens than the have that s has
// itself are of use. It returns how many s then has, and the kept sequence.
func (c *Scheduler) adopt(s *Session, have int, same func(tokens []int32) int) (n int, from *prefix) {
	var memory *engine.Session
	from, n = c.prefixes.longest(s.lineage, same, have+leastShared-1)
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
		if k := o.session.Restorable(same(tokens)); k > n {
			memory, from, n = o.session, nil, k
		}
	}
	if memory == nil || !c.fits(c.empty+memory.ForkBytes()) {
		return have, nil
	}
	if from != nil {
		c.prefixes.touch(from)
	}
	fork, err := memory.ForkAt(n)
	if err != nil { // it is computed
		return have, nil
	}
	s.drop()
	s.session = fork
	s.reused += n - have
	c.stats.PrefixHits++
	c.stats.PrefixTokens += int64(n - have)
	return n, from
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
	n, from := c.adopt(s, 0, func(other []int32) int { return common(other, tokens) })
	s.tokens = append(s.tokens[:0], tokens[:n]...)
	s.computed = n
	if from == nil || n < from.session.Len() {
		return nil, nil
	}
	return from.unread.tokens, from.unread.states
}

// shares is the number of tokens, at most most, that another sequence has in common with the session's and its
// submission.
func (s *Session) shares(other []int32, most int) int {
	n := common(other, s.tokens[:min(len(s.tokens), most)])
	if n == len(s.tokens) {
		n += s.sharesAfter(n, other[n:], most)
	}
	return n
}

// sharesAfter is shares where the first at tokens, at least those of the session's sequence, are known to be the same.
func (s *Session) sharesAfter(at int, other []int32, most int) int {
	if at < len(s.tokens) {
		return 0 // of what has to be computed again: an older session is no help that has less
	}
	i := at - len(s.tokens)
	if s.segment.Parents != nil || at >= most {
		return 0
	}
	return common(other, s.segment.Tokens[i:most-len(s.tokens)])
}

// common is the number of tokens that two sequences begin with in common.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
