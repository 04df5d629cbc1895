package shared

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
)

// ExitSession computes the first layers of a model alone, or all layers with its draft form, for drafts of a [Session]
// by the same model. It takes over what the session has computed of these layers: it computes the tokens that are
// drafted, never a text. With a draft form every draft begins with all that the session has computed: what the form
// computes differs, and shall depend on nothing but the text and the draft. Its passes are
// shared with those of other sessions of the Scheduler that draft at the same time, and run between those of
// schedulers. Its memory counts in the Scheduler's budget, which takes it back
// before anything else, and which gives up for it what is worth less alone: passes then wrap [engine.ErrKVBudget] until
// there is more. It belongs to the goroutine of its
// session, and is closed with it.
type ExitSession struct {
	Unread
	target  *Session
	layers  int
	form    *engine.DraftForm // nil: the model as it is
	tokens  []int32           // the sequence, of which own has the first ones
	own     *engine.Session   // guarded by the Scheduler's mu while no pass runs; nil: it has no memory
	running bool              // guarded likewise
	need    int64             // reserved for the pass that runs, where that allocates: what own has and the pass may add
	filled  atomic.Int64      // what own has of it, which would count twice if it were in use already
	ask     ask               // guarded likewise
	spent   time.Duration
}

// Exit is the session's first layers, at least one.
func (s *Session) Exit(layers int) (*ExitSession, error) { return s.exits(layers, nil) }

// Draft is the session's layers in a draft form of its model.
func (s *Session) Draft(f *engine.DraftForm) (*ExitSession, error) {
	if s == nil || f == nil || f.Model() != s.c.m {
		return nil, fmt.Errorf("%w: no session, or a draft form of another model", engine.ErrUsage)
	}
	return s.exits(s.options.Layers, f)
}

// exits is the session of so many layers and that form: the one that there is, or a new one in its place.
func (s *Session) exits(layers int, f *engine.DraftForm) (*ExitSession, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: no session", engine.ErrUsage)
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, c.errClosed()
	case s.state == closed:
		return nil, fmt.Errorf("%s: session: %w", c.m.Name(), engine.ErrClosed)
	case layers < 1 || layers > s.options.Layers || s.options.NoCache || !c.recomputes():
		return nil, fmt.Errorf("%s: %w: an exit after %d layers of %d", c.m.Name(), engine.ErrUsage, layers,
			s.options.Layers)
	}
	if s.exit == nil || s.exit.layers != layers || s.exit.form != f {
		s.exit.end()
		s.exit = &ExitSession{target: s, layers: layers, form: f, ask: ask{wake: make(chan struct{}, 1)}}
	}
	return s.exit, nil
}

// Len is the number of tokens of the sequence.
func (e *ExitSession) Len() int { return len(e.tokens) }

// Tokens is the sequence, valid until the session's next call.
func (e *ExitSession) Tokens() []int32 { return e.tokens }

// Context is the most tokens that the sequence can have.
func (e *ExitSession) Context() int { return e.target.context }

// MaxTree is 0: drafts are computed as chains.
func (e *ExitSession) MaxTree() int { return 0 }

// Vocab is the number of logits in a row.
func (e *ExitSession) Vocab() int { return e.target.Vocab() }

// Model is the model whose first layers they are.
func (e *ExitSession) Model() *engine.Model { return e.target.c.m }

// Layers is the number of layers.
func (e *ExitSession) Layers() int { return e.layers }

// Spent is the time of the passes so far, without waiting for others'.
func (e *ExitSession) Spent() time.Duration { return e.spent }

// Costs is what passes of the same weights take, by themselves.
func (e *ExitSession) Costs() *costs.Costs {
	if e.form != nil {
		return e.form.Costs()
	}
	return e.Model().Costs(e.layers)
}

