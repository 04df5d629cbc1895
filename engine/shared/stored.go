package shared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
)

// Stored says where sequences are kept beyond a Scheduler: for later ones of this process, others, and other
// machines. A sequence that begins is looked for there where memory has less of it; what is found becomes a kept
// sequence, so that [Options].CacheBytes bounds it.
type Stored struct {
	Store promptcache.Store
	// Identity is the model's, and what else decides about all of the Scheduler's sequences: of a draft head, how its
	// target's keys and values are stored.
	Identity string
	// PromptsOnly has what follows prompts not stored: a sequence is stored before the first tokens whose logits are
	// wanted, and otherwise at its end as well.
	PromptsOnly bool
	Failed      func(error) // told of errors of the store, by one goroutine at a time; nil: nobody
}

const (
	mostStoring = 16 // sequences that wait to be stored; further ones are not
	// storePause is how often the time that an entry took passes before the next one, while the model computes.
	storePause = 4
	// storedGain: what memory has is not read from the store again for less than such a part more of it.
	storedGain = 20
)

// storing is what a Scheduler does with its Store.
type storing struct {
	used    *atomic.Int64 // of the ledger: counts what heads have beyond their sequences
	queue   []stored
	writing bool          // a goroutine works on the queue
	stop    func()        // ends what it is writing; nil: nothing
	done    chan struct{} // closed when it has ended
	seat    chan struct{} // of who reads: one at a time
	hurry   chan struct{} // closed: nobody computes any more
}

// stored is a sequence that is to be stored.
type stored struct {
	lineage lineage
	session *engine.Session // a fork
	unread  unread
}

func (w *storing) init(used *atomic.Int64) {
	w.used, w.seat, w.hurry = used, make(chan struct{}, 1), make(chan struct{})
}

// end stores what waits, and waits for that. The caller has c's lock.
func (w *storing) end(c *Scheduler) {
	select {
	case <-w.hurry:
	default:
		close(w.hurry)
	}
	for w.writing {
		done := w.done
		c.mu.Unlock()
		<-done
		c.mu.Lock()
	}
}

// drop gives up what waits to be stored, for its memory; false: nothing does.
func (w *storing) drop() bool {
	for _, x := range w.queue {
		w.close(x)
	}
	some := len(w.queue) > 0
	w.queue = w.queue[:0]
	return some
}

// close gives up a sequence's memory.
func (w *storing) close(x stored) {
	x.session.Close()
	w.used.Add(-x.unread.bytes())
}

// cancel ends what is being stored, so that its memory will be free; false: nothing is.
func (w *storing) cancel() bool {
	if w.stop == nil {
		return false
	}
	w.stop()
	return true
}

// lineageOf is a lineage in the store.
func (c *Scheduler) lineageOf(l lineage) promptcache.Lineage {
	identity := ""
	if c.o.Stored != nil {
		identity = c.o.Stored.Identity
	} else if c.m != nil {
		identity = c.m.Identity()
	}
	x := promptcache.LineageOf(identity, l.options.SessionOptions, l.options.Salt)
	x.Read, x.Before = l.read, l.before
	return x
}

// storePrompt stores the sequence of s, a prompt that has been computed, before s goes on. The caller has the lock.
func (c *Scheduler) storePrompt(s *Session) {
	if !s.prompted || !c.shareable(s) || s.session == nil || s.session.Packed() {
		return
	}
	s.prompted = false
	u := unread{}
	if s.read {
		if n := s.session.Fed(); n == s.session.Len() {
			tokens, states := s.unread()
			u = unread{slices.Clone(tokens), slices.Clone(states)}
		}
	}
	c.store(s.lineage, s.session, u)
}

// store has a session's sequence stored in the background. The caller has the lock.
func (c *Scheduler) store(l lineage, s *engine.Session, u unread) {
	w := &c.stored
	n := s.Len()
	if l.read {
		n = s.Fed()
	}
	if s.Len() < leastShared || len(w.queue) >= mostStoring || c.closed || !c.fits(s.SaveBytes(n)+u.bytes()) {
		return
	}
	fork, err := s.SaveAt(n)
	if err != nil {
		return // there is no memory for it
	}
	w.queue = append(w.queue, stored{l, fork, u})
	w.used.Add(u.bytes())
	if !w.writing {
		w.writing, w.done = true, make(chan struct{})
		go c.write()
	}
}

// write stores what waits, one sequence after the other.
func (c *Scheduler) write() {
	w := &c.stored
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		w.writing = false
		close(w.done)
	}()
	for len(w.queue) > 0 {
		x := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		c.mu.Unlock()
		saved, err := c.save(ctx, c.o.Stored.Store, x)
		w.close(x)
		if err != nil && ctx.Err() == nil && c.o.Stored.Failed != nil {
			c.o.Stored.Failed(err)
		}
		stop()
		c.mu.Lock()
		w.stop = nil
		c.stats.Stored += saved.Bytes
		c.freed()
	}
}

