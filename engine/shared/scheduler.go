package shared

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
)

// Scheduler lets sessions of many goroutines share passes over one model's weights. Each [Session] behaves like a
// [engine.Session] of its own: what shares a pass does not change logits. A target and its draft model each have a
// Scheduler.
//
// A pass starts when every session that is waited for has submitted its tokens, or when the bound Wait has passed. A
// session is waited for from the moment that it is expected to submit until it has done so: from its last result on
// (decoders go on), or from its admission if it waited for that, unless [Session.Announce] says otherwise. One that
// misses the bound is not waited for until it has submitted within the bound of a result again. So a reader that is
// slow, or a decoder that is busy with its drafts, holds up nobody for more than one bound.
//
// Passes run on the goroutines of the sessions that are in them, under the Scheduler's own context: when a caller's
// context ends, the pass goes on and only its own result is dropped. A pass that panics fails its segments with
// [engine.ErrPanic]. A Scheduler without submissions runs nothing.
//
// Long prompts are cut into chunks, one for each pass, so that sessions that generate keep their pace. What the
// beginning of a sequence has in common with another one's, or with one that has ended, is not computed again; see
// [Options].CacheBytes. When the memory budget for keys and values is used up, the youngest sequence gives up its
// memory and is computed again later.
type Scheduler struct {
	m      *engine.Model
	o      Options
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows
	closed bool
	ended  sync.Cond // of a pass, or of a loan
	queue
	ledger
	prefixes prefixes
	joint    joint
	stored   storing
	admissions

	batch    engine.Batch // of the pass that runs
	taken    []*Session   // theirs
	encoding *Session     // whose encoder input it computes beside them; nil: nobody's
	sorting
	steps  passSteps
	cost   *costs.Costs // of passes of its sessions
	worked atomic.Int64 // nanoseconds of passes
	panics atomic.Int64

	stats      Stats
	everywhere bool // sequences of the model can be cut back to any length: no windows, no recurrent layers, no head

	prepare func(engine.Batch) time.Duration // tests: called before each pass; what it takes longer for that
}

// sorting is memory for putting a pass together.
type sorting struct {
	order  []*Session // pending ones
	wanted []int32    // the tokens of one of them
}

// Options configure a [Scheduler]. The zero value is a good choice but for limits, of which it has none.
type Options struct {
	// Wait is how long a pass waits at most for sessions that are expected. 0 is the mean time of a pass, within
	// minWait and maxWait: to wait longer costs more than the pass that it may save. A negative Wait is none.
	Wait time.Duration

	// Delay is how much longer than without it a pass may take for chunks of long prompts while others generate, in passes
	// without a chunk; 0 is 2. It is aimed at by measured times.
	Delay float64

	Sessions int   // most sessions at a time; further ones wait in NewSession. 0: any number
	KVBytes  int64 // most memory for keys, values and recurrent state of all sessions and kept prefixes; 0: any amount

	// CacheBytes is the most memory of sequences that are kept when their session is closed, for sessions that begin
	// alike. What is worth least goes first, also where KVBytes needs it: worth is tokens that would have to be computed
	// again for each byte, and age. 0 is KVBytes, and none without; a negative number is none, and then sequences of open
	// sessions are not shared either.
	CacheBytes int64

	// Kept bounds what this Scheduler keeps beside others; nil: CacheBytes does by itself. Work is then what computing a
	// token takes against the others' tokens, which are worth so much more or less; 0 is 1.
	Kept *Kept
	Work float64

	// Stored is where sequences are kept beyond the Scheduler; nil: nowhere.
	Stored *Stored

	// Panicked, if set, is told the value and the stack of a panic in a pass.
	Panicked func(value any, stack []byte)
}

const (
	minWait      = time.Millisecond
	maxWait      = 100 * time.Millisecond
	defaultDelay = 2
)

