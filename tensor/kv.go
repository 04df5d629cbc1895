package tensor

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
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

	// ValuesInKeys says that a value is the first ValueDim numbers of its key, as the cache has them: it is stored once.
	ValuesInKeys bool
}

// valueDim is the dimensions of a value.
func (s *KVShape) valueDim() int { return cmp.Or(s.ValueDim, s.HeadDim) }

// storedDim is the dimensions of a value that has memory of its own; 0: it has none.
func (s *KVShape) storedDim() int {
	if s.ValuesInKeys {
		return 0
	}
	return s.valueDim()
}

// pageBytes is the memory of a head's keys in a page, and of its values.
func (s *KVShape) pageBytes() (keys, values int) {
	return asm.KPageBytes(s.Type, s.HeadDim), asm.VPageBytes(s.Type, s.storedDim())
}

// SlotBytes is the memory of one slot, in bytes.
func (s KVShape) SlotBytes() int64 {
	keys, values := s.pageBytes()
	return int64(s.Layers) * int64(s.Heads) * int64((keys+values)/asm.Page)
}

// KV is the key-value cache of one sequence: numbered slots, each of which holds the keys and values of one token for
// all layers and heads. Memory comes in pages of 256 slots, as needed; forks share whole pages until one of them
// writes. A KV belongs to one goroutine; its forks may belong to others. What Shrink packs takes the memory of its
// slots alone, and is unpacked by the next Grow or Fork.
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
	packed  int          // the memory holds so many slots, packed, of a last page with one owner; 0: it holds all
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
	if s.ValuesInKeys && s.valueDim() > s.HeadDim {
		return nil, shapeError("values of %d in keys of %d", s.valueDim(), s.HeadDim)
	}
	kv := &KV{shape: s}
	kv.kBytes, kv.vBytes = s.pageBytes()
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
	n := kv.Held(0)
	if kv.spare != nil {
		n += int64(kv.pageBytes())
	}
	return n
}

// First is the first slot that has memory: 0 unless Discard has freed slots before it.
func (kv *KV) First() int { return kv.first * asm.Page }

// Slots is the end of the slots that can be read and written: First … Slots-1.
func (kv *KV) Slots() int { return min(kv.whole()*asm.Page, kv.shape.Context) }

// whole is the number of pages, freed ones included, before one that is packed.
func (kv *KV) whole() int {
	if kv.Packed() {
		return len(kv.pages) - 1
	}
	return len(kv.pages)
}

// Packed reports whether the last slots are packed, so that Slots leaves them out.
func (kv *KV) Packed() bool { return kv.last() != nil && kv.last().packed > 0 }

// last is the last page, nil if it is freed or there is none.
func (kv *KV) last() *kvPage {
	if len(kv.pages) == 0 {
		return nil
	}
	return kv.pages[len(kv.pages)-1]
}

func (kv *KV) pageBytes() int { return kv.shape.Layers * kv.shape.Heads * (kv.kBytes + kv.vBytes) }

// Meter adds the bytes of pages to used as they are allocated, from now on, and takes them off as they are freed.
// Pages that an earlier Meter has counted, and no fork shares, go over to used. Forks made later inherit it; a page
// that several of them share counts once.
func (kv *KV) Meter(used *atomic.Int64) {
	for _, p := range append(kv.pages[kv.first:len(kv.pages):len(kv.pages)], kv.spare) {
		if p == nil || p.used == nil || p.owners.Load() != 1 {
			continue
		}
		n := int64(len(p.memory.data))
		p.used.Add(-n)
		if p.used = used; used != nil {
			used.Add(n)
		}
	}
	kv.used = used
}

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
	pages := len(kv.pages) - max(n/asm.Page, kv.first)
	if pages <= 0 {
		return 0
	}
	bytes := int64(pages) * int64(kv.pageBytes())
	if kv.Packed() {
		bytes += int64(len(kv.last().memory.data) - kv.pageBytes())
	}
	return bytes
}

// Unshared is the bytes of the pages that no fork has.
func (kv *KV) Unshared() (n int64) {
	if kv.spare != nil {
		n = int64(len(kv.spare.memory.data))
	}
	for _, p := range kv.pages[kv.first:] {
		if p.owners.Load() == 1 {
			n += int64(len(p.memory.data))
		}
	}
	return n
}

