package panels

import (
	"context"
	"slices"
)

// expert is the matrices of one expert of a layer, which are read together.
type expert struct {
	parts unit
	slot  *slot // where it is, or is being read to; nil: on disk only
}

// slot is memory for an expert.
type slot struct {
	memory []byte
	expert *expert  // nil: free
	load   *reading // of the expert
	used   int64    // when it was last used, or last expected to be
}

// place gives an expert a slot and begins to read it: a free one, or that of the expert which was used longest ago,
// before the given time. It returns nil if there is none at present.
func (s *Store) place(x *expert, before int64) *slot {
	var best *slot
	for _, t := range s.slots {
		busy := t.load != nil && !t.load.idle()
		if !busy && (t.expert == nil || t.used < before) && (best == nil || t.used < best.used) {
			best = t
		}
	}
	if best == nil {
		return nil
	}
	if best.expert != nil {
		best.load.dropped = true
		best.expert.slot = nil
	}
	best.expert, best.load, x.slot = x, newReading(x.parts, best.memory), best
	s.clock++
	best.used = s.clock
	s.urgent = append(s.urgent, best.load)
	s.work.Broadcast()
	return best
}

// expect tells which experts are used next, in this order: they are read if there is room, and stay if they are there.
func (s *Store) expect(list []*expert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	now := s.clock
	for _, x := range list {
		if x.slot != nil {
			x.slot.used = now
		}
	}
	for _, x := range list {
		if x.slot == nil && s.place(x, now) == nil {
			return
		}
	}
}

// acquireExpert waits until an expert is in memory, and binds those of its matrices that the group names.
// releaseExpert follows, unless there is an error.
func (s *Store) acquireExpert(ctx context.Context, x *expert, group []*weight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.wait(ctx, func() (bool, error) {
		if x.slot == nil && s.place(x, s.clock+1) == nil {
			return false, nil // everything is being read into
		}
		if l := x.slot.load; l.err != nil && l.idle() {
			x.slot.expert, x.slot.load, x.slot = nil, nil, nil // the next pass tries again
			return true, l.err
		}
		return x.slot.load.done == x.slot.load.pieces, nil
	})
	if err != nil {
		return err
	}
	s.clock++
	x.slot.used = s.clock
	for _, m := range group {
		i := slices.Index(x.parts, m)
		if err := m.w.Bind(x.slot.load.at[i][:m.bytes]); err != nil {
			return err
		}
	}
	return nil
}

// releaseExpert gives back what acquireExpert has bound. The expert stays: only the next call of the pass may take
// its slot.
func (s *Store) releaseExpert(group []*weight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range group {
		_ = m.w.Bind(nil)
	}
}
