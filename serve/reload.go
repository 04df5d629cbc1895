package serve

import (
	"fmt"
	"slices"
	"time"
)

// Reload takes over other keys and other models while requests are answered; it changes nothing if it fails. Requests
// under way finish with what they have. A key that is there as before keeps its share; a model of the same files and
// Setup as before stays in memory, and one that is no longer listed is unloaded when its last request is done. A server
// that has keys does not lose them all.
func (s *Server) Reload(keys []Key, models []Entry) error {
	if err := checkEntries(models, s.o.Store != nil); err != nil {
		return err
	}
	if err := checkKeys(keys); err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	before := *s.clients.Load()
	if len(before) > 0 && len(keys) == 0 {
		return fmt.Errorf("%w: no keys, where there were some", ErrOptions)
	}
	clients := clientsOf(keys)
	for i, c := range clients {
		if at := slices.IndexFunc(before, c.same); at >= 0 {
			clients[i] = before[at]
		}
	}
	s.clients.Store(&clients)
	s.models.replace(models)
	return nil
}

// Refresh asks the Store which models it has, and offers those. Models that are none of the store's stay.
func (s *Server) Refresh() error {
	if s.o.Store == nil {
		return nil
	}
	s.reloading.Lock() // what another request changes meanwhile is offered or taken behind this
	defer s.reloading.Unlock()
	list, err := s.o.Store.List()
	if err != nil {
		return err
	}
	var all []Entry
	taken := map[string]bool{}
	for _, e := range s.models.entries() {
		if !e.Stored {
			all = append(all, e)
			taken[e.Name] = true
		}
	}
	for _, e := range list {
		if e.Stored = true; !taken[e.Name] {
			all = append(all, e)
		}
	}
	if err := checkEntries(all, true); err != nil {
		return err
	}
	s.models.replace(all)
	return nil
}

// refreshTime is how long lies at least between two looks at the Store that requests cause.
const refreshTime = time.Second

// refreshed has models that came into the Store by themselves offered to a request that looks for them.
func (s *Server) refreshed() {
	now, last := s.now(), s.looked.Load()
	if s.o.Store == nil || last != nil && now.Sub(*last) < refreshTime || !s.looked.CompareAndSwap(last, &now) {
		return
	}
	if err := s.Refresh(); err != nil {
		s.o.Log.Error("models not listed", "error", err)
	}
}

// same reports whether another client has the same key with the same rights.
func (c *client) same(o *client) bool {
	return c.secret == o.secret && c.weight == o.weight && c.admin == o.admin
}

// loadsAs reports whether another entry's model is this one's in memory: of the same files, set up alike. What
// requests choose it by, and what they are answered with where they do not say otherwise, may be another.
func (e *Entry) loadsAs(o *Entry) bool {
	return e.Name == o.Name && e.Path == o.Path && e.Bytes == o.Bytes && e.Modified.Equal(o.Modified) &&
		e.Stored == o.Stored && e.Setup == o.Setup
}

// tell changes what is told of a model that stays in memory. The lock is held.
func (s *slot) tell(e Entry) {
	s.Entry = e
	if s.model != nil {
		s.model.entry.Store(&e)
	}
}

// replace offers these models and no others. Those that would be the same in memory stay there.
func (p *pool) replace(list []Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.slots
	p.slots = nil
	for _, e := range list {
		if at := slices.IndexFunc(before, func(s *slot) bool { return s.loadsAs(&e) }); at >= 0 {
			before[at].tell(e)
			p.slots = append(p.slots, before[at])
			continue
		}
		p.slots = append(p.slots, &slot{Entry: e})
	}
	for _, s := range before {
		if !slices.Contains(p.slots, s) {
			p.leave(s)
		}
	}
}
