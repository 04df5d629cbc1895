package engine

import (
	"fmt"

	"github.com/specgo/spec/tensor"
)

// Layers that keep keys and values of the same shape for the same positions share a cache: the layers without a window one, those
// with a window another. A cache of layers with a window gives up the positions that none of its layers will look at.

// windowSlack is how many positions more than its window a windowed layer keeps, so that a session can be cut back that far without
// recomputing anything. It is more than a draft, and about a question and a short answer.
const windowSlack = 512

// CacheShape is the shape of the keys and values of some of a model's layers.
type CacheShape struct {
	Layers  int // how many
	Window  int // a token sees so many positions, itself included; 0: all
	Heads   int // of keys and values
	HeadDim int
}

// cache is the layers of a model that share a cache.
type cache struct {
	heads, headDim, window int
	layers                 []int // ascending
}

// place finds a place for the keys and values of a layer: which of the model's caches, and which layer of that cache.
func (l *loader) place(layer, heads, headDim, window int) (at, number int) {
	for i := range l.caches {
		if c := &l.caches[i]; c.heads == heads && c.headDim == headDim && c.window == window {
			c.layers = append(c.layers, layer)
			return i, len(c.layers) - 1
		}
	}
	l.caches = append(l.caches, cache{heads, headDim, window, []int{layer}})
	return len(l.caches) - 1, 0
}

// upTo is the number of the cache's layers among the first n of the model.
func (c *cache) upTo(n int) (layers int) {
	for layers < len(c.layers) && c.layers[layers] < n {
		layers++
	}
	return layers
}

// Caches are the keys and values that the first layers of the model keep for every position that they look at. 0 layers are all.
func (m *Model) Caches(layers int) (shapes []CacheShape) {
	if layers == 0 {
		layers = m.config.Layers
	}
	for i := range m.caches {
		c := &m.caches[i]
		if n := c.upTo(layers); n > 0 {
			shapes = append(shapes, CacheShape{Layers: n, Window: c.window, Heads: c.heads, HeadDim: c.headDim})
		}
	}
	return shapes
}

// Bytes is the memory, in bytes, of the keys and values of one position with that storage type.
func (c CacheShape) Bytes(kv string) (int64, error) {
	t, err := tensor.ParseKVType(kv)
	if err != nil {
		return 0, err
	}
	return tensor.KVShape{Layers: c.Layers, Heads: c.Heads, HeadDim: c.HeadDim, Type: t}.SlotBytes(), nil
}

// Most is the most positions that are kept of a text of n tokens, but for the rest of a page of 256.
func (c CacheShape) Most(n int) int {
	if c.Window > 0 {
		return min(n, c.Window+windowSlack)
	}
	return n
}

// newCaches makes the empty caches of a session; one without layers is nil.
func (m *Model) newCaches(layers, context int, kv tensor.KVType) ([]*tensor.KV, error) {
	caches := make([]*tensor.KV, len(m.caches))
	for i := range m.caches {
		c := &m.caches[i]
		n := c.upTo(layers)
		if n == 0 {
			continue
		}
		var err error
		// Branches of a tree take slots beyond the sequence that they continue.
		caches[i], err = tensor.NewKV(tensor.KVShape{Layers: n, Heads: c.heads, HeadDim: c.headDim, Type: kv, Context: context + maxTree})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return caches, nil
}

// reaches reports whether the caches hold what a token at position n looks at.
func (s *Session) reaches(n int) bool {
	for i, kv := range s.kv {
		if kv != nil && n < s.m.caches[i].needs(kv) {
			return false
		}
	}
	return true
}

// needs is the least position of a next token that the cache suffices for.
func (c *cache) needs(kv *tensor.KV) int {
	if kv.First() == 0 {
		return 0
	}
	return kv.First() + c.window - 1
}

// rewind makes n the end of what the caches hold. Those that do not reach back to it start again at 0, which n is then.
func (s *Session) rewind(n int) {
	s.valid = n
	for i, kv := range s.kv {
		if kv != nil && n < s.m.caches[i].needs(kv) {
			kv.Reset()
		}
	}
	if s.rec != nil {
		s.rec.rewind(n)
	}
}

// room makes room in the caches for n more tokens after the first start ones. Windowed caches give up positions that are far from
// the end, which is that of the tokens if they are a chain.
func (s *Session) room(start, n int, tree bool) error {
	end := start + n
	if tree {
		end = start
	}
	for i, kv := range s.kv {
		if kv == nil {
			continue
		}
		if w := s.m.caches[i].window; w > 0 {
			kv.Discard(min(start+1-w, end-w-windowSlack))
		}
		if err := kv.Grow(start + n); err != nil {
			return err
		}
	}
	return nil
}

// roomForAll makes room for n tokens in the caches that keep them all, so that a pass which the memory does not suffice for fails
// before it begins. The others get theirs as the pass goes on.
func (s *Session) roomForAll(n int) error {
	for i, kv := range s.kv {
		if kv == nil || s.m.caches[i].window > 0 {
			continue
		}
		if err := kv.Grow(n); err != nil {
			return err
		}
	}
	return nil
}

// Bytes is the memory of the session's keys and values, of the encoder's input as well, and of its recurrent layers, in bytes. What forks
// share counts for each of them.
func (s *Session) Bytes() (n int64) {
	for _, kv := range s.kv {
		if kv != nil {
			n += kv.Bytes()
		}
	}
	if s.input != nil {
		n += s.input.kv.Bytes()
	}
	if s.rec != nil {
		n += s.rec.bytes()
	}
	return n
}