// Reads is how much a pass reads of the weights that one of the target's session reads.
func (e *ExitSession) Reads() float64 {
	if e.form != nil {
		return e.Model().PlanDraftForm().Reads
	}
	return float64(e.layers) / float64(e.target.options.Layers)
}

// Announce says whether the next pass is on its way, so that passes of others wait for it, or not. Once it is said, it
// holds for the passes after it too.
func (e *ExitSession) Announce(will bool) {
	c := e.target.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.target.state != closed {
		e.expect(will)
		c.kickJoint()
	}
}

// PassCosts fills seconds[i] with what Spent is expected to grow by in an Eval of i+1 tokens, when as many sessions
// share the pass as did lately. It reports false while the target's session is alone, or nothing is known.
func (e *ExitSession) PassCosts(seconds []float64) bool {
	c := e.target.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.Costs().Known() || c.joint.peers == 0 || e.target.cost.peers < leastShare {
		return false
	}
	e.Costs().Prices(c.joint.peers-1, c.joint.peers, seconds)
	return true
}

// Load is that of the target's session.
func (e *ExitSession) Load() Load { return e.target.Load() }

// Unread is the part of a sequence with shared passes that reads texts, of one that reads none.
type Unread struct{}

// Reusable is the whole text: nothing of it is computed again.
func (Unread) Reusable(text []int32) int { return len(text) }

// Follow has nothing to tell: nobody follows a draft.
func (Unread) Follow(follower) {}

// Await has nothing to wait for.
func (Unread) Await(context.Context, []int32) {}

// Resume has nothing to go on from.
func (Unread) Resume(context.Context, []int32, []int32, func() ([]int32, []float32)) ([]int32, []float32) {
	return nil, nil
}

// Truncate shortens the sequence to its first n tokens.
func (e *ExitSession) Truncate(n int) error {
	if n < 0 || n > len(e.tokens) {
		return fmt.Errorf("%w: Truncate(%d) of %d tokens", engine.ErrUsage, n, len(e.tokens))
	}
	e.tokens = e.tokens[:n]
	return nil
}

// Commit fails: there are no trees.
func (e *ExitSession) Commit([]int32) error {
	return fmt.Errorf("%w: a tree of a session that exits early", engine.ErrUsage)
}

// Eval feeds tokens to the sequence. What the target's session has of them is not computed, the rest when logits are
// wanted. Where that is no longer there, or there is no memory, Eval wraps [engine.ErrKVBudget].
func (e *ExitSession) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if parents != nil {
		return engine.Logits{}, e.Commit(nil)
	}
	if len(e.tokens)+len(tokens) > e.target.context {
		return engine.Logits{}, fmt.Errorf("%s: %w: %d tokens and %d more, room for %d", e.Model().Name(),
			engine.ErrContextFull, len(e.tokens), len(tokens), e.target.context)
	}
	had := len(e.tokens)
	e.tokens = append(e.tokens, tokens...)
	r, err := e.pass(ctx, rowsOf(want, len(tokens)))
	if err != nil {
		e.tokens = e.tokens[:had]
	}
	return r.Logits, err
}

// pass computes what there is not of the sequence.
func (e *ExitSession) pass(ctx context.Context, rows int) (engine.Result, error) {
	if err := ctx.Err(); err != nil {
		return engine.Result{}, err
	}
	if rows == 0 { // until something is wanted
		return engine.Result{Logits: engine.Logits{Vocab: e.Vocab()}}, nil
	}
	missing, err := e.take(rows)
	if err != nil {
		return engine.Result{}, err
	}
	defer e.giveBack()
	c := e.target.c
	c.mu.Lock()
	defer c.mu.Unlock()
	e.ask.segment = engine.Segment{Session: e.own, Tokens: e.tokens[len(e.tokens)-missing:], Logits: engine.Rows(rows)}
	defer func() { e.ask.segment = engine.Segment{} }()
	return e.share()
}

