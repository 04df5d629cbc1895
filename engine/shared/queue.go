package shared

import (
	"context"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// state is where a session stands:
//
//	idle ── Announce ─> announced ── Eval ─> submitted ── a pass takes it ─> taken
//	                        ^                  │   ^                          │ │
//	                        │  its last result │   └──── more of it is left ──┘ │
//	                        └──────────────────┴────────────────────────────────┘
//
// One that waited for its place begins announced, others idle. Where an Eval fails, or an announcement is taken back,
// the session is idle. It can be closed where nothing is submitted. What changes a state is [queue.enter] alone.
type state uint8

const (
	idle      state = iota // nothing of it is on its way
	announced              // its next submission is on its way: passes wait for it, unless it was late
	submitted              // it waits for a pass
	taken                  // it is in the pass that runs: nobody else touches its memory
	closed
)

// submission is what a session has submitted, and what has come of it so far.
type submission struct {
	ctx       context.Context // of who waits for it
	segment   engine.Segment
	encode    bool      // it is that of Encode: there are no tokens
	rows      int       // at its end, of which something is wanted
	states    int       // likewise hidden states: if more than rows, they are gathered from chunks
	gathered  []float32 // so far
	chunk     bool      // what the pass that runs has of it is part of a prompt
	fills     bool      // its memory is in planned while the pass runs
	waits     bool      // for an older session, which computes the same tokens
	abandoned bool      // nobody waits for the result
	prompted  bool      // the last one was part of a prompt: no logits were wanted
	anew      bool      // the sequence was computed again since it had more memory than it needs
	gained    int       // tokens that it has taken from other sequences, which go with it where it fails
	result    engine.Result
	err       error
}

// begin takes a segment.
func (u *submission) begin(ctx context.Context, g engine.Segment) {
	n := len(g.Tokens)
	u.ctx, u.segment, u.gathered, u.abandoned, u.anew, u.gained = ctx, g, u.gathered[:0], false, false, 0
	u.rows, u.states = rowsOf(g.Logits, n), rowsOf(g.Hidden, n)
	if g.Parents != nil || g.Hidden < engine.All || int(g.Hidden) > n { // in one pass, which refuses what cannot be
		u.rows, u.states = n, min(u.states, n)
	}
}

// end returns what came of it, and forgets it.
func (u *submission) end() (engine.Result, error) {
	r, err := u.result, u.err
	u.result, u.err, u.segment, u.ctx = engine.Result{}, nil, engine.Segment{}, nil
	return r, err
}

// long reports whether it is cut into chunks.
func (u *submission) long() bool {
	return u.segment.Parents == nil && len(u.segment.Tokens)-u.rows > engine.ShortRows
}

// rowsOf is how many of n positions are wanted.
func rowsOf(r engine.Rows, n int) int {
	if r == engine.All {
		return n
	}
	return max(0, int(r))
}

// part is the segment of the next n tokens: of the sequence itself where memory was given up, or else of what was
// submitted.
func (s *Session) part(n int) engine.Segment {
	g, have := s.segment, s.session.Len()
	if g.Session = s.session; s.missing() > 0 {
		return engine.Segment{Session: s.session, Tokens: s.tokens[have : have+n]}
	}
	if g.Parents != nil {
		return g
	}
	all, at := len(g.Tokens), have-len(s.tokens)
	end := at + n
	g.Tokens = g.Tokens[at:end]
	if len(g.States) > 0 && n < all {
		size := len(g.States) / all
		g.States = g.States[at*size : end*size]
	}
	if end < all {
		g.Logits = engine.None
	}
	if first := all - s.states; s.states > s.rows { // of some chunks states may be gathered before it gave up its memory
		size := s.c.m.StateSize(g.Layers) * len(g.Layers)
		s.gathered = s.gathered[:min(len(s.gathered), max(0, at-first)*size)]
		g.Hidden = engine.Rows(max(0, end-max(at, first)))
	} else if end < all {
		g.Hidden = engine.None
	}
	if g.Hidden == engine.None {
		g.Layers = nil
	}
	return g
}

// queue is the sessions of a Scheduler and where they stand.
type queue struct {
	sessions []*Session // open ones, the oldest first
	pending  []*Session // of them, those that have submitted and have no result, in order of submission
	missing  int        // sessions that are waited for, and coming
	coming   int        // sessions that Expect announced: NewSession has not been called for them as yet
	leader   *Session   // whose goroutine is to run the next pass; nil: a pass runs, or none is to begin
	running  bool       // a pass runs, or there is a leader
	blocked  bool       // nothing pending fits in memory until something changes
	timer    *time.Timer
	armed    bool   // the timer runs
	since    moment // from then on
	most     int    // tokens of prompts in a pass
}

// enter moves a session to a state.
func (q *queue) enter(s *Session, to state) {
	if s.expected() {
		q.missing--
	}
	switch had := s.pending(); {
	case to == submitted && !had:
		q.pending = append(q.pending, s)
	case had && to != submitted && to != taken:
		q.pending = slices.DeleteFunc(q.pending, func(o *Session) bool { return o == s })
	}
	if s.state = to; to == closed {
		q.sessions = slices.DeleteFunc(q.sessions, func(o *Session) bool { return o == s })
	}
	if s.expected() {
		q.missing++
	}
}

// lose gives up waiting for those that are missing: they are late. It returns how many they are.
func (q *queue) lose() (n int64) {
	for _, s := range q.sessions {
		if s.expected() {
			s.late = true
			n++
		}
	}
	n += int64(q.coming)
	q.missing, q.coming = 0, 0
	return n
}

// came takes back the announcement of a session that has come, if there is one.
func (q *queue) came() bool {
	if q.coming == 0 {
		return false
	}
	q.coming--
	q.missing--
	return true
}

// lead tells the first session that has submitted to run a pass.
func (q *queue) lead() {
	q.leader, q.running = q.pending[0], true
	q.leader.tell()
}

func (q *queue) disarm() {
	if q.armed {
		q.armed = false
		q.timer.Stop()
	}
}

// expected reports whether passes wait for the session.
func (s *Session) expected() bool { return s.state == announced && !s.late }

// pending reports whether the session has submitted and has no result.
func (s *Session) pending() bool { return s.state == submitted || s.state == taken }

// tell wakes the goroutine that waits for the session's result.
func (s *Session) tell() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
