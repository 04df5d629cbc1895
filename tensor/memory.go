package tensor

import (
	"runtime"
	"unsafe"
)

// memory is a piece of memory whose owner is collected or closes it, whichever comes first.
type memory struct {
	data    []byte
	release func()
	cleanup runtime.Cleanup
}

func (m *memory) allocate(n int) error { return m.own(allocate(n)) }

// own makes m the owner of what allocate has returned.
func (m *memory) own(data []byte, release func(), err error) error {
	if m.data, m.release = data, release; err == nil && m.release != nil {
		m.cleanup = runtime.AddCleanup(m, func(release func()) { release() }, m.release)
	}
	return err
}

// free releases the memory. Nobody may be using it.
func (m *memory) free() {
	if m.release != nil {
		m.cleanup.Stop()
		m.release()
	}
	m.data, m.release = nil, nil
}

func allocateInHeap(n int) []byte {
	b := make([]byte, n+63)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 63
	return b[skip : skip+n : skip+n]
}

// apart is how many bytes b begins after a.
func apart(a, b []byte) int {
	return int(uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&a[0])))
}
