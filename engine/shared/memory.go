package shared

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/specgo/spec/engine"
)

// ledger says how much memory keys, values and recurrent states take, those of kept sequences too.
type ledger struct {
	budget  int64        // bytes; 0: any amount
	used    atomic.Int64 // by pages and states that there are, but for those in planned
	planned int64        // of the sessions of the next pass that allocate: what they have, and what the pass may add
	filled  atomic.Int64 // of that, what there is
	empty   int64        // of a session with one token
	lent    int          // sessions whose memory is lent, and passes of those that exit early

	exits    []*ExitSession // that have memory
	loads    int            // stored sequences that are being read
	copies   int            // of sequences that are being saved on request, which have memory until that has ended
	reserved int64          // that the passes of exits, and these sequences, may allocate
}

// fits reports whether there is room for so much more.
func (l *ledger) fits(bytes int64) bool {
	return l.budget == 0 || l.used.Load()+l.planned+l.reserved+bytes <= l.budget
}

// full is the error of what does not fit.
func (l *ledger) full(m *engine.Model, bytes int64) error {
	return fmt.Errorf("%s: %w: %d bytes and %d more, budget of %d",
		m.Name(), engine.ErrKVBudget, l.used.Load(), bytes, l.budget)
}

// recomputes reports whether tokens alone say what a session holds. Draft heads are also fed the target's hidden
// states, so their sessions keep their memory.
func (c *Scheduler) recomputes() bool { return c.m.Head() == nil }

// memory gives s the engine's session that it lacks, and makes sure of memory for n more tokens; see reserve.
func (c *Scheduler) memory(s *Session, n int) bool {
	if s.session != nil {
		need := s.session.Need(n, s.back(n))
		if c.budget > 0 && s.session.Bytes()+need > c.budget {
			s.session.Thin()
			need = s.session.Need(n, s.back(n))
		}
		if !c.exceeds(s, n, need) {
			ok := c.reserve(s, need)
			if ok && need > 0 {
				c.fill(s)
			}
			return ok
		}
		s.anew = true
		s.drop()
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
	c.planned -= min(fixed, c.planned) // fill counts it
	s.session = session
	c.fill(s)
	return true
}

// fill counts what a session has in planned while the pass runs, so that what the pass allocates counts once.
func (c *Scheduler) fill(s *Session) {
	had := c.filled.Load()
	s.session.Meter(&c.filled)
	c.planned += c.filled.Load() - had
	s.fills = true
}

// allocated ends that: the pass has allocated what it needed.
func (c *Scheduler) allocated() {
	for _, s := range c.sessions {
		if s.fills {
			s.fills = false
			if s.session != nil {
				s.session.Meter(&c.used)
			}
		}
	}
	c.planned = 0
}

// exceeds reports whether s has so much that it would not fit by itself, though it goes back no further than it must,
// and may do with less: drafts that were taken back, and forks, leave copies of recurrent states. Then its sequence is
// computed anew, once for a submission. Drafts are refused instead.
func (c *Scheduler) exceeds(s *Session, n int, need int64) bool {
	return c.budget > 0 && s.session.Bytes()+need > c.budget && c.recomputes() && !s.anew && s.rows <= 1 &&
		s.input == nil && s.segment.Parents == nil && s.session.Len() > 0
}

// back is the number of the submission's next n tokens that may be cut back.
func (s *Session) back(n int) int {
	switch {
	case s.missing() > 0 || n < s.remaining():
		return 0
	case s.segment.Parents != nil:
		return n
	}
	return min(s.rows, n, engine.MostBack)
}

// remaining is the number of tokens that have to be computed until the submission is.
func (s *Session) remaining() int {
	have := 0
	if s.session != nil {
		have = s.session.Len() + s.session.Nodes()
	}
	return len(s.tokens) + len(s.segment.Tokens) - have
}

// missing is the number of tokens of the sequence itself that the engine's session lacks: it gave up its memory.
func (s *Session) missing() int {
	if s.session == nil {
		return len(s.tokens)
	}
	return len(s.tokens) - s.session.Len()
}

// prompt reports whether so much is left that chunks are cut.
func (s *Session) prompt() bool { return s.missing() > 0 || s.long() && s.remaining()-s.rows > 0 }

// depart ends what the session has in common with a kept sequence, which is then worth what it was.
func (s *Session) depart() {
	if s.from != nil {
		i := slices.Index(s.from.open, s.forked) // it is there
		s.from.open, s.from = slices.Delete(s.from.open, i, i+1), nil
	}
}

// drop gives up the memory.
func (s *Session) drop() {
	s.depart()
	if s.session != nil {
		s.session.Close()
		s.session = nil
	}
}
