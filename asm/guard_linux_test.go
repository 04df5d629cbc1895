package asm

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// tail returns n zero elements that end where an unreadable page begins; what lies before them must not be written
// either.
func tail[T any](t testing.TB, n int) []T {
	t.Helper()
	var e T
	page := os.Getpagesize()
	size := n * int(unsafe.Sizeof(e))
	whole := (size+64+page-1)/page*page + page
	mem, err := syscall.Mmap(-1, 0, whole, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mprotect(mem[whole-page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	before := mem[whole-page-size-64:][:64]
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
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[whole-page-size])), n)
}
