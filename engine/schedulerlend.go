package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LentSession is a session of a draft head that looks at its target's cache ([Head].SharesCache), where the target's passes are shared by a
// [Scheduler]. Its own passes are not: they run between those of schedulers, while nobody takes the memory of the target's session. It
// belongs to the goroutine of the target's session.
type LentSession struct {
	target *SharedSession
	head   *Session // its lender is set during a pass only
	spent  time.Duration
}

// NewLentSession makes a session of a draft head for a session of its target. o.Target is not looked at.
func (m *Model) NewLentSession(target *SharedSession, o SessionOptions) (*LentSession, error) {
	switch {
	case m == nil || target == nil:
		return nil, fmt.Errorf("%w: no draft head, or no session of its target", ErrUsage)
	case m.head == nil || !m.head.SharesCache:
		return nil, fmt.Errorf("%s: %w: a target's session for a model with a cache of its own", m.name, ErrUsage)
	}
	// A session of the target, which is not used: the checks are those of NewSession.
	t, err := target.c.m.NewSession(target.options)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	o.Target = t
	head, err := m.NewSession(o)
	if err != nil {
		return nil, err
	}
	head.lender = nil
	return &LentSession{target: target, head: head}, nil
}

// Len is 0: such a session holds no tokens.
func (s *LentSession) Len() int { return 0 }

// Context is the most tokens of the target that the head looks at, and the one after them.
func (s *LentSession) Context() int { return s.head.context }

// MaxTree is that of [Session].
func (s *LentSession) MaxTree() int { return maxTree }

// Vocab is the number of logits in a row.
func (s *LentSession) Vocab() int { return s.head.Vocab() }

// Model is the draft head.
func (s *LentSession) Model() *Model { return s.head.m }

// Target is the session whose cache the passes look at.
func (s *LentSession) Target() *SharedSession { return s.target }

// Spent is the time of the passes so far, without waiting for others'.
func (s *LentSession) Spent() time.Duration { return s.spent }

// Eval fails: a head takes hidden states beside tokens, in a segment.
func (s *LentSession) Eval(ctx context.Context, tokens, parents []int32, want Rows) (Logits, error) {
	r, err := s.EvalSegment(ctx, Segment{Tokens: tokens, Parents: parents, Logits: want})
	return r.Logits, err
}

// Truncate has nothing to shorten.
func (s *LentSession) Truncate(n int) error { return s.head.Truncate(n) }

// Commit has nothing to take.
func (s *LentSession) Commit(path []int32) error { return s.head.Commit(path) }

// Close ends the session.
func (s *LentSession) Close() {
	if s != nil {
		s.head.Close()
	}
}

// EvalSegment is [Session.EvalSegment]. It wraps [ErrKVBudget] while the target's session has given up its memory, until its next pass.
func (s *LentSession) EvalSegment(ctx context.Context, g Segment) (Result, error) {
	if s == nil {
		return Result{}, fmt.Errorf("%w: no session", ErrUsage)
	}
	t, err := s.target.lend()
	if err != nil {
		return Result{}, err
	}
	defer s.target.giveBack()
	h, rt := s.head, s.head.m.rt
	h.lender, h.one[0] = t, g
	h.one[0].Session = h
	rt.working.Add(1)
	rt.t.Lock()
	begin := time.Now()
	defer func() {
		took := time.Since(begin)
		rt.t.Unlock()
		s.spent += took
		rt.worked.Add(int64(took))
		rt.working.Add(-1)
		h.lender, h.one[0] = nil, Segment{}
	}()
	out, err := h.m.forward(ctx, h.one[:])
	if err != nil {
		return Result{}, err
	}
	return out[0], out[0].Err
}

// lend returns the engine's session, which computes the sequence, and has it left as it is until giveBack.
func (s *SharedSession) lend() (*Session, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errSchedulerClosed
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.session == nil || !slices.Equal(s.session.tokens, s.tokens) {
		return nil, fmt.Errorf("%s: %w: the sequence has given up its memory", c.m.name, ErrKVBudget)
	}
	s.lent = true
	c.lent++
	return s.session, nil
}

// giveBack ends a loan. Others may have waited for it.
func (s *SharedSession) giveBack() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.lent = false
	c.lent--
	c.ended.Broadcast()
	c.blocked = false
	c.admit()
	c.kick()
}
