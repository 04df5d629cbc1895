package speculative

import "testing"

// Once a group tries to draft together, each of its other decoders takes part in the trial once; the next trial begins
// after as much work as togetherAgain passes.
func TestEveryDecoderTakesPartInATrialOnce(t *testing.T) {
	g := newGroup()
	g.elapsed = 1
	var decoders [4]auto
	for i := range decoders {
		a := &decoders[i]
		a.group, a.sessions, a.plain = g, 3, 0.01
	}
	expect := func(i int, want bool) {
		t.Helper()
		if got := decoders[i].takePart(); got != want {
			t.Errorf("decoder %d, trial %d: %v", i, g.trial, got)
		}
	}
	expect(0, true) // begins the trial
	expect(0, false)
	expect(1, true)
	expect(1, false)
	expect(2, true)
	expect(3, false) // two others at most
	g.elapsed += 0.9 * togetherAgain * 0.01 * 3
	expect(1, false)
	g.elapsed += 0.2 * togetherAgain * 0.01 * 3
	expect(1, true)
	expect(1, false)
	expect(0, true)
	expect(2, true)
	expect(0, false)
	if g.trial != 2 {
		t.Errorf("%d trials", g.trial)
	}
}
