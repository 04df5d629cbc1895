package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// has reports whether the file has a hyperparameter, and notes that it was asked for.
func (l *loader) has(key string) bool {
	l.keys[key] = true
	return l.f.Has(l.arch + "." + key)
}

// integer is a hyperparameter that must be there and be at least 1.
func (l *loader) integer(key string) int {
	l.keys[key] = true
	if !l.ok() {
		return 1
	}
	n, err := l.f.Uint32(l.arch + "." + key)
	if err != nil {
		l.keep(err)
		return 1
	}
	if n < 1 || n > largest {
		l.fail(key, ErrValue, "%d", n)
		return 1
	}
	return int(n)
}

// mostBlocks is the greatest number of blocks that is accepted. Of each something is kept before its tensors are read,
// and no model comes near it.
const mostBlocks = 1 << 12

// mostHeads is the greatest number, and size, of heads that is accepted, likewise.
const mostHeads = 1 << 16

func (l *loader) atMostHeads(key string, n int) {
	if l.ok() && n > mostHeads {
		l.fail(key, ErrValue, "%d, at most %d", n, mostHeads)
	}
}

// blockCount is a number of blocks, which must be there.
func (l *loader) blockCount(key string) int {
	n := l.integer(key)
	if n > mostBlocks {
		l.fail(key, ErrValue, "%d blocks, at most %d", n, mostBlocks)
		return 1
	}
	return n
}

// integerOr is a hyperparameter that may be absent.
func (l *loader) integerOr(key string, absent int) int {
	if !l.has(key) {
		return absent
	}
	n, err := l.f.Uint32(l.arch + "." + key)
	l.keep(err)
	if n > largest {
		l.fail(key, ErrValue, "%d", n)
	}
	return int(min(n, largest))
}

// wholeOr is integerOr for a number that some files have as a float.
func (l *loader) wholeOr(key string, absent int) int {
	x, err := l.f.Float32(l.arch + "." + key)
	if err != nil {
		return l.integerOr(key, absent)
	}
	if l.keys[key] = true; !(x >= 0 && x <= largest) || x != float32(int(x)) {
		l.fail(key, ErrValue, "%v", x)
		return absent
	}
	return int(x)
}

// perLayer is a hyperparameter with a value for every layer: an array with one for each block, or a number for all,
// which in sparse models may be 0.
func (l *loader) perLayer(key string, sparse bool) []int {
	if !l.ok() {
		return []int{1}
	}
	values := slices.Repeat([]int{1}, l.layers)
	v, _ := l.f.Value(l.arch + "." + key)
	if t, _, _, _ := gguf.TypeOf(v); t != gguf.ValueArray {
		n := 0
		if !sparse || !l.has(key) || l.integerOr(key, 0) > 0 {
			n = l.integer(key)
		}
		for i := range values {
			values[i] = n
		}
		return values
	}
	l.keys[key] = true
	list, err := l.f.Uint32s(l.arch + "." + key)
	l.keep(err)
	if l.ok() && len(list) < l.layers {
		l.fail(key, ErrValue, "%d values for %d blocks", len(list), l.layers)
	}
	for i := range values {
		if l.ok() && list[i] > largest {
			l.fail(key, ErrValue, "%d", list[i])
		}
		if l.ok() {
			values[i] = int(list[i])
		}
	}
	return values
}

// float is a hyperparameter that must be there: a finite number, not negative.
func (l *loader) float(key string) float32 {
	l.keys[key] = true
	x, err := l.f.Float32(l.arch + "." + key)
	l.keep(err)
	if !(x >= 0 && x <= math.MaxFloat32) {
		l.fail(key, ErrValue, "%v", x)
	}
	return x
}

// positive is a float that must be above 0; absent 0 says that it must be there.
func (l *loader) positive(key string, absent float32) float32 {
	x := absent
	if absent == 0 || l.has(key) {
		x = l.float(key)
	}
	if !(x > 0) {
		l.fail(key, ErrValue, "%v", x)
	}
	return x
}

// bool is a hyperparameter that must be there.
func (l *loader) bool(key string) bool {
	l.keys[key] = true
	b, err := l.f.Bool(l.arch + "." + key)
	l.keep(err)
	return b
}

func (l *loader) floatOr(key string, absent float32) float32 {
	if !l.has(key) {
		return absent
	}
	return l.float(key)
}

func (l *loader) stringOr(key, absent string) string {
	if !l.has(key) {
		return absent
	}
	s, err := l.f.String(l.arch + "." + key)
	l.keep(err)
	return s
}

func (l *loader) boolOr(key string, absent bool) bool {
	if !l.has(key) {
		return absent
	}
	b, err := l.f.Bool(l.arch + "." + key)
	l.keep(err)
	return b
}

// layerCount is the number of the model's layers.
func (l *loader) layerCount(*Config) int {
	blocks := l.blockCount("block_count")
	more := l.integerOr("nextn_predict_layers", 0)
	l.layers = blocks - more
	if l.ok() && l.layers < 1 {
		l.fail("nextn_predict_layers", ErrValue, "%d of %d blocks", more, blocks)
	}
	if l.blocksHeld("") == l.layers { // those that predict tokens further ahead may have been left out
		blocks = l.layers
	}
	l.checkBlocks("block_count", "", blocks)
	return l.layers
}

