package speculative

import "testing"

// All decoders of a pass are told the same about drafting together. After it gained, that goes on; after it lost, it is
// tried again when the time has come, and what was lost before counts no more.
func TestDecodersOfAPassDraftTogetherOrNot(t *testing.T) {
	g := newGroup()
	const again = 3
	pass := func(n int64, want bool, gains ...float64) {
		t.Helper()
		for range 3 { // decoders
			if got := g.turn(n, again); got != want {
				t.Errorf("after pass %d: %v", n, got)
			}
			g.elapsed += 0.1 // also while they decide
			if len(gains) == 0 {
				continue
			}
			g.together = g.elapsed
			g.flush(n + 1) // each tells what came of it when the next pass is over, and then decides
			g.fresh += gains[0]
			gains = gains[1:]
		}
	}
	pass(1, true, -1, -1, 0.5) // the first is a trial
	pass(2, false)
	g.elapsed += again
	pass(2, false)                // it was decided
	pass(3, true, 1, 1, -1)       // a trial again
	pass(4, true, -3, -3, -3)     // by what the trial gained, of which all have told
	pass(5, false)                // the loss of all three is known
	g.elapsed = g.together + 0.99 // not yet
	pass(6, false)
	g.elapsed = g.together + again
	pass(7, true)
}
