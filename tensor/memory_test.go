package tensor

import (
	"sync"
	"testing"
	"unsafe"
)

// TestArena: pieces are zero, aligned and apart, and giving one back leaves the others as they are.
func TestArena(t *testing.T) {
	a := new(arena)
	type piece struct {
		data    []byte
		release func()
	}
	fill := func(p piece, v byte) {
		for i := range p.data {
			if p.data[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, len(p.data), p.data[i])
			}
			p.data[i] = v
		}
	}
	holds := func(p piece, v byte) {
		for i := range p.data {
			if p.data[i] != v {
				t.Fatalf("byte %d of %d is %d, not %d", i, len(p.data), p.data[i], v)
			}
		}
	}
	take := func(n int) piece {
		data, release, err := a.allocate(n)
		ok(t, err)
		if len(data) != n || cap(data) != n || uintptr(unsafe.Pointer(&data[0]))%64 != 0 {
			t.Fatalf("%d bytes: %d, room for %d, at %p", n, len(data), cap(data), &data[0])
		}
		return piece{data, release}
	}
	free := func(p piece) {
		if p.release != nil {
			p.release()
		}
	}
	sizes := []int{1, 130 << 10, 3<<20 + 5, 1<<20 + 64, 40 << 20, 200<<10 + 1, 1}
	for range 3 { // what was given back is taken again, zero
		var pieces []piece
		for i, n := range sizes {
			pieces = append(pieces, take(n))
			fill(pieces[i], byte(i+1))
		}
		for i, p := range pieces {
			if i%2 == 1 {
				holds(p, byte(i+1))
				free(p)
			}
		}
		more := take(5 << 20)
		fill(more, 99)
		for i, p := range pieces {
			if i%2 == 0 {
				holds(p, byte(i+1))
				free(p)
			}
		}
		holds(more, 99)
		free(more)
	}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for n := range 20 {
				data, release, err := a.allocate(heapSmall + n*1000)
				if err != nil {
					t.Error(err)
					return
				}
				for j := 0; j < len(data); j += 512 {
					data[j] = byte(i)
				}
				for j := 0; j < len(data); j += 512 {
					if data[j] != byte(i) {
						t.Error("two pieces overlap")
						return
					}
				}
				if release != nil {
					release()
				}
			}
		})
	}
	wait.Wait()
}

const heapSmall = 200 << 10 // from a mapping, where there are any
