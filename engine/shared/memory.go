package shared

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// leastShared is the number of tokens from which the state of another sequence is used. A copy of a page costs about as much.
const leastShared = 16

// prefix is a sequence that is kept after its session.
type prefix struct {
	session *engine.Session
	options SessionOptions
}

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
		if !c.evict() {
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
		if c.evict() {
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

// keep keeps the sequence of a session that ends. A sequence that is the beginning of another one is not kept.
func (c *Scheduler) keep(s *Session) {
	if c.o.Prefixes <= 0 || c.closed || !c.recomputes() || s.session == nil || s.session.Len() < leastShared || s.options.NoCache {
		return
	}
	if s.cut() != nil {
		return
	}
	tokens := s.session.Tokens()
	for i := 0; i < len(c.prefixes); i++ {
		p := c.prefixes[i]
		if p.options != s.options {
			continue
		}
		switch n := common(p.session.Tokens(), tokens); {
		case n == len(tokens):
			return
		case n == len(p.session.Tokens()):
			p.session.Close()
			c.prefixes = slices.Delete(c.prefixes, i, i+1)
			i--
		}
	}
	for len(c.prefixes) >= c.o.Prefixes {
		c.evict()
	}
	c.prefixes = append(c.prefixes, &prefix{s.session, s.options})
	s.session = nil
}

// evict drops the kept sequence that was used longest ago. It reports false if there is none.
func (c *Scheduler) evict() bool {
	if len(c.prefixes) == 0 {
		return false
	}
	c.prefixes[0].session.Close()
	c.prefixes = slices.Delete(c.prefixes, 0, 1)
	return true
}

// goOn looks for a sequence that begins as what is left of a submission does, and goes on from its state. It reports true if s
// is to wait, since an older session is computing the same tokens.
func (c *Scheduler) goOn(s *Session) bool {
	if c.o.Prefixes < 0 || s.options.NoCache || !c.recomputes() {
		return false
	}
	most := len(s.tokens)
	if s.segment.Parents == nil && !s.gathers {
		most += len(s.segment.Tokens) - s.rows
	}
	have := 0
	if s.session != nil {
		have = s.session.Len()
	}
	if most-have < leastShared {
		return false
	}
	var from *engine.Session
	kept, n, soon := -1, have+leastShared-1, 0
	for i, p := range c.prefixes {
		if p.options == s.options {
			if k := p.session.Restorable(s.shares(p.session.Tokens(), most)); k > n {
				from, kept, n = p.session, i, k
			}
		}
	}
	for _, o := range c.sessions {
		if o == s || o.options != s.options {
			continue
		}
		if o.session != nil {
			if k := o.session.Restorable(s.shares(o.session.Tokens(), most)); k > n {
				from, kept, n = o.session, -1, k
			}
		}
		if o.serial < s.serial && o.state == submitted && o.prompt() && o.segment.Parents == nil {
			k := s.shares(o.tokens, most)
			if k == len(o.tokens) {
				k += s.sharesAfter(k, o.segment.Tokens, most)
			}
			soon = max(soon, k)
		}
	}
	if from != nil && (c.o.KVBytes == 0 || c.used.Load()+c.planned+c.empty+from.ForkBytes() <= c.o.KVBytes) {
		if kept >= 0 { // used last
			p := c.prefixes[kept]
			c.prefixes = append(slices.Delete(c.prefixes, kept, kept+1), p)
		}
		if fork, err := from.ForkAt(n); err == nil { // or else it is computed
			s.drop()
			s.session = fork
			s.reused += n - have
			c.stats.PrefixHits++
			c.stats.PrefixTokens += int64(n - have)
			have = n
		}
	}
	return soon-have >= leastShared
}

// shares is the number of tokens, at most most, that another sequence has in common with the session's and its submission.
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
