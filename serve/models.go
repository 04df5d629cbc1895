package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/speculative"
)

// loaded is a model in memory with what requests need of it.
type loaded struct {
	Model
	server  *Server
	name    string
	tok     *bpe.Tokenizer
	context int

	template    *chat.Template // nil: none
	templateErr error          // why not
	source      string         // of the template

	foreign    error                  // why the draft model's vocabulary is another one; nil if it is the same
	target     sequences              // of the target
	draft      sequences              // of the draft model; nil without one
	ends       []int32                // tokens that end a text
	experience speculative.Experience // of schedules and drafters
	vocabulary *grammar.Vocabulary
	since      time.Time // when it was loaded

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
	wanted  int       // requests that wait for memory for it, and have not got it
	since   time.Time // when the first of them came
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

// find is the slot of a name. With one entry any name is its.
func (p *pool) find(name string) (*slot, *Error) {
	if name == "" || len(p.slots) == 1 {
		return p.slots[0], nil
	}
	for _, s := range p.slots {
		if s.Name == name || s.Name+":latest" == name { // Ollama's clients write the tag
			return s, nil
		}
	}
	return nil, noModel(name)
}

// acquire returns a model in memory; release must be called when the request is done.
func (p *pool) acquire(ctx context.Context, name string) (m *loaded, release func(), err error) {
	s, e := p.find(name)
	if e != nil {
		return nil, nil, e
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
			s.wanted--
			p.signal() // requests for other models may have waited for this one
		}
	}()
	for {
		if p.closed {
			return nil, nil, unavailable("the server is shutting down")
		}
		yields := (s.model == nil || !waits) && p.yields(s) // what this request has waited for and got, it takes
		if s.model != nil && !yields {
			s.model.users++
			m := s.model
			return m, sync.OnceFunc(func() { p.release(m) }), nil
		}
		if s.model == nil && !s.loading && !yields {
			room, err := p.room(s)
			if err != nil {
				return nil, nil, err
			}
			if room {
				wait() // until it is this request's
				if err := p.load(ctx, s); err != nil {
					return nil, nil, err
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
			return nil, nil, err
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

func (p *pool) release(m *loaded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users--
	m.lastUsed = p.server.now()
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
	s.model.close()
	s.model = nil
	p.used -= s.Bytes
	p.signal()
}

// load loads a model without holding the lock. It goes on when the client that wanted it leaves: others may want it
// too.
func (p *pool) load(ctx context.Context, s *slot) error {
	s.loading = true
	p.used += s.Bytes
	base := p.server.base
	p.mu.Unlock()
	type result struct {
		m   *loaded
		err error
	}
	done := make(chan result, 1)
	finish := func(r result) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.loading = false
		if r.err != nil {
			p.used -= s.Bytes
		} else if p.closed {
			r.m.close()
		} else {
			s.model = r.m
		}
		p.signal()
		return r.err
	}
	p.server.work.Add(1)
	go func() {
		defer p.server.work.Done()
		m, err := p.server.load(base, s)
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

// load calls an entry's function and prepares what it gives.
func (s *Server) load(ctx context.Context, e *slot) (m *loaded, err error) {
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
	if got == nil || got.Target == nil {
		return nil, errors.New("no model")
	}
	if m, err = s.setUp(e.Name, got); err != nil {
		if got.Close != nil {
			got.Close()
		}
		return nil, err
	}
	s.o.Log.Info("model loaded", "model", e.Name, "seconds", s.now().Sub(begun).Seconds())
	return m, nil
}

// setUp makes what requests need of a model.
func (s *Server) setUp(name string, got *Model) (*loaded, error) {
	m := &loaded{Model: *got, server: s, name: name, tok: got.Target.Tokenizer(), since: s.now()}
	m.lastUsed = m.since
	if m.tok == nil {
		return nil, errors.New("no tokenizer in the file, so no text can be generated")
	}
	m.vocabulary = newVocabulary(m.tok, s.o.Grammars)
	if err := checkSpeculation(got.Speculation); err != nil {
		return nil, err
	}
	m.context = got.Target.Config().Context
	if s.o.Context > 0 {
		m.context = min(m.context, s.o.Context)
	}
	for id := range int32(m.tok.Size()) {
		if m.tok.IsEOG(id) {
			m.ends = append(m.ends, id)
		}
	}
	o := engine.SessionOptions{Context: m.context, KV: s.o.KV, StateBytes: s.o.StateBytes}
	if got.KVBytes < 0 || got.DraftKVBytes < 0 {
		return nil, errors.New("a negative bound of memory")
	}
	sharesCache := got.Draft != nil && got.Draft.Head() != nil && got.Draft.Head().SharesCache
	own := got.Draft // with keys and values of its own
	if sharesCache {
		own = nil
	}
	cache, draftCache := cacheShares(cmp.Or(got.CacheBytes, s.o.CacheBytes, DefaultCacheBytes), got.Target, own, s.o.KV)
	m.target = s.newShared(got.Target, o, cmp.Or(got.KVBytes, s.o.KVBytes), cache)
	if got.Draft != nil {
		own := got.Draft.Tokenizer()
		if own == nil {
			return nil, errors.New("the draft model's file has no tokenizer, so nothing shows what its tokens mean")
		}
		if m.foreign = m.tok.Compatible(own); m.foreign != nil && got.Draft.Head() != nil {
			return nil, fmt.Errorf("the draft head is for another model: %w", m.foreign)
		}
		o.Context = min(m.context, got.Draft.Config().Context)
		if m.foreign != nil {
			o.Context = got.Draft.Config().Context // its tokens are others
		}
		if !sharesCache { // sequences of the others are made for the target's
			m.draft = s.newShared(got.Draft, o, cmp.Or(got.DraftKVBytes, s.o.KVBytes), draftCache)
		}
	}
	source := got.Template
	if source == "" {
		source = got.Target.ChatTemplate()
	}
	if source == "" {
		m.templateErr = &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: "messages", Code: "no_chat_template",
			Message: fmt.Sprintf("messages: %s has no chat template, so how it was trained to converse is unknown; the "+
				"server's --chat-template chooses one", name)}
		return m, nil
	}
	t, err := chat.New(source, chat.Options{BOS: m.tok.Token(m.tok.BOS()), EOS: m.tok.Token(m.tok.EOS())})
	if err != nil {
		s.o.Log.Error("chat template refused", "model", name, "error", err)
		m.templateErr = &Error{Status: http.StatusBadRequest, Type: typeInvalid, Param: "messages", Code: "no_chat_template",
			Message: fmt.Sprintf("messages: the chat template of %s is not one that this server can execute: %v", name, err)}
		return m, nil
	}
	m.template, m.source = t, source
	return m, nil
}

func (m *loaded) close() {
	m.target.close()
	if m.draft != nil {
		m.draft.close()
	}
	if m.Close != nil {
		m.Close()
	}
}

// loadedNames are the models in memory, for lists and metrics.
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