// take has own hold the beginning of the sequence, with memory for the rest, of which it returns the length: at least
// rows. Nobody takes the memory until giveBack.
func (e *ExitSession) take(rows int) (missing int, err error) {
	c := e.target.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, c.errClosed()
	}
	if err := e.target.usable(); err != nil {
		return 0, err
	}
	upTo, have := len(e.tokens)-rows, 0
	if e.own != nil {
		have = min(engine.Common(e.own.Tokens(), e.tokens), upTo)
		if e.own.Restorable(have) < have {
			have = 0
		}
	}
	if t := e.target.session; t != nil {
		n := t.Restorable(min(engine.Common(t.Tokens(), e.tokens), upTo))
		if have == 0 && n > 0 || n >= have+leastShared || e.form != nil && n > min(have, e.own.Taken()) {
			old := e.detach()
			if need := t.DraftBytes(n, e.layers, old); !e.spare(need, len(e.tokens)-n) {
				old.Close()
				return 0, c.full(c.m, need)
			}
			if e.own, err = e.fork(t, n, old); err != nil {
				return 0, err
			}
			have = n
			c.exits = append(c.exits, e)
		}
	} else if e.form != nil {
		have = 0
	}
	if have == 0 || upTo-have >= leastRows {
		return 0, c.full(c.m, 0) // a text is not computed again for drafts
	}
	if err := e.own.Truncate(have); err != nil {
		return 0, err
	}
	missing = len(e.tokens) - have
	e.need = e.own.Need(missing, min(rows, engine.MostBack))
	e.running = true // it does not give up its own
	if !e.spare(e.need, missing) {
		e.running = false
		return 0, c.full(c.m, e.need)
	}
	if e.need > 0 {
		e.own.Meter(&e.filled)
		e.need += e.filled.Load()
	}
	c.reserved += e.need
	c.lent++
	return missing, nil
}

// fork is a session for the tokens after the first n of t, in the place of old.
func (e *ExitSession) fork(t *engine.Session, n int, old *engine.Session) (*engine.Session, error) {
	if e.form != nil {
		return t.DraftAt(n, e.form, old)
	}
	return t.ExitAt(n, e.layers, old)
}

// giveBack ends a pass.
func (e *ExitSession) giveBack() {
	c := e.target.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.need > 0 && e.own != nil {
		e.own.Meter(&c.used)
	}
	c.reserved -= e.need
	e.need, e.running = 0, false
	c.lent--
	c.ended.Broadcast()
	c.freed()
}

// detach is the session that computes, which e has no longer; nil: there was none.
func (e *ExitSession) detach() (own *engine.Session) {
	if e != nil && e.own != nil {
		own, e.own = e.own, nil
		c := e.target.c
		c.exits = slices.DeleteFunc(c.exits, func(o *ExitSession) bool { return o == e })
	}
	return own
}

// drop gives up the memory.
func (e *ExitSession) drop() { e.detach().Close() }

// end gives up the memory for good: there is another one, or the session is closed.
func (e *ExitSession) end() {
	if e != nil {
		e.drop()
		e.expect(false)
		e.target.c.kickJoint()
	}
}

// spare makes room for the memory of a pass over so many tokens that nobody needs: that of others like it, and of
// kept sequences that are worth less. The pass is worth its layers' part of what the tokens of a kept sequence are.
func (e *ExitSession) spare(bytes int64, tokens int) bool {
	c := e.target.c
	part := float64(e.layers) / float64(e.target.options.Layers)
	for !c.fits(bytes) && (c.takeExit() ||
		c.prefixes.next() < c.prefixes.floor.worth()+float64(part*c.prefixes.ratio(tokens, bytes)) &&
			c.prefixes.evict(nil)) {
	}
	return c.fits(bytes)
}

// takeExit takes the memory of a session that exits early. It reports false if there is none to take.
func (c *Scheduler) takeExit() bool {
	for _, e := range c.exits {
		if !e.running {
			e.drop()
			return true
		}
	}
	return false
}