// Stats count since the Scheduler was made; the second group says how things are now.
type Stats struct {
	Passes       int64         // over the weights
	Segments     int64         // parts of sessions in them
	Tokens       int64         // computed, prompts included
	PromptTokens int64         // those that were fed without wanting logits of them
	PassTime     time.Duration // of all passes
	Late         int64         // times that a session missed the bound
	PrefixHits   int64         // times that a sequence went on from another's state
	PrefixTokens int64         // tokens that were not computed for that reason
	Restored     int64         // tokens of sequences that came from Options.Stored
	Stored       int64         // bytes that went there
	Evictions    int64         // kept sequences that were dropped for memory
	Evicted      int64         // tokens of kept sequences that were dropped for memory
	Preemptions  int64         // times that a sequence gave up its memory
	Recomputed   int64         // tokens that were computed again for that reason
	Cancelled    int64         // results that nobody waited for
	Panics       int64         // passes

	Sessions    int   // open
	Waiting     int   // NewSession calls that wait
	Queued      int   // sessions that have submitted and wait for their result
	Prefixes    int   // sequences that are kept
	CacheBytes  int64 // memory of theirs: what several share counts once
	CacheBudget int64 // Options.CacheBytes
	KVBytes     int64 // memory of keys, values and recurrent state, also of those
	KVBudget    int64 // Options.KVBytes
}

// SessionOptions configure a [Session].
type SessionOptions struct {
	engine.SessionOptions

	// Salt separates sequences: only those with equal salts go on from what others have computed, so that nobody
	// learns from the time that it takes what was asked under another salt. What a draft head computes of a text follows
	// from its target's states: where the target has adapters, the salt of the head's sequence should have the Key of
	// their set, so that a head's sequences do not go on from those of another set.
	Salt string
}

// New makes a Scheduler. Its sessions fail if m is nil.
func New(m *engine.Model, o Options) *Scheduler {
	if o.Delay <= 0 {
		o.Delay = defaultDelay
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = o.KVBytes
	}
	c := &Scheduler{m: m, o: o, cost: &costs.Costs{}}
	c.budget = o.KVBytes
	c.prefixes = prefixes{budget: o.CacheBytes, used: &c.used, roots: map[lineage]*node{}, floor: &floor{}, work: 1}
	if o.Work > 0 {
		c.prefixes.work = o.Work
	}
	if o.Kept != nil {
		c.prefixes.floor = &o.Kept.floor
		o.Kept.join(c)
	}
	c.everywhere = m != nil && m.Head() == nil && m.Describe().Everywhere()
	if c.most = engine.PassRows; m != nil {
		c.most = max(c.most, m.Memory().Rows)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.ended.L = &c.mu
	c.steps.build, c.steps.settle = c.build, c.settle
	c.stored.init(&c.used)
	c.timer = time.AfterFunc(time.Hour, c.bound)
	c.timer.Stop()
	c.joint.init(c)
	return c
}

// admissions are NewSession calls.
type admissions struct {
	waiting []*admission // in order
	serial  uint64       // of sessions
	awaits  uint64       // calls of Session.Await
}

// admission is a NewSession that waits.
type admission struct {
	session *Session // has a serial once it is open
	ready   chan struct{}
}

// NewSession begins an empty sequence, which belongs to one goroutine at a time. It waits until there is room: less
// than Options.Sessions sessions, and memory for a first page without taking it from another session. One that has
// waited is expected to submit, so that it joins the first pass after its place became free.
func (c *Scheduler) NewSession(ctx context.Context, o SessionOptions) (*Session, error) {
	if c.m == nil {
		return nil, fmt.Errorf("%w: no model", engine.ErrUsage)
	}
	s, err := c.newShared(o)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	came := c.came()
	if len(c.waiting) > 0 || !c.room() {
		if came { // it is announced when it has its place
			c.kick()
		}
		a := &admission{s, make(chan struct{})}
		c.waiting = append(c.waiting, a)
		c.mu.Unlock()
		select {
		case <-a.ready:
		case <-ctx.Done():
		}
		c.mu.Lock()
		switch {
		case s.state == closed:
			return nil, c.errClosed()
		case s.serial == 0:
			c.waiting = slices.DeleteFunc(c.waiting, func(w *admission) bool { return w == a })
			c.admit()
			if c.closed {
				return nil, c.errClosed()
			}
			return nil, ctx.Err()
		}
		return s, nil
	}
	if c.closed {
		return nil, c.errClosed()
	}
	if c.open(s); came {
		s.expectAt = c.now()
		c.enter(s, announced)
	}
	return s, nil
}

// Expect announces a sequence that another one makes room for: passes wait for its first submission from now on, as
// for those of open sessions, and not only from its NewSession on, which is to follow at once. Whoever hands places
// out calls it while the one whose place it is has not ended: so the first tokens of the next are in the next pass.
func (c *Scheduler) Expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.coming++
		c.missing++
	}
}

