package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec"
)

// loaded is a model in memory.
type loaded struct {
	*spec.Model
	server *Server
	name   string
	path   string
	entry  atomic.Pointer[Entry] // as it is told now
	since  time.Time             // when it was loaded
	slots  *slotTable

	users    int // guarded by the pool
	lastUsed time.Time
}

// pool holds the models: loaded on demand, unloaded when memory is needed and nobody uses them.
type pool struct {
	server *Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a model is loaded, released or unloaded
	slots   []*slot
	used    int64 // bytes of what is loaded or loading
	closed  bool
}

// slot is an entry and its model.
type slot struct {
	Entry
	model   *loaded
	loading bool
	failed  bool // the last load ended with an error
	leaving bool // it is unloaded when nobody uses it
	gone    bool // the model is no longer offered

	begun *context.CancelFunc // of what /models/load has begun, while it loads the model or waits for memory; nil: nothing

	wanted int       // requests that wait for memory for it, and have not got it
	since  time.Time // when the first of them came

	scales []spec.AdapterScale // that /lora-adapters has set; nil: it has set none
}

// patience is how long a request waits for memory that other models' requests hold, until new ones of theirs wait for
// it. Without that end a model in steady use would keep others out for ever; with none at all two models in use would
// take turns request by request.
const patience = 5 * time.Second

func newPool(s *Server) *pool {
	p := &pool{server: s, changed: make(chan struct{})}
	for _, e := range s.o.Models {
		p.slots = append(p.slots, &slot{Entry: e})
	}
	return p
}

// signal wakes those who wait. The lock is held.
func (p *pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// find is the slot of a name. With one entry any name is its. The lock is held.
func (p *pool) find(name string) (*slot, *Error) {
	if len(p.slots) > 0 && (name == "" || len(p.slots) == 1) {
		return p.slots[0], nil
	}
	if s := p.named(name); s != nil {
		return s, nil
	}
	return nil, noModel(name)
}

// named is the slot that has a name; nil: none. The lock is held.
func (p *pool) named(name string) *slot {
	for _, wanted := range []string{name, strings.TrimSuffix(name, latestTag)} { // Ollama's clients write the tag
		for _, s := range p.slots {
			if s.Name == wanted || slices.Contains(s.Aliases, wanted) {
				return s
			}
		}
	}
	return nil
}

// entries are the models that are offered.
func (p *pool) entries() (list []Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		list = append(list, s.Entry)
	}
	return list
}

// entry is the one that a request's name chooses; nil: none.
func (p *pool) entry(name string) *Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.find(name)
	if err != nil {
		return nil
	}
	e := s.Entry
	return &e
}

// entryNamed is the one that has a name; nil: none.
func (p *pool) entryNamed(name string) *Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.named(name)
	if s == nil {
		return nil
	}
	e := s.Entry
	return &e
}

// put offers a model, in the place of an older one of its name: requests under way finish with what they have. One
// that would be the same in memory stays there.
func (p *pool) put(e Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.slots, func(s *slot) bool { return s.Name == e.Name })
	if at < 0 {
		p.slots = append(p.slots, &slot{Entry: e})
		return
	}
	old := p.slots[at]
	if old.loadsAs(&e) {
		old.tell(e)
		return
	}
	p.slots[at] = &slot{Entry: e}
	p.leave(old)
}

// take offers a model no longer. Requests under way finish.
func (p *pool) take(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.named(name); s != nil {
		p.slots = slices.DeleteFunc(p.slots, func(o *slot) bool { return o == s })
		p.leave(s)
	}
}

// leave unloads a model that is no longer offered when nobody uses it. The lock is held.
func (p *pool) leave(s *slot) {
	s.gone = true
	p.unloadSoon(s)
	p.signal() // who waits for it learns that it is gone
}

// unloadSoon unloads a model now, or when its last user is done; one that is being loaded when it is there. The lock is
// held.
func (p *pool) unloadSoon(s *slot) {
	if s.leaving = s.loading || s.model != nil && s.model.users > 0; !s.leaving && s.model != nil {
		p.unload(s)
	}
}

