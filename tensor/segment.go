package tensor

import (
	"fmt"

	"github.com/specgo/spec/asm"
)

// AttentionSegment is a run of tokens of one sequence within a pass: new tokens of a prompt, the last token, or a
// draft.
//
// Token j lies in slot Start+j of the cache. In a chain every token sees all before it. In a tree it sees the slots
// before Start, its ancestors and itself; its position is its place on that path, and what comes out is, bit for bit,
// what a chain of that path gives.
type AttentionSegment struct {
	KV      *KV
	Row     int     // of the first token, in q, k, v and out
	Start   int     // slots before it
	Tokens  int     //
	Parents []int32 // tree: each token's parent in the segment, which comes before it, or -1: slot Start-1. nil: a chain

	// Keys, if not 0, says that every token of a chain sees the first Keys slots, whatever its own position Start+j,
	// which only biases depend on: an encoder, or attention to one (Vaswani et al. 2017, arXiv:1706.03762). With a window
	// w > 0 the first slot that it sees is Start+j+1-w; then Keys is at least Start+Tokens, so that each sees itself.
	Keys int
}

// segment is the state of an AttentionSegment during an operation.
type segment struct {
	AttentionSegment
	depths  []int32 // tree: tokens between the prefix and each token; nil: a chain
	first   int     // its first unit
	units   int
	low     int // the first chunk anyone sees
	chunks  int // chunks from low on
	partial int // where its partial results begin; -1: it has none

	from, to int // chunks that its leader computes; none: it has no leader and may be one
	joint    int // of a leader: its tokens and those of its followers
	last     int // of a leader: its last follower; 0: none
	before   int // of a follower: its leader's follower before it; 0: none
}

// common is the run of chunks whose pages both caches hold, of those that end before a token of either.
func (s *segment) common(o *segment) (from, to int) {
	from = max(s.low, o.low)
	for to = from; to < min(s.whole(), o.whole()) && s.KV.pages[to] == o.KV.pages[to]; to++ {
	}
	return from, to
}

// whole is the end of the chunks whose last position every token sees.
func (s *segment) whole() int {
	if s.Keys > 0 {
		return s.Keys / asm.Page
	}
	return s.Start / asm.Page
}

// position of a token on its own path.
func (s *segment) position(t int) int {
	if s.depths == nil {
		return s.Start + t
	}
	return s.Start + int(s.depths[t])
}

// visible is the part of chunk c that token t sees, counted from the chunk's first position.
func (s *segment) visible(t, window, c int) (from, to int) {
	from, to = visible(s.position(t), window, c)
	if s.Keys > 0 {
		to = min(s.Keys-c*asm.Page, asm.Page)
	}
	return from, to
}

// checkSegments checks the segments against each other, the layer and the rows [width] of the buffers.
func checkSegments(segs []AttentionSegment, layer, rows int) error {
	for i := range segs {
		s := &segs[i]
		if s.KV == nil {
			return shapeError("segment %d: no cache", i)
		}
		if s.KV.closed {
			return fmt.Errorf("segment %d: cache: %w", i, ErrClosed)
		}
		a, b := s.KV.shape, segs[0].KV.shape
		switch {
		case layer < 0 || layer >= a.Layers:
			return shapeError("segment %d: layer %d of %d", i, layer, a.Layers)
		case a.Heads != b.Heads || a.HeadDim != b.HeadDim || a.valueDim() != b.valueDim() || a.ValuesInKeys != b.ValuesInKeys:
			return shapeError("segment %d: %d heads of %d and %d beside %d of %d and %d, values in keys %v and %v", i, a.Heads,
				a.HeadDim, a.valueDim(), b.Heads, b.HeadDim, b.valueDim(), a.ValuesInKeys, b.ValuesInKeys)
		case s.Tokens < 1 || s.Row < 0 || s.Row > rows-s.Tokens:
			return shapeError("segment %d: tokens %d+%d of %d", i, s.Row, s.Tokens, rows)
		case s.Keys < 0 || s.Keys > s.KV.Slots() || s.Keys > 0 && s.Parents != nil:
			return shapeError("segment %d: %d keys of %d slots, %d parents", i, s.Keys, s.KV.Slots(), len(s.Parents))
		case s.Start < 0 || s.Keys == 0 && s.Start > s.KV.Slots()-s.Tokens:
			return shapeError("segment %d: slots %d+%d of %d", i, s.Start, s.Tokens, s.KV.Slots())
		case s.Parents != nil && len(s.Parents) != s.Tokens:
			return shapeError("segment %d: %d parents of %d tokens", i, len(s.Parents), s.Tokens)
		}
		for t, p := range s.Parents {
			if p < -1 || int(p) >= t {
				return shapeError("segment %d: parent %d of token %d", i, p, t)
			}
		}
	}
	return nil
}

type storeJob struct {
	layer        int
	keys, values int // of a token
	k, v         []float32
	segs         []AttentionSegment
	unit         func(worker, unit int)
}

// init: a unit is one head of one segment.
func (j *storeJob) init(*Runtime) {
	j.unit = func(_, unit int) {
		heads := j.segs[0].KV.shape.Heads
		s, head := &j.segs[unit/heads], unit%heads
		for t := range s.Tokens {
			row := s.Row + t
			s.KV.storeHead(j.layer, head, s.Start+t, j.k[row*j.keys:][:j.keys], j.v[row*j.values:][:j.values])
		}
	}
}

// StoreKV writes the keys k [token][heads][HeadDim] and values v [token][heads][ValueDim] of a layer, for all tokens
// of all segments, into their slots, no values where they are in the keys. The segments' caches are distinct and have
// room ([KV.Grow]).
func (rt *Runtime) StoreKV(layer int, k, v []float32, segs []AttentionSegment) error {
	if len(segs) == 0 {
		return nil
	}
	if segs[0].KV == nil {
		return shapeError("segment 0: no cache")
	}
	shape := segs[0].KV.shape
	keys, values := shape.Heads*shape.HeadDim, shape.Heads*shape.storedDim()
	if len(k)%keys != 0 || len(k)/keys*values != len(v) {
		return shapeError("%d keys and %d values for rows of %d and %d", len(k), len(v), keys, values)
	}
	if err := checkSegments(segs, layer, len(k)/keys); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range segs {
		if err := segs[i].KV.own(segs[i].Start, segs[i].Start+segs[i].Tokens); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	j := &rt.store
	j.layer, j.keys, j.values, j.k, j.v, j.segs = layer, keys, values, k, v, append(j.segs[:0], segs...)
	rt.pool.run(len(segs)*shape.Heads, j.unit)
	clear(j.segs)
	j.k, j.v = nil, nil
	return nil
}

// visible is the part of chunk c that a token at position pos sees, counted from the chunk's first position.
func visible(pos, window, c int) (from, to int) {
	base := c * asm.Page
	return max(0, lowest(pos, window)-base), min(pos+1-base, asm.Page)
}

// lowest is the first position that a token at position pos sees.
func lowest(pos, window int) int {
	switch {
	case window > 0:
		return max(0, pos+1-window)
	case window < 0:
		return pos - pos%-window
	}
	return 0
}
