package speculative

import (
	"slices"
	"testing"
	"time"
)

// Auto that begins while other processes use the CPUs: for the time of some 40 passes each takes up to twice as long, by another share, the more
// so in half of the cases the more tokens it has. Then the machine is quiet, and after 12 texts auto has forgotten what it learned first. (Without
// forgetting lengths that it does not use, 28 cases were below 0.97, the least 0.766, and on the clock one set of ten prompts had 0.87.)
func TestAutoAfterDisturbance(t *testing.T) {
	const tokens, texts = 64, 12
	const leastEver, mostBelow = 0.92, 16 // measured: 0.944, and 11 of 384 below 0.97
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	var all []float64
	for _, c := range costCurves[:4] {
		for _, a := range []float64{0.5, 0.7, 0.9} {
			drafter := func(text int) Drafter {
				return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32, blind: true, spend: func() { sim.spend(0.01 * c.one) }, chance: func(int) float64 { return a }}
			}
			c.hit, sim.curve = nil, &c
			best, length := sim.best(t, drafter)
			var ratios []float64
			for seed := range uint64(32) {
				passes := uint64(0)
				c.hit = func(n int, now time.Duration) float64 {
					passes++
					if now > time.Duration(40*c.one*float64(time.Millisecond)) {
						return 1
					}
					longer := float64(mix64(seed<<32^passes)>>11) / (1 << 53)
					if seed%2 == 1 {
						longer *= min(1, float64(n)/8)
					}
					return 1 + longer
				}
				ratios = append(ratios, best/sim.run(t, drafter, func() Schedule { return Auto(AutoOptions{}) }, true))
			}
			slices.Sort(ratios)
			t.Logf("%-18s acceptance %.1f: %.3f to %.3f of length %d", c.name, a, ratios[0], ratios[len(ratios)-1], length)
			all = append(all, ratios...)
		}
	}
	slices.Sort(all)
	if below, _ := slices.BinarySearch(all, 0.97); all[0] < leastEver || below > mostBelow {
		t.Errorf("least %.3f, %d of %d below 0.97", all[0], below, len(all))
	} else {
		t.Logf("least %.3f, %d of %d below 0.97", all[0], below, len(all))
	}
}
