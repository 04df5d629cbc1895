//go:build !purego && (amd64 || arm64)

package asm

import "testing"

// What is ahead is prefetched without a gap, by all calls together and little more of it, and from inside of it.
func TestReadAhead(t *testing.T) {
	page := make([]byte, 1)
	for kv := range kvCount {
		for _, calls := range []int{1, 2, 5} {
			for _, steps := range []int{1, 32, 1024} {
				block := vBytes(kv, 16)
				most := block
				if kv.scaled() {
					most += block / 8
				}
				for _, n := range []int{0, 1, 63, steps, steps*calls + 1, most * steps * calls, most*steps*calls + 1} {
					ahead, reached := make([]byte, n), 0
					rest := ahead
					for left := calls; left > 0; left-- {
						at := n - len(rest)
						next, step := readAhead(&rest, page, steps, left, kv, block)
						if n == 0 || reached >= n {
							if next != &page[0] || step != 0 {
								t.Errorf("%v, %d calls of %d steps: %d bytes at each of nothing", kv, calls, steps, step)
							}
							continue
						}
						if next != &ahead[at] || at > reached || step > most {
							t.Fatalf("%v, %d bytes, %d calls of %d steps: %d at each from %d on", kv, n, calls, steps, step, at)
						}
						reached = at + step*steps
					}
					if reached < min(n, most*steps*calls) || reached >= n+calls*steps && n > 0 {
						t.Errorf("%v, %d bytes, %d calls of %d steps: %d are prefetched", kv, n, calls, steps, reached)
					}
				}
			}
		}
	}
}