// mostPacked is the most slots of an incomplete page that are packed: beyond it the copies save too little.
const mostPacked = asm.Page / 2

// Shrink frees the pages without a slot before n, and packs the slots before n of an incomplete last page that no
// fork has.
func (kv *KV) Shrink(n int) {
	for end := max((n+asm.Page-1)/asm.Page, kv.first); len(kv.pages) > end; kv.pages = kv.pages[:len(kv.pages)-1] {
		kv.giveUp(len(kv.pages) - 1)
	}
	if kv.spare != nil {
		kv.spare.drop()
		kv.spare = nil
	}
	if slots := n % asm.Page; slots > 0 && slots <= mostPacked && len(kv.pages) == n/asm.Page+1 && !kv.Packed() {
		kv.pack(slots)
	}
}

// pack packs the first slots of the last page. Without memory for them it stays as it is.
func (kv *KV) pack(slots int) {
	old := kv.last()
	if old == nil || old.owners.Load() > 1 {
		return
	}
	p, err := kv.allocate(kv.pageBytes() / asm.Page * slots)
	if err != nil {
		return
	}
	p.packed = slots
	kv.copyPacked(p.memory.data, old.memory.data, 0, slots, true)
	kv.replaceLast(p)
}

// unpack makes the last page a whole one again.
func (kv *KV) unpack() error {
	p, err := kv.newPage()
	if err != nil {
		return err
	}
	old := kv.last()
	kv.copyPacked(old.memory.data, p.memory.data, 0, old.packed, false)
	kv.replaceLast(p)
	return nil
}

// replaceLast has p, of one owner, hold what the last page holds.
func (kv *KV) replaceLast(p *kvPage) {
	old := kv.last()
	if kv.release(old); kv.kept != nil {
		p.keepers.Store(1)
		kv.kept.Add(int64(len(p.memory.data)))
	}
	old.drop()
	kv.pages[len(kv.pages)-1] = p
}

// copyPacked copies slots of a page from its slot at on, of as many layers as kv has, to packed memory, or back.
func (kv *KV) copyPacked(packed, page []byte, at, slots int, pack bool) {
	k, v := asm.KRows(kv.shape.Type, kv.shape.HeadDim), asm.VRows(kv.shape.Type, kv.shape.storedDim())
	for range kv.shape.Layers * kv.shape.Heads {
		packed, page = asm.CopyPacked(packed, page, k, at, slots, pack)
		packed, page = asm.CopyPacked(packed, page, v, at, slots, pack)
	}
}

