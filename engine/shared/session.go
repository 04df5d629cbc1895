package shared

import (
	"context"
	"fmt"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
)

// Session is a sequence of tokens whose passes a [Scheduler] shares among sessions. It belongs to one goroutine at a
// time, like a [engine.Session], while other sessions belong to others. Its methods mean what those of engine.Session
// mean.
type Session struct {
	c *Scheduler
	lineage
	context int
	serial  uint64 // the order of admission
	wake    chan struct{}

	// Guarded by c.mu. The engine's session computes; while a pass with it runs (taken), nobody else touches it. It
	// holds the first tokens of the sequence: all of them but after it gave up its memory.
	session *engine.Session // nil: it gave up its memory
	from    *prefix         // of which it is a fork; nil: none
	forked  int             // tokens of that
	content

	state state
	lent  bool // a draft head looks at its keys and values: the memory stays
	submission

	exit *ExitSession // its first layers; nil: nobody asked for them

	late     bool     // it missed the bound, and has not been in time since
	expectAt moment   // since when it has been, or would have been, waited for
	decoding bool     // its last submission was no prompt
	pass     int64    // the last one that it was in
	follower follower // nil: none

	reading // of a draft head

	computed int // tokens of the sequence that it has computed before, for Recomputed
	reused   int // tokens taken from other sequences
	cost     shares
	costs    *costs.Costs // of passes of the model through as many layers
}

// content is what a session consists of, whether or not it is computed.
type content struct {
	tokens  []int32
	input   []int32 // of the encoder; nil: none yet, or no encoder
	nodes   []int32 // of a tree that waits for Commit
	parents []int32
}

// Len is the number of tokens of the sequence.
func (s *Session) Len() int { return len(s.tokens) }

// Context is the most tokens that the sequence can have.
func (s *Session) Context() int { return s.context }

// MaxTree is the most tokens that one Eval takes with parents.
func (s *Session) MaxTree() int { return engine.PassRows }

// PassRows is the most tokens of prompts in a pass.
func (s *Session) PassRows() int { return s.c.most }

// Vocab is the number of logits in a row.
func (s *Session) Vocab() int { return s.c.m.Config().Vocab }

// Layers is the number of the model's layers that compute the session.
func (s *Session) Layers() int { return s.options.Layers }

// Model is the session's model.
func (s *Session) Model() *engine.Model { return s.c.m }

// Adapters are those of the session.
func (s *Session) Adapters() engine.AdapterSet { return s.options.Adapters }

// Tokens is the sequence, valid until the session's next call. It must not be changed.
func (s *Session) Tokens() []int32 { return s.tokens }

// Reused is the number of tokens so far that were not computed because another sequence began alike.
func (s *Session) Reused() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.reused
}

// gain counts tokens that were taken from another sequence and that the session has not computed or taken before.
func (s *Session) gain(n int) {
	s.reused += n
	s.gained += n
}

// Eval feeds tokens to the session, as [engine.Session.Eval] does. It waits for the pass that computes them. If ctx
// ends meanwhile, Eval fails with its error, after the pass in progress if that has the session's tokens; the session
// has not moved then. A pass that the caller's own goroutine computes when ctx ends is still its pass: Eval returns
// the result.
func (s *Session) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if s == nil {
		return engine.Logits{}, fmt.Errorf("%w: no session", engine.ErrUsage)
	}
	r, err := s.submit(ctx, engine.Segment{Tokens: tokens, Parents: parents, Logits: want})
	return r.Logits, err
}

// EvalSegment is Eval of a segment, as [engine.Session.EvalSegment]. Its engine.Session is not looked at.
func (s *Session) EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if s == nil {
		return engine.Result{}, fmt.Errorf("%w: no session", engine.ErrUsage)
	}
	return s.submit(ctx, g)
}

// Costs is what passes of the session take, by themselves.
func (s *Session) Costs() *costs.Costs { return s.costs }