// save stores a sequence.
func (c *Scheduler) save(ctx context.Context, store promptcache.Store, x stored) (saved promptcache.Saved, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.panics.Add(1)
			err = fmt.Errorf("storing a sequence: %w: %v", engine.ErrPanic, v)
		}
	}()
	return promptcache.Save(ctx, paced{store, c}, c.lineageOf(x.lineage), x.session,
		promptcache.Unread{Tokens: x.unread.tokens, States: x.unread.states})
}

// paced is a store whose Put leaves the machine to passes.
type paced struct {
	promptcache.Store
	c *Scheduler
}

func (p paced) Put(ctx context.Context, key promptcache.Key, data []byte) error {
	began := time.Now()
	err := p.Store.Put(ctx, key, data)
	if p.c.busy() {
		select {
		case <-time.After(storePause * time.Since(began)):
		case <-p.c.stored.hurry:
		case <-ctx.Done():
		}
	}
	return err
}

// busy reports whether a pass runs or is about to: none is that waits for memory, which a save may have.
func (c *Scheduler) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running || len(c.pending) > 0 && !c.blocked
}

// Recall looks in [Options].Stored for the beginning of a text that the sequence is about to be fed, which is empty:
// if more of it is there than in memory, that is restored, for the sequence to go on from. ctx ends the wait.
func (s *Session) Recall(ctx context.Context, text []int32) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.tokens) == 0 && !s.read && !c.closed && s.usable() == nil && c.shareable(s) {
		c.recall(ctx, s, text)
	}
}

// errNoRoom says that memory is short: the text is computed.
var errNoRoom = errors.New("no room for a stored sequence")

// recall is Recall, for draft heads too. The caller has the lock, which is given up meanwhile.
func (c *Scheduler) recall(ctx context.Context, s *Session, text []int32) {
	if c.o.Stored == nil || c.o.CacheBytes <= 0 || len(text) < leastShared {
		return
	}
	l, w := s.lineage, &c.stored
	c.mu.Unlock()
	defer c.mu.Lock()
	select { // others may be about to restore the same
	case w.seat <- struct{}{}:
		defer func() { <-w.seat }()
	case <-ctx.Done():
		return
	}
	c.mu.Lock()
	_, _, have := c.find(s, l, text)
	c.mu.Unlock()
	least := have + max(leastShared, have/storedGain)
	if len(text) < least {
		return
	}
	room := loadRoom{c: c, tokens: len(text)}
	defer room.end()
	o := l.options.SessionOptions
	loaded, err := promptcache.Load(ctx, c.o.Stored.Store, c.lineageOf(l), room.open, o, text, least)
	if err != nil || loaded == nil {
		return
	}
	c.mu.Lock()
	n := loaded.Session.Len()
	if c.keepLoaded(&room, l, loaded) {
		c.stats.Restored += int64(n)
	}
	c.mu.Unlock()
	c.o.Kept.settle()
}

// keepLoaded keeps a restored sequence, whose memory counts from then on, and not what was reserved for it; false:
// there is no need for it. The caller has the lock.
func (c *Scheduler) keepLoaded(room *loadRoom, l lineage, loaded *promptcache.Loaded) bool {
	loaded.Session.Meter(&c.used)
	room.release()
	x := &prefix{lineage: l, session: loaded.Session, unread: unread{loaded.Unread.Tokens, loaded.Unread.States}}
	if c.closed || !c.keepPrefix(x) {
		loaded.Session.Close()
		return false
	}
	c.freed()
	return true
}

// loadRoom is the memory for a stored sequence of so many tokens at most: what it may allocate is reserved from open to
// end, so that nobody else takes it meanwhile.
type loadRoom struct {
	c        *Scheduler
	tokens   int
	reserved int64
	filled   atomic.Int64 // of it what the session has allocated, which would count twice if it were in use already
}

// open makes a session for the sequence, if there is memory for it: kept sequences give up theirs.
func (r *loadRoom) open(o engine.SessionOptions) (*engine.Session, error) {
	c := r.c
	s, err := c.m.NewSession(o)
	if err != nil {
		return nil, err
	}
	need := s.Bytes() + s.Need(min(r.tokens, s.Context()), 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.release() // of a session that something was wrong with
	for !c.fits(need) && c.prefixes.evict(nil) {
	}
	if !c.fits(need) || c.closed {
		s.Close()
		return nil, errNoRoom
	}
	r.reserved = need
	c.reserved += need
	c.loads++
	s.Meter(&r.filled)
	return s, nil
}

// release ends the reservation. The caller has the lock.
func (r *loadRoom) release() {
	if r.reserved > 0 {
		r.c.reserved -= r.reserved
		r.c.loads--
		r.reserved = 0
	}
}

// end ends the reservation; passes that waited for it go on.
func (r *loadRoom) end() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.release()
	r.c.freed()
}
