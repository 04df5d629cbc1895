package tensor

import "testing"

// TestRelativeBuckets: where the buckets begin, by the published formula, and that no distance is beyond them.
func TestRelativeBuckets(t *testing.T) {
	for _, c := range []struct {
		n    int
		both bool
		from []int // first distances of the buckets of one direction
	}{
		{32, true, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}},
		{32, false, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52,
			59, 67, 77, 87, 99, 113}},
	} {
		want := 0
		for a := range 1000 {
			if want+1 < len(c.from) && a == c.from[want+1] {
				want++
			}
			left, right := relativeBucket(-a, c.n, c.both), relativeBucket(a, c.n, c.both)
			behind := want + c.n/2
			if !c.both || a == 0 {
				behind = 0 // what comes later is not seen
			}
			if left != want || right != behind {
				t.Errorf("%d buckets, both sides %v: distance %d is in %d and %d, expected %d and %d", c.n, c.both, a,
					left, right, want, behind)
			}
		}
	}
	for _, n := range []int{MinRelativeBuckets, 6, 8, 16, 32, 64, 100, MaxRelativeBuckets} {
		for r := -farthest - 9; r <= farthest+9; r++ {
			for _, both := range []bool{true, false} {
				if b := relativeBucket(r, n, both); b < 0 || b >= n || r < -farthest && b != relativeBucket(-farthest, n, both) ||
					r > farthest && b != relativeBucket(farthest, n, both) {
					t.Fatalf("%d buckets, both sides %v: distance %d is in %d", n, both, r, b)
				}
			}
		}
	}
}
