package tensor

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hugePage  = 2 << 20
	heapBytes = hugePage / 16

	// arenaBytes is what an arena maps at least. Only what is written to takes memory. At the end of a mapping part of a
	// huge page has no owner: so several matrices of a large model share a mapping.
	arenaBytes = 128 << 20
)

// allocate returns n zero bytes, 64-byte aligned, and what releases them (nil: the garbage collector does). Large
// pieces are mapped: aligned to huge pages, which spare most of the TLB misses of streaming weights, and outside Go's
// heap, so that they neither wait for a collection to be freed nor delay one.
func allocate(n int) (data []byte, release func(), err error) {
	if n < hugePage/2 {
		return allocateInHeap(n), nil, nil
	}
	whole, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("%d bytes: %w: %w", n, ErrMemory, err)
	}
	skip := -int(uintptr(unsafe.Pointer(&whole[0]))) & (hugePage - 1)
	data = whole[skip : skip+n : skip+n]
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // a hint: kernels without huge pages return an error
	return data, func() { _ = unix.Munmap(whole) }, nil
}

// arena cuts pieces from larger mappings, so that the small matrices of a model and the ends of its large ones lie on
// huge pages too.
type arena struct {
	mu   sync.Mutex
	last *mapping // the next pieces come from what is left of it
}

// mapping is freed when its last piece is.
type mapping struct {
	rest   []byte
	pieces int
	unmap  func()
}

// allocate is the function allocate, from the arena.
func (a *arena) allocate(n int) (data []byte, release func(), err error) {
	if n < heapBytes {
		return allocateInHeap(n), nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	size := (n + 63) &^ 63
	m := a.last
	if m == nil || len(m.rest) < size {
		m = new(mapping)
		if m.rest, m.unmap, err = allocate(max(arenaBytes, (size+hugePage-1)&^(hugePage-1))); err != nil {
			return nil, nil, err
		}
		if a.last == nil || len(m.rest)-size > len(a.last.rest) {
			a.last = m
		}
	}
	data, m.rest = m.rest[:n:n], m.rest[size:]
	m.pieces++
	return data, func() { a.release(m, data) }, nil
}

// populate asks for the pages of a part of a piece. They would come when they are written to, but clearing a huge
// page takes long enough for a garbage collection to notice, which waits for a page fault and not for a system call.
func populate(data []byte) {
	page := os.Getpagesize()
	skip := int(uintptr(unsafe.Pointer(&data[0]))) & (page - 1)
	first := (*byte)(unsafe.Add(unsafe.Pointer(&data[0]), -skip)) // mappings begin and end with pages
	_ = unix.Madvise(unsafe.Slice(first, skip+len(data)), unix.MADV_POPULATE_WRITE)
}

// release gives a piece's memory back: its mapping, or, while others need that, the pages that are the piece's alone.
func (a *arena) release(m *mapping, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.pieces--; m.pieces == 0 {
		if a.last == m {
			a.last = nil
		}
		m.unmap()
		return
	}
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(&data[0]))) & (page - 1)
	if whole := (len(data) - skip) &^ (page - 1); whole > 0 {
		_ = unix.Madvise(data[skip:skip+whole], unix.MADV_DONTNEED)
	}
}
