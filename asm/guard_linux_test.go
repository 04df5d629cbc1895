package asm

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// guarded is memory that ends where an unreadable page begins, by its number of pages, to be used again: mapping it
// takes longer than most of what is tested with it.
var guarded = struct {
	sync.Mutex
	free map[int][][]byte
}{free: map[int][][]byte{}}

// tail returns n zero elements that end where an unreadable page begins; what lies before them must not be written
// either. The test's end gives the memory back.
func tail[T any](t testing.TB, n int) []T {
	var e T
	size := n * int(unsafe.Sizeof(e))
	pages := (size + 64 + os.Getpagesize() - 1) / os.Getpagesize()
	mem := guardedPages(t, pages)
	at := len(mem) - size
	clear(mem[at:])
	before := mem[at-64 : at]
	for i := range before {
		before[i] = 0xa5
	}
	t.Cleanup(func() {
		for _, b := range before {
			if b != 0xa5 {
				t.Error("written before the start of a slice")
				break
			}
		}
		guarded.Lock()
		guarded.free[pages] = append(guarded.free[pages], mem)
		guarded.Unlock()
	})
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[at])), n)
}

// guardedPages maps as many pages, or takes some that a test has given back.
func guardedPages(t testing.TB, pages int) []byte {
	t.Helper()
	guarded.Lock()
	defer guarded.Unlock()
	if free := guarded.free[pages]; len(free) > 0 {
		guarded.free[pages] = free[:len(free)-1]
		return free[len(free)-1]
	}
	size := pages * os.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, size+os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mprotect(mem[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem[:size]
}
