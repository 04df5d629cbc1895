package sampling

import "testing"

// Windows by llama.cpp's numbers: 0 tokens are none, so that nothing is penalized, and not the default.
func TestSetLastN(t *testing.T) {
	on := Options{RepeatPenalty: 2, FrequencyPenalty: 1, PresencePenalty: 1, DRY: DRY{Multiplier: 1}}
	for n, length := range map[int]int{-1: 100, 0: 0, 7: 7} {
		o := on
		o.SetLastN(n)
		n := o.Normalized()
		if on := length > 0; o.penalizes() != on || n.penalizes() != on || on && n.lastN(100) != length {
			t.Errorf("window of %d: %+v", o.PenaltyLastN, n)
		}
	}
	off := Options{} // also where a penalty is set behind it
	off.SetLastN(0)
	off.RepeatPenalty, off.PresencePenalty = 2, 1
	s, err := New(4, off)
	if err != nil {
		t.Fatal(err)
	}
	if id := s.Pick([]float32{1, 3, 2, 0}, []int32{1, 1, 1}); id != 1 {
		t.Errorf("a penalty over no tokens: %d", id)
	}
	history := []int32{1, 2, 3, 1, 2, 3, 1, 2}
	for n, lower := range map[int]bool{-1: true, 0: false, 8: true} {
		o := on
		o.DRY.SetLastN(n)
		o = o.Normalized()
		lowered, r := false, newRepetitions(&o.DRY)
		r.penalties(&o.DRY, history, func(int32, float32) { lowered = true })
		if lowered != lower {
			t.Errorf("dry window of %d tokens lowers logits: %v", n, lowered)
		}
	}
}