// Announce says whether the session's next Eval is on its way, so that passes wait for it, or not. After a result it is
// taken to be.
func (s *Session) Announce(will bool) {
	if s == nil {
		return
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.hasRead()
	switch {
	case s.pending() || s.state == closed:
	case !will:
		c.enter(s, idle)
		s.decoding = false
		c.changed() // it may have to give up memory now
	case s.state == idle:
		s.expectAt = c.now()
		c.enter(s, announced)
	}
}

// follower is told before a session goes on after a pass that something of its own is now on its way, such as a draft.
type follower = interface{ Announce(will bool) }

// Follow has f announced at the end of each pass with tokens of the session, before any session goes on; nil ends
// that. The session's owner tells f if nothing comes. A draft's sequence that follows the target's is waited for by
// the first draft pass after a pass of the target, so that all drafts share it. f must not belong to the session's
// Scheduler.
func (s *Session) Follow(f interface{ Announce(will bool) }) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.pending() {
		s.follower = f
	}
}

// Load is the load of the Scheduler. The session itself counts.
func (s *Session) Load() (l Load) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.Rows, l.Among, l.Open, l.Pass = s.cost.rows, s.cost.among, len(c.sessions), s.pass
	for _, o := range c.sessions {
		if o == s || o.pending() && !o.long() || o.decoding && c.stats.Passes-o.pass <= generates {
			l.Sessions++
		}
	}
	if s.costs.Known() {
		l.Token = s.costs.Each(float64(l.Sessions))
		l.Measured = s.costs.Measured(l.Sessions)
		l.Prompt = s.costs.Prompt()
	}
	return l
}

// Spent is the session's share of the time of its passes so far. The shares of a pass sum up to its time.
func (s *Session) Spent() time.Duration {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.cost.spent
}

// PassCosts fills seconds[i] with what Spent is expected to grow by in an Eval of i+1 tokens with logits, in the
// passes that the session shares at present. What a further token costs is the time that it adds to the pass. It
// reports false while the session is alone, or nothing is known.
func (s *Session) PassCosts(seconds []float64) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.costs.Known() || s.cost.peers < leastShare {
		return false
	}
	s.costs.Prices(s.cost.others, s.cost.peers, seconds)
	return true
}

// Truncate shortens the sequence to its first n tokens, or that of a draft head as [engine.Session.Truncate] does, and
// drops a waiting tree.
func (s *Session) Truncate(n int) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("%w: Truncate(%d) of %d tokens", engine.ErrUsage, n, len(s.tokens))
	}
	s.tokens = s.tokens[:n]
	s.computed = min(s.computed, n)
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	return s.cut()
}

// cut drops what the engine's session holds beyond the sequence, and a tree that waits there. Of a draft head's that
// may be more, which it does not compute again: then the sequence has no more either.
func (s *Session) cut() error {
	if s.session == nil {
		return nil
	}
	err := s.session.Truncate(min(s.session.Len(), len(s.tokens)))
	if !s.c.recomputes() {
		s.tokens = s.tokens[:min(len(s.tokens), s.session.Len())]
		s.computed = min(s.computed, len(s.tokens))
	}
	return err
}

// Commit appends a path of the waiting tree to the sequence and drops the rest of the tree.
func (s *Session) Commit(path []int32) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	parent := int32(-1)
	for i, j := range path {
		if j < 0 || int(j) >= len(s.nodes) || s.parents[j] != parent {
			return fmt.Errorf("%w: Commit: element %d of the path is node %d, no child of node %d (tree of %d nodes)",
				engine.ErrUsage, i, j, parent, len(s.nodes))
		}
		parent = j
	}
	var err error
	if s.session != nil && s.session.Nodes() > 0 {
		err = s.session.Commit(path)
	}
	if err == nil {
		for _, j := range path {
			s.tokens = append(s.tokens, s.nodes[j])
		}
		s.computed = len(s.tokens)
	}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	return err
}

// usable fails for a session that is closed, or has an Eval in another goroutine.
func (s *Session) usable() error {
	switch {
	case s.state == closed:
		return fmt.Errorf("%s: session: %w", s.c.m.Name(), engine.ErrClosed)
	case s.pending():
		return fmt.Errorf("%w: an Eval of the session has not ended", engine.ErrUsage)
	}
	return nil
}

