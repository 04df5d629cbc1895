package tensor

import (
	"slices"

	"github.com/specgo/spec/asm"
)

// Export appends to dst what slots from … to-1 hold. The bytes are the same on every machine and with every kernel set:
// for each page that the slots are of, layer and head, the rows of keys and then those of values ([asm.KVRows]), each
// with the slots of that page; numbers are little-endian.
func (kv *KV) Export(dst []byte, from, to int) ([]byte, error) {
	if err := kv.readable(from, to); err != nil {
		return dst, err
	}
	slot := kv.pageBytes() / asm.Page
	dst = slices.Grow(dst, (to-from)*slot)
	for from < to {
		page, at := from/asm.Page, from%asm.Page
		n := min(asm.Page-at, to-from)
		end := len(dst) + n*slot
		kv.copyPacked(dst[len(dst):end], kv.pages[page].memory.data, at, n, true)
		dst, from = dst[:end], from+n
	}
	return dst, nil
}

// Import writes slots from … to-1, of the bytes that Export gave for them, which are as many as it gives.
func (kv *KV) Import(src []byte, from, to int) error {
	if err := kv.own(from, to); err != nil {
		return err
	}
	slot := kv.pageBytes() / asm.Page
	if len(src) != (to-from)*slot {
		return shapeError("%d bytes for slots %d to %d of %d bytes each", len(src), from, to, slot)
	}
	for from < to {
		page, at := from/asm.Page, from%asm.Page
		n := min(asm.Page-at, to-from)
		kv.copyPacked(src[:n*slot], kv.pages[page].memory.data, at, n, false)
		src, from = src[n*slot:], from+n
	}
	return nil
}

// readable fails for slots without memory, or those that are packed.
func (kv *KV) readable(from, to int) error {
	if kv.closed || from < kv.First() || from > to || to > kv.Slots() {
		return shapeError("slots %d to %d of %d to %d", from, to, kv.First(), kv.Slots())
	}
	return nil
}

// Begin makes an empty cache one whose whole pages before a slot are freed, as Discard does: First is the slot's page.
func (kv *KV) Begin(before int) error {
	if kv.closed || len(kv.pages) > 0 || before < 0 || before > kv.shape.Context {
		return shapeError("a beginning at slot %d of a cache of %d slots", before, kv.Slots())
	}
	kv.first = before / asm.Page
	kv.pages = make([]*kvPage, kv.first)
	return nil
}
