package engine

import (
	"fmt"
	"slices"
)

// Saved sessions: what a session keeps of its tokens as bytes that are the same on every machine and with every
// kernel set, and the way back. Package promptcache makes entries of a store of them. The bytes belong to the model,
// its weights as they were converted, the session's options and the tokens; nothing in them says so.

// SavedCache is what a session has of one of its model's caches of keys and values.
type SavedCache struct {
	Window   int   // a token sees so many positions, itself included; 0: all
	Position int64 // bytes of a position; 0: the session computes no layer of the cache

	First, End int // the positions that it holds: First … End-1
}

// From is the first position that a cache with such a window has to hold for a sequence of n tokens to be restored:
// that of the page with the first position that the next token sees.
func (c SavedCache) From(n int) int {
	if c.Window > 0 {
		return max(0, n+1-c.Window) / KVPage * KVPage
	}
	return 0
}

// SavedCaches describes all caches of the model, in its order.
func (s *Session) SavedCaches() []SavedCache {
	list := make([]SavedCache, len(s.kv))
	for i, kv := range s.kv {
		if list[i].Window = s.m.caches[i].window; kv != nil {
			shape := kv.Shape()
			list[i].Position = shape.SlotBytes()
			list[i].First, list[i].End = kv.First(), min(s.valid, kv.Slots())
		}
	}
	return list
}

// SaveKV appends to dst the keys and values of positions from … to-1 of cache i, which the session holds. What a draft
// form in fewer bits has computed is not saved.
func (s *Session) SaveKV(dst []byte, i, from, to int) ([]byte, error) {
	if i < 0 || i >= len(s.kv) || s.kv[i] == nil || to > s.valid || !s.form.SameBits() {
		return dst, fmt.Errorf("%s: %w: positions %d to %d of cache %d, the session has %d in %d caches", s.m.name, ErrUsage,
			from, to, i, s.valid, len(s.kv))
	}
	return s.kv[i].Export(dst, from, to)
}

// StatesSaved lists the numbers of tokens, ascending, that the states of the recurrent layers are known after, of the
// beginning of the sequence. The list is empty where there are no such layers.
func (s *Session) StatesSaved() []int {
	if s.rec == nil {
		return nil
	}
	list := s.rec.Saved()
	return slices.DeleteFunc(list, func(n int) bool { return n > s.valid })
}

// SavedStates is what a session has of its recurrent layers.
type SavedStates struct {
	Bytes int // of their states after a number of tokens; 0: it computes no such layer
	Most  int // of Restored.Earlier that it keeps
}

// SavedStates describes the states of the session's recurrent layers.
func (s *Session) SavedStates() SavedStates {
	if s.rec == nil {
		return SavedStates{}
	}
	return SavedStates{s.rec.SavedBytes(), s.rec.MostPoints()}
}

// SaveState appends to dst the states of the recurrent layers after n tokens, one of StatesSaved.
func (s *Session) SaveState(dst []byte, n int) ([]byte, error) {
	if s.rec == nil || n > s.valid || !s.form.SameBits() {
		return dst, fmt.Errorf("%s: %w: states after %d tokens", s.m.name, ErrUsage, n)
	}
	dst, err := s.rec.Save(dst, n)
	if err != nil {
		return dst, fmt.Errorf("%s: %w: %w", s.m.name, ErrUsage, err)
	}
	return dst, nil
}

// Restored is what an empty session is restored from.
type Restored struct {
	Tokens []int32
	Fed    int // of a draft head: tokens that went in with the target's states

	// KV returns the bytes of SaveKV. It is asked for the positions from SavedCache.From, or First, on, in parts that
	// end at multiples of Step, one cache after the other. The bytes are not used after the next call.
	KV   func(cache, from, to int) ([]byte, error)
	Step int

	State []byte // of SaveState after all tokens; of a model without recurrent layers nothing

	// Earlier are states after fewer tokens, ascending: points that the session can go back to, as far as its
	// StateBytes allow, the last ones first.
	Earlier []SavedState
	// First, if it is not nil, has for each cache with a window the position to begin at: a multiple of KVPage, at most
	// that of SavedCache.From, so that the sequence can be cut to lengths before its end.
	First []int
}

// SavedState is the states of the recurrent layers after so many tokens, as SaveState gives them.
type SavedState struct {
	Tokens int
	Bytes  []byte
}

// from is the position that a cache begins at.
func (r *Restored) from(i int, c SavedCache) int {
	from := c.From(len(r.Tokens))
	if r.First == nil || c.Window == 0 {
		return from
	}
	return min(from, max(0, r.First[i])/KVPage*KVPage)
}

// Restore has an empty session hold a sequence that another one has computed, of the same model with the same
// options, bit for bit. After an error the session is empty.
func (s *Session) Restore(r Restored) (err error) {
	n := len(r.Tokens)
	switch {
	case s.closed:
		return fmt.Errorf("%s: session: %w", s.m.name, ErrClosed)
	case len(s.tokens) > 0 || s.noCache || s.lender != nil || s.input != nil:
		return fmt.Errorf("%s: %w: only an empty session of its own is restored", s.m.name, ErrUsage)
	case n > s.context:
		return fmt.Errorf("%s: %w: %d tokens, room for %d", s.m.name, ErrContextFull, n, s.context)
	case n < 1 || r.Step < 1 || r.Fed < 0 || r.Fed > n || (s.rec != nil) != (len(r.State) > 0) ||
		r.First != nil && len(r.First) != len(s.kv) || s.rec == nil && r.Earlier != nil:
		return fmt.Errorf("%s: %w: %d tokens, %d of them fed, in steps of %d, with %d bytes of states", s.m.name, ErrUsage, n,
			r.Fed, r.Step, len(r.State))
	}
	for _, id := range r.Tokens {
		if id < 0 || int(id) >= s.m.config.Vocab {
			return fmt.Errorf("%s: %w: token %d of a vocabulary of %d", s.m.name, ErrUsage, id, s.m.config.Vocab)
		}
	}
	s.rewind(0) // what is left of a sequence that was cut
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	defer func() {
		if err != nil {
			s.rewind(0)
			for _, kv := range s.kv {
				if kv != nil {
					kv.Reset()
				}
			}
		}
		s.count()
	}()
	for i, kv := range s.kv {
		if kv == nil {
			continue
		}
		from := r.from(i, SavedCache{Window: s.m.caches[i].window})
		kv.Reset()
		if err = kv.Begin(from); err == nil {
			err = kv.Grow(n)
		}
		for from < n && err == nil {
			to := min(n, (from/r.Step+1)*r.Step)
			var part []byte
			if part, err = r.KV(i, from, to); err == nil {
				err = kv.Import(part, from, to)
			}
			from = to
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.m.name, err)
		}
	}
	if s.rec != nil {
		for _, x := range r.Earlier[max(0, len(r.Earlier)-s.rec.MostPoints()):] {
			if err = s.rec.Restore(x.Tokens, x.Bytes); err != nil {
				return fmt.Errorf("%s: %w: %w", s.m.name, ErrUsage, err)
			}
		}
		if err = s.rec.Restore(n, r.State); err != nil {
			return fmt.Errorf("%s: %w: %w", s.m.name, ErrUsage, err)
		}
	}
	s.tokens = append(s.tokens[:0], r.Tokens...)
	s.valid, s.fed = n, r.Fed
	return nil
}
