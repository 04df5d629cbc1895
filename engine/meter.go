package engine

import (
	"slices"
	"sync/atomic"

	"github.com/specgo/spec/engine/internal/recurrent"
	"github.com/specgo/spec/tensor"
)

// meter is where a session's memory is counted.
type meter struct {
	used    *atomic.Int64 // see Session.Meter; nil: none
	counted int64         // bytes of the recurrent layers in it

	kept        *atomic.Int64 // see Session.Keep; nil: none
	keptCounted int64         // likewise
}

// Meter counts in used the bytes of keys and values that the session allocates from now on, those that an earlier Meter
// has counted and no fork shares, and those of its recurrent layers as of the last count. Forks inherit it.
func (s *Session) Meter(used *atomic.Int64) {
	for _, kv := range s.kv {
		if kv != nil {
			kv.Meter(used)
		}
	}
	if s.input != nil {
		s.input.kv.Meter(used)
	}
	if s.used != nil {
		s.used.Add(-s.counted)
	}
	s.used, s.counted = used, 0
	s.count()
}

// Keep counts the session's memory in kept until the session is closed or Keep is called again, as memory of a sequence
// that is kept for others: nil ends that. Pages of keys and values that several such sessions share count once.
func (s *Session) Keep(kept *atomic.Int64) {
	for _, kv := range s.kv {
		if kv != nil {
			kv.Keep(kept)
		}
	}
	if s.input != nil {
		s.input.kv.Keep(kept)
	}
	if s.kept != nil {
		s.kept.Add(-s.keptCounted)
	}
	s.kept, s.keptCounted = kept, 0
	s.count()
}

// count brings the counts of the recurrent layers' bytes up to date. Passes, forks and Close change it. A point that
// forks share counts for each of them.
func (s *Session) count() {
	n := int64(0)
	if s.rec != nil {
		n = s.rec.Bytes()
	}
	if s.used != nil {
		s.used.Add(n - s.counted)
		s.counted = n
	}
	if s.kept != nil {
		s.kept.Add(n - s.keptCounted)
		s.keptCounted = n
	}
}

// count brings the counts of a batch's sessions up to date after a pass.
func (m *Model) count(b Batch) {
	for i := range b {
		if s := b[i].Session; s != nil && s.m == m {
			s.count()
		}
	}
}

// Held is the bytes of the pages of keys and values that have a position from n on, and of the recurrent layers. From 0
// on it is all of them, with those of the encoder's input.
func (s *Session) Held(n int) (bytes int64) {
	if s.input != nil && n <= 0 {
		bytes = s.input.kv.Held(0)
	}
	for _, kv := range s.kv {
		if kv != nil {
			bytes += kv.Held(n)
		}
	}
	if s.rec != nil {
		bytes += s.rec.Bytes()
	}
	return bytes
}

// Packed reports whether keys and values are packed since Shrink: another session cannot look at them before the next
// pass of this one.
func (s *Session) Packed() bool {
	return slices.ContainsFunc(s.kv, func(kv *tensor.KV) bool { return kv != nil && kv.Packed() })
}

// Shrink frees the memory that what can be restored of the sequence does not need: pages that hold none of its tokens,
// the rest of a last one that holds few, and what is kept ready for passes to come: the last pass's logits too, which
// stay with who has them. It drops a waiting tree.
func (s *Session) Shrink() {
	s.answer = answer{}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	n := s.Restorable(len(s.tokens))
	s.rewind(n)
	for _, kv := range s.kv {
		if kv != nil {
			kv.Shrink(n)
		}
	}
	if s.rec != nil {
		s.rec.Shrink()
	}
	s.count()
}

// Thin frees the memory by which recurrent layers can go back far: what they compute stays the same, but a cut that the
// last states do not reach has the sequence computed from its beginning.
func (s *Session) Thin() {
	if s.rec != nil {
		s.rec.Thin()
		s.count()
	}
}

// Share has the pages of keys and values of the first n tokens in common with another session of the model with the
// same options, whose sequence begins with these tokens too: so they hold the same numbers.
func (s *Session) Share(o *Session, n int) {
	for i, kv := range s.kv {
		if kv != nil && o.kv[i] != nil {
			kv.Share(o.kv[i], min(n, s.valid, o.valid))
		}
	}
	if s.input != nil && o.input != nil && slices.Equal(s.input.ids, o.input.ids) {
		s.input.kv.Share(o.input.kv, s.input.kv.Slots())
	}
}

// MostBack is the most tokens at the end of a chain that recurrent layers can go back by at once.
const MostBack = recurrent.MostBack

// Need is the number of bytes that a pass over n more tokens allocates at most. back is the number of them in a tree,
// or at the end of a chain, at most [MostBack], whose logits are wanted: those may be cut back.
func (s *Session) Need(n, back int) (bytes int64) {
	known := s.Restorable(len(s.tokens))
	for _, kv := range s.kv {
		if kv != nil {
			bytes += kv.Need(known, len(s.tokens)+n)
		}
	}
	if s.rec != nil {
		bytes += s.rec.Need(known, len(s.tokens), len(s.tokens)+n, back, passRows)
	}
	return bytes
}

// ForkBytes is the memory that a fork of the first n tokens has of its own at most when it has gone on by one.
func (s *Session) ForkBytes(n int) int64 {
	bytes := s.endBytes(s.layers)
	if s.rec != nil {
		bytes += s.rec.ForkBytes(n, s.layers)
	}
	return bytes
}

// SaveBytes is the memory that SaveAt takes at most.
func (s *Session) SaveBytes(n int) (bytes int64) {
	if n%KVPage > 0 {
		bytes = s.endBytes(s.layers)
	}
	if s.rec != nil {
		bytes += s.rec.ForkSavedBytes(n)
	}
	return bytes
}

// DraftBytes is the memory that [Session.DraftAt], or ExitAt after so many layers, takes at most beyond that of old.
func (s *Session) DraftBytes(n, layers int, old *Session) (bytes int64) {
	if n%KVPage > 0 {
		bytes = s.endBytes(layers)
	}
	if s.rec != nil {
		bytes += s.rec.ForkBytes(n, layers)
	}
	if old != nil {
		for _, kv := range old.kv {
			if kv != nil {
				bytes -= kv.Unshared()
			}
		}
		if old.rec != nil {
			bytes -= old.rec.Bytes()
		}
	}
	return max(0, bytes)
}

// endBytes is the memory of a page of each cache, with the first layers of the model.
func (s *Session) endBytes(layers int) (bytes int64) {
	for i, kv := range s.kv {
		if kv != nil {
			shape := kv.Shape()
			shape.Layers = s.m.caches[i].upTo(layers)
			bytes += KVPage * shape.SlotBytes()
		}
	}
	return bytes
}