// Close ends the session. Its sequence may be kept for others that begin alike.
func (s *Session) Close() {
	if s != nil {
		s.close()
		s.c.o.Kept.settle()
	}
}

func (s *Session) close() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.usable() != nil {
		return
	}
	c.enter(s, closed)
	s.hasRead()
	s.exit.end()
	s.depart()
	c.keep(s)
	s.drop()
	c.freed()
}

// submit hands a segment to the scheduler and waits for its result.
func (s *Session) submit(ctx context.Context, g engine.Segment) (engine.Result, error) {
	if err := ctx.Err(); err != nil {
		return engine.Result{}, err
	}
	c := s.c
	c.mu.Lock()
	if err := s.begin(ctx, g); err != nil {
		c.mu.Unlock()
		return engine.Result{}, err
	}
	c.changed()
	done := ctx.Done()
	for s.pending() {
		if err := ctx.Err(); err != nil && !s.abandoned {
			s.abandon(err)
			done = nil
			continue
		}
		if c.leader == s {
			c.leader = nil
			c.pass()
			continue
		}
		c.mu.Unlock()
		select {
		case <-s.wake:
		case <-done:
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	return s.end()
}

// begin checks a segment and adds it to those that wait for a pass.
func (s *Session) begin(ctx context.Context, g engine.Segment) error {
	c := s.c
	if c.closed {
		return c.errClosed()
	}
	if err := s.usable(); err != nil {
		return err
	}
	depth := len(g.Tokens)
	if g.Parents != nil {
		depth = depthOf(g.Parents)
	}
	if len(s.tokens)+depth > s.context {
		return fmt.Errorf("%s: %w: %d tokens and %d more, room for %d",
			c.m.Name(), engine.ErrContextFull, len(s.tokens), depth, s.context)
	}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	if err := s.cut(); err != nil {
		return err
	}
	if c.o.Stored != nil && g.Logits != engine.None {
		c.storePrompt(s)
	}
	s.submission.begin(ctx, g)
	inTime := c.left(s.expectAt) > 0
	c.enter(s, submitted)
	s.late = s.late && !inTime
	return nil
}

// depthOf is the number of levels of a tree whose parents come first, as far as they do.
func depthOf(parents []int32) int {
	var depth [engine.PassRows]int
	most := 0
	for i, p := range parents[:min(len(parents), engine.PassRows)] {
		d := 1
		if p >= 0 && int(p) < i {
			d += depth[p]
		}
		depth[i] = d
		most = max(most, d)
	}
	return most
}

// abandon ends a submission whose caller has left: at once, or after the pass that has it.
func (s *Session) abandon(err error) {
	c := s.c
	c.stats.Cancelled++
	s.abandoned, s.err = true, err
	if s.state == taken {
		return
	}
	if c.leader == s { // another one leads
		c.leader, c.running = nil, false
		c.ended.Broadcast() // Close may wait for the pass that does not begin
	}
	s.complete(engine.Result{}, err)
	c.changed()
}

// complete ends a submission. If it failed, the session is as it was before.
func (s *Session) complete(r engine.Result, err error) {
	c := s.c
	s.result, s.err = r, err
	switch {
	case err != nil:
		c.enter(s, idle)
		s.gain(-s.gained)
		if cut := s.cut(); cut != nil {
			s.drop() // it is computed again
		}
	case s.segment.Parents != nil:
		s.nodes = append(s.nodes, s.segment.Tokens...)
		s.parents = append(s.parents, s.segment.Parents...)
	default:
		s.tokens = append(s.tokens, s.segment.Tokens...)
		s.computed = len(s.tokens)
		s.prompted = s.rows == 0
	}
	if err != nil {
		s.hasRead()
	} else {
		s.decoding, s.expectAt = !s.long(), c.now()
		c.enter(s, announced)
	}
	s.tell()
}
