package tensor

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// allocate returns n zero bytes, 64-byte aligned, and what releases them (nil: the garbage collector does). Large pieces
// are mapped: aligned to huge pages, which spare most of the TLB misses of streaming weights, and outside Go's heap, so
// that they neither wait for a collection to be freed nor delay one.
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
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // a wish: kernels without huge pages refuse
	return data, func() { _ = unix.Munmap(whole) }, nil
}
