package recurrent

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// wide is a recurrence with a large state, which nothing scans.
type wide struct {
	Recurrence
	size int
}

func (w wide) shape() sizes {
	return sizes{units: 1, state: w.size, inputs: [inputParts]int{1}, output: 1}
}

// TestPoints: however a text is cut into passes, a session can be cut back by pointStep tokens, has points all over the
// text, and keeps within its budget.
func TestPoints(t *testing.T) {
	for _, c := range []struct {
		size   int
		budget int64
		most   int
	}{{1 << 10, 0, 64}, {1 << 20, 0, 16}, {1 << 24, 0, 1}, {1 << 25, 0, 0}, {1 << 20, 40 << 20, 4},
		{1 << 20, 28 << 20, 1}, {1 << 20, 1, 0}, {1 << 10, 1 << 40, 64}} {
		size := c.size
		layer := NewLayer(0, wide{size: size})
		r := New([]Layer{layer}, 1, c.budget)
		most, bound := c.most, Most(layer.StateBytes(), layer.TokenBytes(), c.budget)
		n, rng, all := 0, rand.New(rand.NewPCG(3, 3)), 20000
		if size >= 1<<24 { // at most one point is kept of them, and each is 64 MB or more
			all = 4000
		}
		for n < all {
			tokens := []int{1, 1, 1, 5, 256, 100}[rng.IntN(6)]
			s := scan{r: r, start: n, tokens: tokens}
			r.plan(&s, 1)
			if s.save != nil {
				clear(s.save[:1])
				r.add(point{at: n + s.saveAt, state: s.save})
			}
			n += tokens
			if cut := rng.IntN(8); cut < 5 && rng.IntN(2) == 0 && r.Restorable(n-cut) == n-cut && tokens < 10 {
				n -= cut
				r.Rewind(n)
			}
			if got := r.Restorable(n); got != n {
				t.Fatalf("%d tokens: restorable is %d", n, got)
			}
			if back := max(0, n-20); r.Restorable(back) != back {
				t.Fatalf("%d tokens, 20 fewer: restorable is %d; points %d, journal %d to %d", n, r.Restorable(back),
					at(r.points), r.from, r.from+r.n)
			}
			if len(r.points) > most+nearPoints || len(r.points)+len(r.spare) > most+nearPoints+sparePoints {
				t.Fatalf("%d tokens: %d points and %d more, %d may be kept", n, len(r.points), len(r.spare), most)
			}
			if r.Bytes() > bound+4*256 { // the journal of this test's long drafts
				t.Fatalf("%d tokens: %d bytes, the bound is %d", n, r.Bytes(), bound)
			}
			if !slices.IsSortedFunc(r.points, func(a, b point) int { return a.at - b.at }) {
				t.Fatalf("points %d", at(r.points))
			}
			if cut := rng.IntN(n + 1); most > 1 && n > 1000 && cut-r.Restorable(cut) > max(3*n/most, 2*keptStep+pointStep) {
				t.Fatalf("%d tokens cut to %d: restorable is %d; points %d", n, cut, r.Restorable(cut), at(r.points))
			}
		}
		last, bytes, copies := r.points[len(r.points)-1].at, r.Bytes(), len(r.points)+len(r.spare)
		r.Thin()
		if freed := int64(copies-1) * layer.StateBytes(); r.Restorable(n) != n || r.Restorable(last) != last ||
			r.Bytes() != bytes-freed {
			t.Errorf("%d tokens, thinned: restorable are %d and %d; %d bytes of %d, %d to be freed", n, r.Restorable(n),
				r.Restorable(last), r.Bytes(), bytes, freed)
		}
	}
}

func at(points []point) (list []int) {
	for _, p := range points {
		list = append(list, p.at)
	}
	return list
}

// TestForkedPointsAreNotReused: the memory of a point that a fork shares is never room for another one, whichever of
// the two drops it.
func TestForkedPointsAreNotReused(t *testing.T) {
	for _, who := range []string{"the original", "the fork"} {
		r := New([]Layer{NewLayer(0, wide{size: 8})}, 1, 0)
		for at := 64; at <= 256; at += 64 {
			r.add(point{at: at, state: r.room()})
		}
		f := r.Fork(256, 1<<20, nil, 0)
		drops, keeps := r, f
		if who == "the fork" {
			drops, keeps = f, r
		}
		drops.Rewind(0)
		for range 2 * len(keeps.points) {
			room := drops.room()
			for _, p := range keeps.points {
				if &room[0] == &p.state[0] {
					t.Fatalf("%s uses the point at %d again", who, p.at)
				}
			}
		}
		if len(keeps.points) != 4 {
			t.Errorf("%d points are left of 4", len(keeps.points))
		}
	}
}

// A fork takes what is counted for it, one that is saved nothing for a journal; what is shrunk has no journal but for
// tokens that can be stepped over, and can be cut back to what it could be before.
func TestForksAndShrunkStatesTakeWhatTheyNeed(t *testing.T) {
	layers := []Layer{NewLayer(0, wide{size: 8}), NewLayer(2, wide{size: 5})}
	for _, passes := range [][]int{{1}, {20}, {64, 20}, {200, 30, 1}, {130, 70, 70}, {256, 256, 40}} {
		r, n := New(layers, 4, 0), 0
		for _, tokens := range passes {
			s := scan{r: r, start: n, tokens: tokens}
			r.plan(&s, 1)
			if s.save != nil {
				r.add(point{at: n + s.saveAt, state: s.save})
			}
			n += tokens
		}
		r.grow(512) // as a tree's pass does
		var reach []int
		for to := range n + 1 {
			reach = append(reach, r.Restorable(to))
			for _, upTo := range []int{1, 4} {
				if f := r.Fork(reach[to], upTo, nil, 0); f.Bytes() != r.ForkBytes(reach[to], upTo) {
					t.Errorf("%d: a fork at %d of %d layers takes %d bytes, counted are %d", passes, to, upTo, f.Bytes(),
						r.ForkBytes(reach[to], upTo))
				}
			}
			f := r.ForkSaved(reach[to])
			states := slices.DeleteFunc(r.Saved(), func(at int) bool { return at > reach[to] })
			if f.Bytes() != r.ForkSavedBytes(reach[to]) || len(f.journal) > 0 || !slices.Equal(f.Saved(), states) {
				t.Errorf("%d: saved at %d, %d bytes of %d; states after %d of %d", passes, to, f.Bytes(),
					r.ForkSavedBytes(reach[to]), f.Saved(), states)
			}
		}
		before := r.Bytes()
		if r.Shrink(); r.Bytes() >= before || r.capacity > 128 {
			t.Errorf("%d: shrunk from %d to %d bytes, a journal of %d tokens", passes, before, r.Bytes(), r.capacity)
		}
		for to, want := range reach {
			if got := r.Restorable(to); got != want {
				t.Errorf("%d: shrunk, %d of %d tokens are restorable, %d were", passes, got, to, want)
			}
		}
	}
}
