package speculative

import "testing"

// refusing is a schedule that lets no drafter draft, and counts how often it is asked.
type refusing struct {
	Schedule
	asked []int // the drafter's number
}

func (r *refusing) Begin(lane, _ int) bool {
	r.asked = append(r.asked, lane)
	return false
}

// A schedule decides of each drafter of a merge by itself: a merge of several within a merge is asked, since its own
// drafters are decided of in it.
func TestSchedulesDecideOfEachMergedDrafter(t *testing.T) {
	lone := func() Drafter { return NGram(NGramOptions{}) }
	m := Merge(lone(), Merge(lone(), lone()), Merge(lone()), Merge(lone(), lone(), lone()), lone()).(*merge)
	s := &refusing{}
	d := &Draft{schedule: s, vocab: 8, maxDepth: 4, treeMax: 4}
	d.alloc(8)
	for i, want := range []bool{false, true, false, true, false} {
		var sub Draft
		sub.alloc(8)
		if ask := d.Sub(&sub, m, i); ask != want {
			t.Errorf("drafter %d of the merge is asked: %v", i, ask)
		}
	}
	if want := []int{0, 3, 7}; len(s.asked) != 3 || s.asked[0] != want[0] || s.asked[1] != want[1] ||
		s.asked[2] != want[2] {
		t.Errorf("the schedule decided of %v, want %v", s.asked, want)
	}
}
