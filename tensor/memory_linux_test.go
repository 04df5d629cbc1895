package tensor

import "testing"

// Matrices of a few huge pages and a half lie one after another: at its own end each would keep the rest of a huge
// page.
func TestArenaSharesHugePages(t *testing.T) {
	a := new(arena)
	const n, size = 6, 8*hugePage + hugePage/2 // a matrix of the 1 B shape in Q8_0
	var last []byte
	for i := range n {
		data, release, err := a.allocate(size)
		ok(t, err)
		defer release()
		if i > 0 && apart(last, data) != size {
			t.Errorf("matrix %d begins %d bytes after the one before it, which has %d", i, apart(last, data), size)
		}
		last = data
	}
}