// copySlots copies slots of a page from its slot at on, of as many layers as kv has, to another page.
func (kv *KV) copySlots(to, from []byte, at, slots int) {
	k, v := asm.KRows(kv.shape.Type, kv.shape.HeadDim), asm.VRows(kv.shape.Type, kv.shape.storedDim())
	for range kv.shape.Layers * kv.shape.Heads {
		to, from = asm.CopyPositions(to, from, k, at, slots)
		to, from = asm.CopyPositions(to, from, v, at, slots)
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
	pages, packed := 0, int64(0)
	whole := kv.whole()
	if whole < len(kv.pages) && whole*asm.Page < to {
		packed = int64(len(kv.last().memory.data)) // is free once it is unpacked
	}
	for i := max(min(from/asm.Page, whole), kv.first); i*asm.Page < to; i++ {
		if i >= whole || kv.pages[i].owners.Load() > 1 {
			pages++
		}
	}
	if kv.spare != nil && pages > 0 {
		pages--
	}
	return max(0, int64(pages)*int64(kv.pageBytes())-packed)
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
	if p := kv.pages[i]; kv.spare == nil && p.owners.Load() == 1 && p.packed == 0 {
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
		if p.memory.release != nil || len(p.memory.data) == 0 {
			p.memory.free()
			return
		}
		freedPages[bits.Len(uint(len(p.memory.data)))].Put(p)
	}
}

// freedPages are freed pages in Go's heap, by the bits of their size. Short sequences come and go: without it each
// clears its pages anew, and fills the heap with old ones. What a page holds where nothing was written is never read.
// The garbage collector empties it.
var freedPages [bits.UintSize + 1]sync.Pool

// Grow makes room for slots 0 … slots-1. It fails with ErrFull beyond the context.
func (kv *KV) Grow(slots int) error {
	switch {
	case kv.closed:
		return fmt.Errorf("cache: %w", ErrClosed)
	case slots > kv.shape.Context:
		return fmt.Errorf("%d slots of %d: %w", slots, kv.shape.Context, ErrFull)
	}
	if kv.Packed() && kv.Slots() < slots {
		if err := kv.unpack(); err != nil {
			return err
		}
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
	return kv.allocate(kv.pageBytes())
}

// allocate makes a page of so many bytes, with one owner.
func (kv *KV) allocate(bytes int) (*kvPage, error) {
	p, _ := freedPages[bits.Len(uint(bytes))].Get().(*kvPage)
	if p == nil || len(p.memory.data) != bytes {
		p = new(kvPage)
		if err := p.memory.allocate(bytes); err != nil {
			return nil, fmt.Errorf("page of the key-value cache: %w", err)
		}
	}
	p.packed = 0
	p.owners.Store(1)
	p.keepers.Store(0)
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

// keys and values are one head's part of a page. Values that are in the keys have none.
func (kv *KV) keys(page, layer, head int) []byte {
	at := (layer*kv.shape.Heads + head) * (kv.kBytes + kv.vBytes)
	return kv.pages[page].memory.data[at:][:kv.kBytes:kv.kBytes]
}

func (kv *KV) values(page, layer, head int) []byte {
	at := (layer*kv.shape.Heads+head)*(kv.kBytes+kv.vBytes) + kv.kBytes
	return kv.pages[page].memory.data[at:][:kv.vBytes:kv.vBytes]
}

// Store writes the keys [heads][HeadDim] and values [heads][ValueDim] of one slot, no values where they are in the
// keys. See [Runtime.StoreKV] for many.
func (kv *KV) Store(layer, slot int, k, v []float32) error {
	keys, values := kv.shape.Heads*kv.shape.HeadDim, kv.shape.Heads*kv.shape.storedDim()
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
	dim, values, page := kv.shape.HeadDim, kv.shape.storedDim(), slot/asm.Page
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
	dim, values, src, dst := kv.shape.HeadDim, kv.shape.storedDim(), from/asm.Page, to/asm.Page
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
	fork, err := kv.forkPages(n, layers)
	if err != nil || n%asm.Page == 0 {
		return fork, err
	}
	if err := fork.Grow(n); err != nil {
		fork.Close()
		return nil, err
	}
	copyEnd(fork, kv, n, 0)
	return fork, nil
}

// ForkAgain is ForkLayers in the place of old, an earlier fork with as many layers, which it closes. The fork takes
// over the page of old for the slots of an incomplete page, and copies none that old has from kv: its first same ones.
func (kv *KV) ForkAgain(n int, old *KV, same int) (*KV, error) {
	defer old.Close()
	at := n / asm.Page
	if n%asm.Page == 0 || at < old.first || at >= old.whole() || old.pages[at].owners.Load() > 1 {
		return kv.ForkLayers(n, old.shape.Layers)
	}
	fork, err := kv.forkPages(n, old.shape.Layers)
	if err != nil {
		return nil, err
	}
	old.release(old.pages[at])
	fork.pages = append(fork.pages, old.pages[at])
	old.pages = slices.Delete(old.pages, at, at+1)
	copyEnd(fork, kv, n, same)
	return fork, nil
}

// forkPages is a cache of the whole pages before slot n, of the first layers.
func (kv *KV) forkPages(n, layers int) (*KV, error) {
	if kv.closed {
		return nil, fmt.Errorf("cache: %w", ErrClosed)
	}
	end := kv.Slots()
	if kv.Packed() {
		end += kv.last().packed
	}
	if n < 0 || n > end || n > 0 && n < kv.First() || layers < 1 || layers > kv.shape.Layers {
		return nil, shapeError("fork of %d slots of %d to %d, %d layers of %d", n, kv.First(), end, layers,
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
	return fork, nil
}

// copyEnd copies the slots before n of kv's incomplete page to that of its fork; where it is not packed those from same
// on.
func copyEnd(fork, kv *KV, n, same int) {
	to, from, at := fork.last(), kv.pages[n/asm.Page], max(0, same-n/asm.Page*asm.Page)
	switch slots := n % asm.Page; {
	case from.packed > 0:
		fork.copyPacked(from.memory.data, to.memory.data, 0, from.packed, false)
	case at < slots:
		fork.copySlots(to.memory.data, from.memory.data, at, slots-at)
	}
}