// checkBlocks compares a number of blocks with the names of tensors, which are not to blame where they contradict it.
func (l *loader) checkBlocks(key, prefix string, blocks int) {
	if held := l.blocksHeld(prefix); l.ok() && held != blocks {
		l.fail(key, ErrValue, "%d, the tensors are those of %d blocks (%sblk.)", blocks, held, prefix)
	}
}

// blocksHeld is the number of blocks that the names of tensors count.
func (l *loader) blocksHeld(prefix string) (n int) {
	for _, t := range l.f.Tensors {
		if name, ok := strings.CutPrefix(t.Name, prefix); ok {
			if i, ok := blockIndex(name); ok {
				n = max(n, i+1)
			}
		}
	}
	return n
}

// heads reads the numbers and the size of the attention heads.
func (l *loader) heads(c *Config, k *kind) {
	l.queryHeads = l.perLayer("attention.head_count", k.sparse)
	c.Heads = slices.Max(l.queryHeads)
	l.kvHeads = slices.Clone(l.queryHeads)
	if l.has("attention.head_count_kv") {
		l.kvHeads = l.perLayer("attention.head_count_kv", k.sparse)
	}
	c.KVHeads = slices.Max(l.kvHeads)
	if ffn := "feed_forward_length"; l.has(ffn) || !l.has("expert_feed_forward_length") {
		l.ffn = l.perLayer(ffn, k.sparse)
	} else {
		l.ffn = l.perLayer("expert_feed_forward_length", false) // of a model without any other feed-forward
	}
	c.FeedForward = slices.Max(l.ffn)
	if l.ok() && slices.Min(l.queryHeads) < 1 && !k.sparse {
		l.fail("attention.head_count", ErrValue, "%d", slices.Min(l.queryHeads))
	}
	if l.ok() && slices.Min(l.ffn) < 1 && !k.sparse {
		l.fail("feed_forward_length", ErrValue, "%d", slices.Min(l.ffn))
	}
	l.atMostHeads("attention.head_count", c.Heads)
	l.atMostHeads("attention.head_count_kv", c.KVHeads)
	if !l.ok() {
		return
	}
	c.HeadDim = l.integerOr("attention.key_length", c.HiddenSize/max(1, c.Heads))
	l.atMostHeads("attention.key_length", c.HeadDim)
	if n := l.integerOr("attention.head_dim", c.HeadDim); l.ok() && n != c.HeadDim { // of Ollama's converter
		l.fail("attention.head_dim", ErrUnsupported, "%d; keys have %d dimensions", n, c.HeadDim)
	}
	if !l.ok() || k.sparse && c.Heads == 0 {
		return
	}
	l.valueDim = l.integerOr("attention.value_length", c.HeadDim)
	switch n := l.valueDim; {
	case c.HeadDim < 1 || c.HiddenSize%c.Heads != 0 && !l.has("attention.key_length"):
		l.fail("attention.head_count", ErrValue, "an embedding of %d numbers cannot be shared by %d heads", c.HiddenSize,
			c.Heads)
	case n != c.HeadDim && (!k.values || n < 1):
		l.fail("attention.value_length", ErrUnsupported, "values of %d dimensions, keys of %d", n, c.HeadDim)
	case k.sparse:
	case c.KVHeads < 1 || slices.Min(l.kvHeads) == c.KVHeads && c.Heads%c.KVHeads != 0:
		l.fail("attention.head_count_kv", ErrValue, "%d heads cannot share %d KV heads", c.Heads, c.KVHeads)
	}
}

// holds reports whether the file has a tensor. Asking that is not asking for it.
func (l *loader) holds(name string) bool {
	_, ok := l.f.Tensor(name)
	return ok
}

// window is the pattern of windowed layers: attention.sliding_window_pattern p, by which layer i has a window if i
// mod p < p-1 (p = 0: all layers), or one bool per block.
func (l *loader) window(period int) func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	if v, _ := l.f.Value(l.arch + "." + key); l.has(key) {
		if array, ok := v.([]bool); ok {
			if len(array) < l.layers {
				l.fail(key, ErrValue, "%d entries for %d blocks", len(array), l.layers)
				return nil
			}
			return func(layer int) bool { return array[layer] }
		}
		period = l.integerOr(key, 0)
	}
	return func(layer int) bool { return period == 0 || layer%period < period-1 }
}

// fixedWindow is the pattern of windowed layers of an architecture that has but one. An array of the file that says
// otherwise is refused.
func (l *loader) fixedWindow(windowed func(layer int) bool) func(layer int) bool {
	const key = "attention.sliding_window_pattern"
	if !l.has(key) {
		return windowed
	}
	said := l.window(0)
	for i := 0; i < l.layers && l.ok(); i++ {
		if said(i) != windowed(i) {
			l.fail(key, ErrUnsupported, "layer %d with a window: %v", i, said(i))
		}
	}
	return windowed
}
