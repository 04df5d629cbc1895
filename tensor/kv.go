package tensor

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/specgo/spec/asm"
)

// KVShape is the shape of a key-value cache.
type KVShape struct {
	Layers   int
	Heads    int // key-value heads, each shared by one or more query heads
	HeadDim  int // dimensions of a key
	Type     KVType
	Context  int // the most slots
	ValueDim int // dimensions of a value; 0: those of a key
}

// valueDim is the dimensions of a value.
func (s *KVShape) valueDim() int { return cmp.Or(s.ValueDim, s.HeadDim) }

// SlotBytes is the memory of one slot, in bytes.
func (s KVShape) SlotBytes() int64 {
	return int64(s.Layers) * int64(s.Heads) * int64(
		(asm.KPageBytes(s.Type, s.HeadDim)+asm.VPageBytes(s.Type, s.valueDim()))/asm.Page)
}

// KV is the key-value cache of one sequence: numbered slots, each of which holds the keys and values of one token for
// all layers and heads. Memory comes in pages of 256 slots, as needed; forks share whole pages until one of them
// writes. A KV belongs to one goroutine; its forks may belong to others.
type KV struct {
	shape  KVShape
	kBytes int // keys of one head in a page
	vBytes int
	pages  []*kvPage // nil: freed by Discard
	first  int       // the first page that is not freed
	spare  *kvPage   // a page that Discard has freed, kept for the next page that is needed; nil: none
	closed bool
	used   *atomic.Int64 // set by Meter; nil: not counted
	kept   *atomic.Int64 // set by Keep; nil: not counted
}

// KVPage is the number of slots that get their memory together.
const KVPage = asm.Page

// kvPage is [layer][head]{keys, values}.
type kvPage struct {
	owners  atomic.Int32 // caches that hold the page; it is only written by its one owner
	keepers atomic.Int32 // those of them that count it by Keep
	used    *atomic.Int64
	memory  memory
}

// NewKV makes a cache without slots.
func NewKV(s KVShape) (*KV, error) {
	if !s.Type.Valid() {
		return nil, fmt.Errorf("key-value type %d: %w", s.Type, ErrType)
	}
	const most = 1 << 20
	if s.Layers < 1 || s.Heads < 1 || s.HeadDim < 1 || s.Context < 1 || s.Layers > most || s.Heads > most ||
		s.HeadDim > most || s.ValueDim < 0 || s.ValueDim > most {
		return nil, shapeError("cache of %d layers, %d heads of %d, %d slots", s.Layers, s.Heads, s.HeadDim, s.Context)
	}
	kv := &KV{shape: s, kBytes: asm.KPageBytes(s.Type, s.HeadDim), vBytes: asm.VPageBytes(s.Type, s.valueDim())}
	heads := uint64(s.Layers) * uint64(s.Heads)
	if high, low := bits.Mul64(heads, uint64(kv.kBytes)+uint64(kv.vBytes)); high != 0 || low > math.MaxInt/2 {
		return nil, shapeError("cache of %d layers, %d heads of %d", s.Layers, s.Heads, s.HeadDim)
	}
	return kv, nil
}

// Shape is the shape the cache was made with.
func (kv *KV) Shape() KVShape { return kv.shape }

// Bytes is the memory of the cache's pages, shared ones included.
func (kv *KV) Bytes() int64 {
	n := len(kv.pages) - kv.first
	if kv.spare != nil {
		n++
	}
	return int64(n) * int64(kv.pageBytes())
}

// First is the first slot that has memory: 0 unless Discard has freed slots before it.
func (kv *KV) First() int { return kv.first * asm.Page }

// Slots is the end of the slots that have memory: First … Slots-1.
func (kv *KV) Slots() int { return min(len(kv.pages)*asm.Page, kv.shape.Context) }

func (kv *KV) pageBytes() int { return kv.shape.Layers * kv.shape.Heads * (kv.kBytes + kv.vBytes) }

// Meter adds the bytes of pages to used as they are allocated, from now on, and takes them off as they are freed.
// Forks made later inherit it; a page that several of them share counts once.
func (kv *KV) Meter(used *atomic.Int64) { kv.used = used }

// Keep adds the bytes of the pages to kept, until the cache gives them up or Keep is called again: nil is no count. A
// page that several caches keep counts once. Pages that come later, and forks, do not count.
func (kv *KV) Keep(kept *atomic.Int64) {
	for _, p := range kv.pages[kv.first:] {
		kv.release(p)
		if kept != nil && p.keepers.Add(1) == 1 {
			kept.Add(int64(len(p.memory.data)))
		}
	}
	kv.kept = kept
}

// release takes back the count of Keep for a page.
func (kv *KV) release(p *kvPage) {
	if kv.kept != nil && p.keepers.Add(-1) == 0 {
		kv.kept.Add(-int64(len(p.memory.data)))
	}
}

