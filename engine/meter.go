package engine

import (
	"sync/atomic"

	"github.com/specgo/spec/engine/internal/recurrent"
)

// Meter counts in used the bytes of keys and values that the session allocates from now on, and those of its
// recurrent layers as of the last count. Forks inherit it.
func (s *Session) Meter(used *atomic.Int64) {
	for _, kv := range s.kv {
		if kv != nil {
			kv.Meter(used)
		}
	}
	s.used = used
	s.count()
}

// count brings the counts of a batch's sessions up to date after a pass.
func (m *Model) count(b Batch) {
	for i := range b {
		if s := b[i].Session; s != nil && s.m == m {
			s.count()
		}
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

// ForkBytes is the memory that a fork has of its own at most, before its first pass.
func (s *Session) ForkBytes() int64 {
	if s.rec == nil {
		return 0
	}
	return s.rec.Bytes()
}