// open takes a session in.
func (c *Scheduler) open(s *Session) {
	c.serial++
	s.serial, c.cost = c.serial, s.costs
	c.sessions = append(c.sessions, s)
}

// newShared makes a session and checks its options. All sessions of the engine get the model's context, so that a
// sequence can go on from the state of any other; the memory comes as it is needed.
func (c *Scheduler) newShared(o SessionOptions) (*Session, error) {
	if c.m.Encodes() && c.o.Stored != nil {
		return nil, c.unsaved()
	}
	if h := c.m.Head(); h != nil && h.SharesCache {
		const refused = "%s: %w: shared passes of a draft head that looks at its target's cache (%s; see NewLentSession)"
		return nil, fmt.Errorf(refused, c.m.Name(), engine.ErrUnsupported, c.m.Config().Architecture)
	}
	if !o.Form.SameBits() { // a text is not read by it
		return nil, fmt.Errorf("%s: %w: shared passes of a draft form but for drafts ([Session.Draft])", c.m.Name(),
			engine.ErrUsage)
	}
	session, err := c.m.NewSession(o.SessionOptions)
	if err != nil {
		return nil, err
	}
	s := &Session{c: c, context: session.Context(), wake: make(chan struct{}, 1), costs: session.Costs()}
	s.lineage = lineage{options: o, before: -1}
	c.mu.Lock()
	if c.empty == 0 {
		c.empty = session.Bytes() + session.Need(1, 1)
	}
	c.mu.Unlock()
	session.Close()
	s.options.Context, s.options.Layers = 0, session.Layers()
	return s, nil
}

// Stats are the counts so far.
func (c *Scheduler) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Sessions, s.Waiting, s.Queued, s.Prefixes = len(c.sessions), len(c.waiting), len(c.pending), len(c.prefixes.kept)
	s.Panics = c.panics.Load()
	s.Evictions, s.Evicted = c.prefixes.evicted.sequences, c.prefixes.evicted.tokens
	s.CacheBytes, s.CacheBudget = c.prefixes.bytes.Load(), max(c.o.CacheBytes, 0)
	s.KVBytes, s.KVBudget = c.used.Load()+c.filled.Load(), c.budget
	for _, e := range c.exits {
		s.KVBytes += e.filled.Load()
	}
	return s
}

// Model is the model whose weights the sessions share.
func (c *Scheduler) Model() *engine.Model { return c.m }

// Close ends the pass that runs, closes all sessions and frees what was kept. It waits for what is to be stored. Calls
// that wait, and later ones, fail with engine.ErrClosed.
func (c *Scheduler) Close() {
	if c == nil {
		return
	}
	defer c.o.Kept.leave(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.cancel()
	c.disarm()
	for _, a := range c.waiting {
		close(a.ready)
	}
	c.waiting = nil
	c.kickJoint()
	for c.running || c.lent > 0 {
		c.ended.Wait()
	}
	for len(c.pending) > 0 {
		c.pending[0].complete(engine.Result{}, c.errClosed())
	}
	for len(c.sessions) > 0 {
		s := c.sessions[0]
		c.enter(s, closed)
		s.tell() // it may wait for others
		s.exit.end()
		s.drop()
	}
	c.stored.end(c)
	for len(c.prefixes.kept) > 0 {
		c.prefixes.drop(c.prefixes.kept[0])
	}
}

// errClosed is the error of what is asked for behind Close.
func (c *Scheduler) errClosed() error {
	return fmt.Errorf("%s: scheduler: %w", c.m.Name(), engine.ErrClosed)
}