// Held is the bytes of the pages that have a slot from n on.
func (kv *KV) Held(n int) int64 {
	return int64(max(0, len(kv.pages)-max(n/asm.Page, kv.first))) * int64(kv.pageBytes())
}

// Shrink frees the pages without a slot before n.
func (kv *KV) Shrink(n int) {
	for end := max((n+asm.Page-1)/asm.Page, kv.first); len(kv.pages) > end; kv.pages = kv.pages[:len(kv.pages)-1] {
		kv.giveUp(len(kv.pages) - 1)
	}
	if kv.spare != nil {
		kv.spare.drop()
		kv.spare = nil
	}
}

// Share has the first n slots in common with another cache that holds the same numbers there: their whole pages become
// the other's.
func (kv *KV) Share(o *KV, n int) {
	for i := max(kv.first, o.first); i < min(n/asm.Page, len(kv.pages), len(o.pages)); i++ {
		if p := o.pages[i]; p != kv.pages[i] && len(p.memory.data) >= kv.pageBytes() {
			kv.release(kv.pages[i])
			kv.pages[i].drop()
			p.owners.Add(1)
			kv.pages[i] = p
			if kv.kept != nil && p.keepers.Add(1) == 1 {
				kv.kept.Add(int64(len(p.memory.data)))
			}
		}
	}
}

// Need is the number of bytes that writing slots from … to-1 will allocate: for pages that are not there, and for
// copies of those that a fork shares.
func (kv *KV) Need(from, to int) int64 {
	pages := 0
	for i := max(from/asm.Page, kv.first); i*asm.Page < to; i++ {
		if i >= len(kv.pages) || kv.pages[i].owners.Load() > 1 {
			pages++
		}
	}
	if kv.spare != nil && pages > 0 {
		pages--
	}
	return int64(pages) * int64(kv.pageBytes())
}

// Close releases the pages: those without another owner are freed now. Without Close they are freed when kv is
// collected.
func (kv *KV) Close() {
	kv.Reset()
	if kv.spare != nil {
		kv.spare.drop()
	}
	kv.pages, kv.spare, kv.closed = nil, nil, true
}

// Reset frees all slots: First and Slots are 0 afterwards.
func (kv *KV) Reset() {
	for i := kv.first; i < len(kv.pages); i++ {
		kv.giveUp(i)
	}
	kv.pages, kv.first = kv.pages[:0], 0
}

// Discard frees the whole pages before a slot. No layer of this cache may read them again: use it where attention has
// a window.
func (kv *KV) Discard(before int) {
	for ; kv.first < min(before/asm.Page, len(kv.pages)); kv.first++ {
		kv.giveUp(kv.first)
	}
}

// giveUp drops page i, or keeps its memory as the spare page.
func (kv *KV) giveUp(i int) {
	kv.release(kv.pages[i])
	if p := kv.pages[i]; kv.spare == nil && p.owners.Load() == 1 {
		kv.spare = p
	} else {
		p.drop()
	}
	kv.pages[i] = nil
}

func (p *kvPage) drop() {
	if p.owners.Add(-1) == 0 {
		if p.used != nil {
			p.used.Add(-int64(len(p.memory.data)))
		}
		p.memory.free()
	}
}

// Grow makes room for slots 0 … slots-1. It fails with ErrFull beyond the context.
func (kv *KV) Grow(slots int) error {
	switch {
	case kv.closed:
		return fmt.Errorf("cache: %w", ErrClosed)
	case slots > kv.shape.Context:
		return fmt.Errorf("%d slots of %d: %w", slots, kv.shape.Context, ErrFull)
	}
	for len(kv.pages)*asm.Page < slots {
		p, err := kv.newPage()
		if err != nil {
			return err
		}
		kv.pages = append(kv.pages, p)
	}
	return nil
}

func (kv *KV) newPage() (*kvPage, error) {
	if p := kv.spare; p != nil {
		kv.spare = nil
		return p, nil
	}
	p := new(kvPage)
	p.owners.Store(1)
	if err := p.memory.allocate(kv.pageBytes()); err != nil {
		return nil, fmt.Errorf("page of the key-value cache: %w", err)
	}
	if p.used = kv.used; p.used != nil {
		p.used.Add(int64(len(p.memory.data)))
	}
	return p, nil
}