// unloadNamed unloads a model, see unloadSoon, and ends what /models/load has begun.
func (p *pool) unloadNamed(name string) *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.find(name)
	if err != nil {
		return err
	}
	if s.begun != nil {
		(*s.begun)()
		s.begun = nil
	}
	p.unloadSoon(s)
	return nil
}

// look has the store asked for a model of a name that none has, also where there is one model, whose any name is.
func (p *pool) look(name string) {
	if name != "" && p.entryNamed(name) == nil {
		p.server.refreshed()
	}
}

// errReplaced says that a model that a request waited for has become another one of its name.
var errReplaced = errors.New("the model was replaced")

// acquire returns a model in memory; release must be called when the request is done.
func (p *pool) acquire(ctx context.Context, name string) (m *loaded, release func(), err error) {
	for {
		if m, release, name, err = p.acquireOnce(ctx, name); err != errReplaced {
			return m, release, err
		}
	}
}

// acquireOnce is acquire, with errReplaced and the name of the model where that was replaced meanwhile.
func (p *pool) acquireOnce(ctx context.Context, name string) (m *loaded, release func(), of string, err error) {
	p.look(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s, e := p.find(name)
	if e != nil {
		return nil, nil, "", e
	}
	waits := false // for memory, or for the model to be loaded by this request
	wait := func() {
		if waits {
			return
		}
		waits = true
		if s.wanted++; s.wanted == 1 {
			s.since = p.server.now()
		}
	}
	defer func() {
		if waits {
			if s.wanted--; s.leaving && s.wanted == 0 {
				p.unloadSoon(s) // it came, and this request had left
			}
			p.signal() // requests for other models may have waited for this one
		}
	}()
	for {
		if p.closed {
			return nil, nil, "", unavailable("the server is shutting down")
		}
		if s.gone && slices.ContainsFunc(p.slots, func(o *slot) bool { return o.Name == s.Name }) {
			return nil, nil, s.Name, errReplaced
		}
		if s.gone {
			return nil, nil, "", noModel(name)
		}
		yields := (s.model == nil || !waits) && p.yields(s) // what this request has waited for and got, it takes
		if s.model != nil && !yields {
			s.model.users++
			m := s.model
			return m, sync.OnceFunc(func() { p.release(s, m) }), "", nil
		}
		if s.model == nil && !s.loading && !yields {
			if err := ctx.Err(); err != nil { // it was loaded for this request, and unloaded before it had it
				return nil, nil, "", err
			}
			room, err := p.room(s)
			if err != nil {
				return nil, nil, "", err
			}
			if room {
				wait() // until it is this request's
				if err := p.load(ctx, s); err != nil && (!s.gone || ctx.Err() != nil) {
					return nil, nil, "", err
				}
				continue
			}
		}
		if s.model == nil && !s.loading {
			wait()
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, nil, "", err
		}
	}
}

// yields reports whether a new request for a model has to wait because requests for another have waited for memory
// for long.
func (p *pool) yields(s *slot) bool {
	for _, o := range p.slots {
		if o != s && o.model == nil && !o.loading && o.wanted > 0 && p.server.now().Sub(o.since) >= patience &&
			(s.wanted == 0 || o.since.Before(s.since)) {
			return true
		}
	}
	return false
}

func (p *pool) release(s *slot, m *loaded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users--
	m.lastUsed = p.server.now()
	if s.leaving {
		p.unloadSoon(s)
	}
	p.signal()
}

// room makes room for a model by unloading idle ones. It reports false if others must finish before.
func (p *pool) room(s *slot) (bool, error) {
	budget := p.server.o.Memory
	if budget == 0 {
		return true, nil
	}
	if s.Bytes > budget {
		return false, unavailable("model: %s needs %d bytes of memory, this server has a budget of %d", s.Name, s.Bytes,
			budget)
	}
	for p.used+s.Bytes > budget {
		var oldest *slot
		for _, o := range p.slots {
			if o.model != nil && o.model.users == 0 && o.wanted == 0 &&
				(oldest == nil || o.model.lastUsed.Before(oldest.model.lastUsed)) {
				oldest = o
			}
		}
		if oldest == nil {
			return false, nil
		}
		p.unload(oldest)
	}
	return true, nil
}

func (p *pool) unload(s *slot) {
	p.server.o.Log.Info("model unloaded", "model", s.Name)
	s.model.Close()
	s.model = nil
	p.used -= s.Bytes
	p.signal()
}

// load loads a model without holding the lock. It goes on when the client that wanted it leaves: others may want it
// too.
func (p *pool) load(ctx context.Context, s *slot) error {
	s.loading = true
	p.used += s.Bytes
	base, entry := p.server.base, s.Entry
	p.mu.Unlock()
	type result struct {
		m   *loaded
		err error
	}
	done := make(chan result, 1)
	finish := func(r result) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.loading, s.failed = false, r.err != nil
		if r.err != nil {
			p.used -= s.Bytes
			s.leaving = false
		} else if p.closed || s.gone {
			p.used -= s.Bytes
			r.m.Close()
		} else {
			s.model = r.m
			s.tell(s.Entry) // which may have changed meanwhile
			if s.leaving && s.wanted == 0 {
				p.unloadSoon(s)
			}
		}
		p.signal()
		return r.err
	}
	p.server.work.Add(1)
	go func() {
		defer p.server.work.Done()
		m, err := p.server.load(base, s, &entry)
		done <- result{m, finish(result{m, err})}
	}()
	var err error
	select {
	case r := <-done:
		err = r.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	return err
}

// load calls the function of a slot's entry and prepares what it gives.
func (s *Server) load(ctx context.Context, of *slot, e *Entry) (m *loaded, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %v", x)
		}
		if err != nil && ctx.Err() == nil {
			s.o.Log.Error("model not loaded", "model", e.Name, "error", err)
			err = &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Param: "model", Code: "model_not_loaded",
				Cause:   err,
				Message: fmt.Sprintf("model: %s could not be loaded; the server's log says why", e.Name)}
		}
	}()
	begun := s.now()
	got, err := e.Load(ctx)
	if err != nil {
		return nil, err
	}
	if got == nil {
		return nil, errors.New("no model")
	}
	if c := got.Speculation(); c.Max > MaxDraft || c.Min > MaxDraft {
		got.Close()
		return nil, fmt.Errorf("draft lengths go from 0 to %d", MaxDraft)
	}
	if scales := s.models.scalesOf(of); scales != nil {
		if err := got.SetAdapters(scales); err != nil {
			got.Close()
			return nil, err
		}
	}
	got.OnPanic(s.panicked)
	if _, err := got.Template(); err != nil && !errors.Is(err, spec.ErrNoTemplate) {
		s.o.Log.Error("chat template refused", "model", e.Name, "error", err)
	}
	m = &loaded{Model: got, server: s, name: e.Name, path: e.Path, since: s.now(),
		slots: newSlotTable(s.o.Parallel)}
	m.lastUsed = m.since
	s.o.Log.Info("model loaded", "model", e.Name, "seconds", s.now().Sub(begun).Seconds())
	return m, nil
}

// setScales keeps the scales of a model's adapters for when it is loaded again.
func (p *pool) setScales(m *loaded, scales []spec.AdapterScale) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slots {
		if s.model == m {
			s.scales = scales
		}
	}
}

func (p *pool) scalesOf(s *slot) []spec.AdapterScale {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.scales
}

// resident are the models in memory, for lists and metrics.
func (p *pool) resident() []*loaded {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*loaded
	for _, s := range p.slots {
		if s.model != nil {
			list = append(list, s.model)
		}
	}
	return list
}

// close unloads everything. No request is under way.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.slots {
		if s.model != nil {
			p.unload(s)
		}
	}
	p.signal()
}
