package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
)

// Sequences that are saved and restored on request: beside [Options].Stored, where a Scheduler keeps them by itself.

// ErrNotKept is wrapped by errors of Load where a Scheduler keeps no sequences.
var ErrNotKept = errors.New("no memory for kept sequences")

// Lineage is what sequences with such options have in common in a store.
func (c *Scheduler) Lineage(o SessionOptions) (promptcache.Lineage, error) {
	l, err := c.lineage(o)
	return c.lineageOf(l), err
}

// unsaved is the error about sequences of encoder-decoder models in a store: what the encoder made of their input is
// not in it.
func (c *Scheduler) unsaved() error {
	return fmt.Errorf("%s: %w: stored sequences of an encoder-decoder model (%s)", c.m.Name(), engine.ErrUnsupported,
		c.m.Config().Architecture)
}

// lineage is that of a session with such options.
func (c *Scheduler) lineage(o SessionOptions) (lineage, error) {
	if c.m == nil {
		return lineage{}, fmt.Errorf("%w: no model", engine.ErrUsage)
	}
	if c.m.Encodes() {
		return lineage{}, c.unsaved()
	}
	s, err := c.newShared(o)
	if err != nil {
		return lineage{}, err
	}
	return s.lineage, nil
}

// reads is the lineage and the tokens of what a Scheduler's sequences hold of a text: those of a draft head have read
// it, from its second token on where the head has no first one.
func (c *Scheduler) reads(l lineage, text []int32) (lineage, []int32) {
	h := c.m.Head()
	if h == nil || len(text) == 0 {
		return l, text
	}
	if l.read, l.before = true, -1; !h.FirstToken {
		l.before, text = text[0], text[1:]
	}
	return l, text
}

// Save stores the sequence in a store, as far as that does not have it. The next Eval of the session may come
// meanwhile. It wraps [engine.ErrKVBudget] while the session has given up its memory.
func (s *Session) Save(ctx context.Context, store promptcache.Store) (promptcache.Saved, error) {
	c := s.c
	if c.m.Encodes() {
		return promptcache.Saved{}, c.unsaved()
	}
	c.mu.Lock()
	if err := s.usable(); err != nil {
		c.mu.Unlock()
		return promptcache.Saved{}, err
	}
	if s.session == nil || s.session.Len() < len(s.tokens) {
		c.mu.Unlock()
		return promptcache.Saved{}, fmt.Errorf("%s: %w: the sequence has given up its memory", c.m.Name(), engine.ErrKVBudget)
	}
	return c.saveFork(ctx, store, nil, s.lineage, s.session, len(s.tokens), unread{})
}

// SaveKept stores what is kept, or computed by open sessions, of the beginning of a text, in sequences with such
// options: nothing is computed for it. Of a draft head that is what it has read of the target's states.
func (c *Scheduler) SaveKept(ctx context.Context, store promptcache.Store, o SessionOptions, text []int32) (
	promptcache.Saved, error) {
	l, err := c.lineage(o)
	if err != nil {
		return promptcache.Saved{}, err
	}
	l, text = c.reads(l, text)
	c.mu.Lock()
	from, memory, n := c.find(nil, l, text)
	if memory == nil || n == 0 || c.closed {
		c.mu.Unlock()
		return promptcache.Saved{}, nil
	}
	u := unread{}
	if from != nil && n == memory.Len() {
		u = unread{slices.Clone(from.tokens), slices.Clone(from.states)}
	}
	return c.saveFork(ctx, store, from, l, memory, n, u)
}

// saveFork stores n tokens of a session, which is that of a kept sequence unless from is nil; others that are kept give
// up their memory for the copy. The caller has the lock, which is given up.
func (c *Scheduler) saveFork(ctx context.Context, store promptcache.Store, from *prefix, l lineage, s *engine.Session,
	n int, u unread) (promptcache.Saved, error) {
	need := s.SaveBytes(n) + u.bytes()
	for !c.fits(need) && c.prefixes.evict(from) {
	}
	if !c.fits(need) {
		defer c.mu.Unlock()
		return promptcache.Saved{}, c.full(c.m, need)
	}
	fork, err := s.SaveAt(n)
	if err != nil {
		c.mu.Unlock()
		return promptcache.Saved{}, err
	}
	c.copies++
	c.used.Add(u.bytes())
	c.mu.Unlock()
	defer func() {
		fork.Close()
		c.used.Add(-u.bytes())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.copies--
		c.freed()
	}()
	return c.save(ctx, store, stored{l, fork, u})
}

// Load restores what a store has of the beginning of a text, at least least tokens, as a kept sequence, for sessions
// with such options to go on from, with all points to which it can be cut back. n is how much of the text that is, 0
// where the store has less, and read the bytes that were read. The error wraps ErrNotKept, or [engine.ErrKVBudget]
// where there is no memory for it.
func (c *Scheduler) Load(ctx context.Context, store promptcache.Store, o SessionOptions, text []int32, least int) (
	n int, read int64, err error) {
	if c.o.CacheBytes <= 0 || o.NoCache {
		return 0, 0, fmt.Errorf("%s: %w", c.m.Name(), ErrNotKept)
	}
	l, err := c.lineage(o)
	if err != nil {
		return 0, 0, err
	}
	all := len(text)
	l, text = c.reads(l, text)
	before := all - len(text) // tokens that a head does not read
	room := loadRoom{c: c, tokens: len(text)}
	defer room.end()
	loaded, err := promptcache.LoadPoints(ctx, store, c.lineageOf(l), room.open, l.options.SessionOptions, text,
		max(least-before, 1))
	switch {
	case errors.Is(err, errNoRoom):
		return 0, 0, fmt.Errorf("%s: %w: no room for %d tokens", c.m.Name(), engine.ErrKVBudget, len(text))
	case err != nil || loaded == nil:
		return 0, 0, err
	}
	n, read = loaded.Session.Len(), loaded.Bytes
	c.mu.Lock()
	c.keepLoaded(&room, l, loaded)
	c.mu.Unlock()
	c.o.Kept.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, _, has := c.find(nil, l, text[:n]); {
	case c.closed:
		return 0, 0, c.errClosed()
	case has < n:
		return 0, 0, fmt.Errorf("%s: %w: kept sequences may not take what %d tokens do", c.m.Name(), engine.ErrKVBudget, n)
	}
	c.stats.Restored += int64(n)
	return n + before, read, nil
}

// Forget gives up what is kept of a text, in sequences with such options, beyond its first rest tokens. Sequences that
// go on behind the text are another's, and stay; so does what open sessions have. Of a draft head that is what it has
// read of the text.
func (c *Scheduler) Forget(o SessionOptions, text []int32, rest int) error {
	l, err := c.lineage(o)
	if err != nil {
		return err
	}
	all := len(text)
	l, text = c.reads(l, text)
	rest = max(0, rest-(all-len(text)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prefixes.forget(l, text, rest)
	c.freed()
	return nil
}

// forget cuts the kept sequences that are beginnings of a text to at most rest tokens of it.
func (p *prefixes) forget(l lineage, text []int32, rest int) {
	root := p.roots[l]
	if root == nil {
		return
	}
	var list []*prefix
	at, n := root.descend(text)
	if n < at.end {
		at = at.parent
	}
	for x := at; x != nil && x.end > rest; x = x.parent {
		if x.kept != nil {
			list = append(list, x.kept)
		}
	}
	for _, o := range list {
		n := o.session.Restorable(rest)
		if _, others := o.at.best(n, o); n < leastShared || others == n { // nothing of it is left, or another has all
			p.drop(o)
		} else {
			p.cut(o, n)
		}
	}
}