// own makes the pages of slots from … to-1 writable: it copies those that a fork shares.
func (kv *KV) own(from, to int) error {
	if kv.closed {
		return fmt.Errorf("cache: %w", ErrClosed)
	}
	if from < kv.First() || from > to || to > kv.Slots() {
		return shapeError("slots %d to %d of %d to %d", from, to, kv.First(), kv.Slots())
	}
	for i := from / asm.Page; i*asm.Page < to; i++ {
		old := kv.pages[i]
		if old.owners.Load() == 1 {
			continue
		}
		p, err := kv.newPage()
		if err != nil {
			return err
		}
		copy(p.memory.data, old.memory.data)
		kv.pages[i] = p
		old.drop()
	}
	return nil
}

// keys and values are one head's part of a page.
func (kv *KV) keys(page, layer, head int) []byte {
	at := (layer*kv.shape.Heads + head) * (kv.kBytes + kv.vBytes)
	return kv.pages[page].memory.data[at:][:kv.kBytes:kv.kBytes]
}

func (kv *KV) values(page, layer, head int) []byte {
	at := (layer*kv.shape.Heads+head)*(kv.kBytes+kv.vBytes) + kv.kBytes
	return kv.pages[page].memory.data[at:][:kv.vBytes:kv.vBytes]
}

// Store writes the keys [heads][HeadDim] and values [heads][ValueDim] of one slot. See [Runtime.StoreKV] for many.
func (kv *KV) Store(layer, slot int, k, v []float32) error {
	keys, values := kv.shape.Heads*kv.shape.HeadDim, kv.shape.Heads*kv.shape.valueDim()
	if layer < 0 || layer >= kv.shape.Layers || len(k) != keys || len(v) != values {
		return shapeError("layer %d of %d, %d and %d numbers for %d and %d", layer, kv.shape.Layers, len(k), len(v), keys,
			values)
	}
	if err := kv.own(slot, slot+1); err != nil {
		return err
	}
	for head := range kv.shape.Heads {
		kv.storeHead(layer, head, slot, k, v)
	}
	return nil
}

// storeHead writes one head of k [heads][HeadDim] and v [heads][ValueDim] to a slot of a page that kv owns.
func (kv *KV) storeHead(layer, head, slot int, k, v []float32) {
	dim, values, page := kv.shape.HeadDim, kv.shape.valueDim(), slot/asm.Page
	asm.StoreK(kv.shape.Type, kv.keys(page, layer, head), slot%asm.Page, k[head*dim:][:dim])
	asm.StoreV(kv.shape.Type, kv.values(page, layer, head), slot%asm.Page, v[head*values:][:values])
}

// Move copies what slot from holds to slot to, for all layers and heads, bit for bit.
func (kv *KV) Move(from, to int) error {
	if from < kv.First() || from >= kv.Slots() {
		return shapeError("slot %d of %d to %d", from, kv.First(), kv.Slots())
	}
	if err := kv.own(to, to+1); err != nil || from == to {
		return err
	}
	dim, values, src, dst := kv.shape.HeadDim, kv.shape.valueDim(), from/asm.Page, to/asm.Page
	for layer := range kv.shape.Layers {
		for h := range kv.shape.Heads {
			asm.CopyK(kv.shape.Type, kv.keys(dst, layer, h), to%asm.Page, kv.keys(src, layer, h), from%asm.Page, dim)
			asm.CopyV(kv.shape.Type, kv.values(dst, layer, h), to%asm.Page, kv.values(src, layer, h), from%asm.Page, values)
		}
	}
	return nil
}

// Fork makes a cache that holds the first n slots, except those that Discard has freed. Whole pages are shared, and
// copied by whichever cache writes to them first; the slots of an incomplete page are copied now.
func (kv *KV) Fork(n int) (*KV, error) { return kv.ForkLayers(n, kv.shape.Layers) }

// ForkLayers is Fork for a cache of the first layers alone, at least one. The pages that it allocates have those only.
func (kv *KV) ForkLayers(n, layers int) (*KV, error) {
	if kv.closed {
		return nil, fmt.Errorf("cache: %w", ErrClosed)
	}
	if n < 0 || n > kv.Slots() || n > 0 && n < kv.First() || layers < 1 || layers > kv.shape.Layers {
		return nil, shapeError("fork of %d slots of %d to %d, %d layers of %d", n, kv.First(), kv.Slots(), layers,
			kv.shape.Layers)
	}
	fork := &KV{shape: kv.shape, kBytes: kv.kBytes, vBytes: kv.vBytes, used: kv.used}
	fork.shape.Layers = layers // which come first in a page
	whole := n / asm.Page
	fork.first = min(kv.first, whole)
	for _, p := range kv.pages[:whole] {
		if p != nil {
			p.owners.Add(1)
		}
		fork.pages = append(fork.pages, p)
	}
	if n%asm.Page != 0 {
		if err := fork.Grow(min(n, kv.shape.Context)); err != nil {
			fork.Close()
			return nil, err
		}
		copy(fork.pages[whole].memory.data, kv.pages[whole].memory.data)
	}
	return fork, nil
}
