package shared

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// LentSession is a session of a draft head that looks at its target's cache ([engine.Head].SharesCache), where the
// target's passes are shared by a [Scheduler]. Its own passes are not: they run between those of schedulers, while
// nobody takes the memory of the target's session. It belongs to the goroutine of the target's session.
type LentSession struct {
	target *Session
	head   *engine.Session // its target is set during a pass only
	one    [1]engine.Segment
	spent  time.Duration
}

// NewLentSession makes a session of a draft head for a session of its target. o.Target is not looked at.
func NewLentSession(m *engine.Model, target *Session, o engine.SessionOptions) (*LentSession, error) {
	switch {
	case m == nil || target == nil:
		return nil, fmt.Errorf("%w: no draft head, or no session of its target", engine.ErrUsage)
	case m.Head() == nil || !m.Head().SharesCache:
		return nil, fmt.Errorf("%s: %w: a target's session for a model with a cache of its own", m.Name(), engine.ErrUsage)
	}
	// A session of the target, which is not used: the checks are those of NewSession.
	t, err := target.c.m.NewSession(target.options.SessionOptions)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	o.Target = t
	head, err := m.NewSession(o)
	if err == nil {
		err = head.SetTarget(nil)
	}
	if err != nil {
		return nil, err
	}
	return &LentSession{target: target, head: head}, nil
}

// Len is 0: such a session holds no tokens.
func (s *LentSession) Len() int { return 0 }

// Context is the most tokens of the target that the head looks at, and the one after them.
func (s *LentSession) Context() int { return s.head.Context() }

// MaxTree is that of [engine.Session].
func (s *LentSession) MaxTree() int { return engine.PassRows }

// Vocab is the number of logits in a row.
func (s *LentSession) Vocab() int { return s.head.Vocab() }

// Model is the draft head.
func (s *LentSession) Model() *engine.Model { return s.head.Model() }

// Target is the session whose cache the passes look at.
func (s *LentSession) Target() *Session { return s.target }

// TargetTokens is its sequence.
func (s *LentSession) TargetTokens() []int32 { return s.target.tokens }

// Spent is the time of the passes so far, without waiting for others'.
func (s *LentSession) Spent() time.Duration { return s.spent }

// Eval fails: a head takes hidden states beside tokens, in a segment.
func (s *LentSession) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	r, err := s.EvalSegment(ctx, engine.Segment{Tokens: tokens, Parents: parents, Logits: want})
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

// EvalSegment is [engine.Session.EvalSegment]. It wraps [engine.ErrKVBudget] while the target's session has given up
// its memory, until its next pass.
func (s *LentSession) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if s == nil {
		return engine.Result{}, fmt.Errorf("%w: no session", engine.ErrUsage)
	}
	t, err := s.target.lend()
	if err != nil {
		return engine.Result{}, err
	}
	defer s.target.giveBack()
	if err := s.head.SetTarget(t); err != nil {
		return engine.Result{}, err
	}
	s.one[0] = g
	s.one[0].Session = s.head
	turn := s.head.Model().Runtime().Turn()
	defer func() {
		s.spent += turn.Took
		turn.End()
		s.one[0] = engine.Segment{}
		_ = s.head.SetTarget(nil)
	}()
	out, err := turn.Forward(ctx, s.head.Model(), s.one[:])
	if err != nil {
		return engine.Result{}, err
	}
	return out[0], out[0].Err
}

// lend returns the engine's session, which computes the sequence, and has it left as it is until giveBack.
func (s *Session) lend() (*engine.Session, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.errClosed()
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.session == nil || s.session.Packed() || !slices.Equal(s.session.Tokens(), s.tokens) {
		return nil, fmt.Errorf("%s: %w: the sequence has given up its memory", c.m.Name(), engine.ErrKVBudget)
	}
	s.lent = true
	c.lent++
	return s.session, nil
}

// giveBack ends a loan. Others may have waited for it.
func (s *Session) giveBack() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.lent = false
	c.lent--
	c.ended.Broadcast()
	c.freed()
}
