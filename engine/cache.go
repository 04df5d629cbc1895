package engine

import (
	"slices"

	"github.com/specgo/spec/tensor"
)

// Layers that keep keys and values of the same shape for the same positions share a cache: the layers without a
// window one, those with a window another. A cache of layers with a window gives up the positions that none of its
// layers will look at.

// windowSlack is how many positions more than its window a windowed layer keeps, so that a session can be cut back
// that far without recomputing anything. It is more than a draft, and about a question and a short answer.
const windowSlack = 512

// KVPage is the number of positions whose keys and values get their memory together.
const KVPage = tensor.KVPage

// CacheShape is the shape of the keys and values of some of a model's layers.
type CacheShape struct {
	Layers  int // how many
	Window  int // a token sees so many positions, itself included; 0: all
	Heads   int // of keys and values
	HeadDim int // numbers of a key

	ValueDim int // numbers of a value; 0: those of a key

	ValuesInKeys bool // a value is the first ValueDim numbers of its key, and takes no memory
}

// cache is the layers of a model that share a cache.
type cache struct {
	heads, headDim, window int
	valueDim               int   // 0: headDim
	inKeys                 bool  // values are the first numbers of keys
	layers                 []int // ascending
}

// same reports whether layers of both are kept alike.
func (c *cache) same(o *cache) bool {
	return c.heads == o.heads && c.headDim == o.headDim && c.window == o.window && c.valueDim == o.valueDim &&
		c.inKeys == o.inKeys
}

// shape is that of the keys and values of so many of its layers.
func (c *cache) shape(layers int) CacheShape {
	return CacheShape{Layers: layers, Window: c.window, Heads: c.heads, HeadDim: c.headDim, ValueDim: c.valueDim,
		ValuesInKeys: c.inKeys}
}

// kv is the shape with a storage type.
func (c CacheShape) kv(t tensor.KVType) tensor.KVShape {
	return tensor.KVShape{Layers: c.Layers, Heads: c.Heads, HeadDim: c.HeadDim, ValueDim: c.ValueDim,
		ValuesInKeys: c.ValuesInKeys, Type: t}
}

// upTo is the number of the cache's layers among the first n of the model.
func (c *cache) upTo(n int) (layers int) {
	for layers < len(c.layers) && c.layers[layers] < n {
		layers++
	}
	return layers
}

// Bytes is the memory, in bytes, of the keys and values of one position with that storage type.
func (c CacheShape) Bytes(kv string) (int64, error) {
	t, err := tensor.ParseKVType(kv)
	if err != nil {
		return 0, err
	}
	return c.kv(t).SlotBytes(), nil
}

// Most is the most positions that are kept of a text of n tokens, but for the rest of a page of 256.
func (c CacheShape) Most(n int) int {
	if c.Window > 0 {
		return min(n, c.Window+windowSlack)
	}
	return n
}

// needs is the least position of a next token that the cache suffices for.
func (c *cache) needs(kv *tensor.KV) int {
	if kv.First() == 0 {
		return 0
	}
	return kv.First() + c.window - 1
}

// input is what the encoder made of an input. It does not change; forks share its pages.
type input struct {
	ids []int32
	kv  *tensor.KV // a layer for each layer of the decoder, whole pages with a slot for each id: cross-attention's
}

// share is the input for a fork of its session.
func (in *input) share() (*input, error) {
	if in == nil {
		return nil, nil
	}
	kv, err := in.kv.Fork(in.kv.Slots()) // whole pages: nothing is copied
	if err != nil {
		return nil, err
	}
	return &input{in.ids, kv}, nil
}

// is reports whether both are nothing, or the same tokens.
func (in *input) is(other *input) bool {
	return in == nil && other == nil || in != nil && other != nil && slices.Equal(in.ids, other.ids)
}

// drop frees the memory if no fork has it.
func (in *input) drop() {
	if in != nil {
		in.kv.Close()
	}
}

// pageSlots is the slots of the pages that so many tokens take.
func pageSlots(tokens int) int { return (tokens + KVPage - 1) / KVPage * KVPage }
