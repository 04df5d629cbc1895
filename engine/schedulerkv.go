package engine

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// What the Scheduler knows of a session's memory.

// meter counts in used the bytes of keys and values that the session allocates from now on, and those of its recurrent layers as of
// the last count. Forks inherit it.
func (s *Session) meter(used *atomic.Int64) {
	for _, kv := range s.kv {
		if kv != nil {
			kv.Meter(used)
		}
	}
	s.used = used
	s.count()
}

// count brings the count of the recurrent layers' bytes up to date. Passes, forks and Close change it. A point that forks share counts
// for each of them.
func (s *Session) count() {
	if s.used == nil {
		return
	}
	n := int64(0)
	if s.rec != nil {
		n = s.rec.bytes()
	}
	s.used.Add(n - s.counted)
	s.counted = n
}

// need is the number of bytes that a pass over n more tokens allocates at most. back is the number of them in a tree, or at the end of a
// chain, whose logits are wanted: those may be cut back.
func (s *Session) need(n, back int) (bytes int64) {
	known := s.Restorable(len(s.tokens))
	for _, kv := range s.kv {
		if kv != nil {
			bytes += kv.Need(known, len(s.tokens)+n)
		}
	}
	if s.rec != nil {
		bytes += s.rec.need(known, len(s.tokens), len(s.tokens)+n, back)
	}
	return bytes
}

// need is the number of bytes that a pass adds at most to the states' memory: it steps from known tokens to start, and over the tokens
// from there to end.
func (r *recurrent) need(known, start, end, back int) int64 {
	numbers := 0
	if tokens := ceilPower(pointStep + max(pointStep, back)); tokens > r.capacity {
		for _, l := range r.layers {
			numbers += (tokens - r.capacity) * l.input()
		}
	}
	before, replay := 0, known
	if i := r.last(known); i >= 0 {
		before = r.points[i].at
	}
	if replay -= before; r.at >= before && r.at <= known {
		replay = known - r.at
	}
	if end-before > pointStep || replay > replayMost { // a point for each round of the pass
		parts := 1 + (end-start+passRows-2)/passRows
		if start > known {
			parts += 1 + (start-known+passRows-2)/passRows
		}
		numbers += max(0, parts-len(r.spare)) * r.size
	}
	return 4 * int64(numbers)
}

// forkBytes is the memory that a fork has of its own at most, before its first pass.
func (s *Session) forkBytes() int64 {
	if s.rec == nil {
		return 0
	}
	return s.rec.bytes()
}

// leastShared is the number of tokens from which the state of another sequence is used. A copy of a page costs about as much.
const leastShared = 16

// prefix is a sequence that is kept after its session.
type prefix struct {
	session *Session
	options SessionOptions
}

// recomputes reports whether tokens alone say what a session holds. Draft heads are also fed the target's hidden states, so their
// sessions keep their memory.
func (c *Scheduler) recomputes() bool { return c.m.head == nil }

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
func (c *Scheduler) memory(s *SharedSession, n int) bool {
	if s.session != nil {
		return c.reserve(s, s.session.need(n, s.back(n)))
	}
	session, err := c.m.NewSession(s.options)
	if err != nil {
		s.complete(Result{}, err)
		return false
	}
	fixed := session.Bytes()
	if !c.reserve(s, fixed+session.need(n, s.back(n))) {
		session.Close()
		return false
	}
	session.meter(&c.used)
	c.planned -= min(fixed, c.planned) // it is in use now
	s.session = session
	return true
}

// back is the number of the submission's next n tokens that may be cut back.
func (s *SharedSession) back(n int) int {
	switch {
	case s.missing() > 0 || n < s.left():
		return 0
	case s.segment.Parents != nil:
		return n
	}
	return min(s.rows, n, journalMost-pointStep)
}

// reserve makes sure of memory for s: it drops sequences that are kept, then has others give up theirs. It reports false if s
// has to wait, or fails because it does not fit by itself.
func (c *Scheduler) reserve(s *SharedSession, bytes int64) bool {
	for c.o.KVBytes > 0 && bytes > 0 && c.used.Load()+c.planned+bytes > c.o.KVBytes {
		if c.evict() {
			continue
		}
		if !c.recomputes() { // none gives up its memory for another, so waiting for it could last for ever
			s.complete(Result{}, fmt.Errorf("%s: %w: %d bytes and %d more, budget of %d", c.m.name, ErrKVBudget, c.used.Load(), bytes, c.o.KVBytes))
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
			s.complete(Result{}, fmt.Errorf("%s: %w: %d bytes and %d more, budget of %d", c.m.name, ErrKVBudget, c.used.Load(), bytes, c.o.KVBytes))
		}
		return false
	}
	c.planned += bytes
	return true
}

// victim is the session that gives up its memory for s: one that nobody waits for, the youngest first, or else the youngest
// of those that are younger than s.
func (c *Scheduler) victim(s *SharedSession) *SharedSession {
	var young, still *SharedSession
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
func (c *Scheduler) keep(s *SharedSession) {
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
func (c *Scheduler) goOn(s *SharedSession) bool {
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
	var from *Session
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
	if from != nil && (c.o.KVBytes == 0 || c.used.Load()+c.planned+c.empty+from.forkBytes() <= c.o.KVBytes) {
		if kept >= 0 { // used last
			p := c.prefixes[kept]
			c.prefixes = append(slices.Delete(c.prefixes, kept, kept+1), p)
		}
		if fork, err := from.forkAt(n); err == nil { // or else it is computed
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
func (s *SharedSession) shares(other []int32, most int) int {
	n := common(other, s.tokens[:min(len(s.tokens), most)])
	if n == len(s.tokens) {
		n += s.sharesAfter(n, other[n:], most)
	}
	return n
}

// sharesAfter is shares where the first at tokens, at least those of the session's sequence, are known to be the same.
func (s *SharedSession) sharesAfter(at int, other []int32, most int) int {
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
