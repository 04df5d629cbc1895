package speculative

import (
	"math"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// What auto loses to the best constant length on texts begun anew is the price of learning the acceptance from its prior: with the
// acceptance known at each text's start, and the costs given, it has 0.98 of the best length's speed in the mean on the machines where the loss is
// greatest: those that stream weights from disk or change their speed.
func TestLongPriceOfLearningAcceptance(t *testing.T) {
	const tokens = 64
	texts, acceptances := 24, []float64{0.5, 0.8, 0.9, 0.95}
	testkit.Long(t) // few texts will not do: the mean of a machine that changes its speed varies by 2 %
	sim := &simulation{vocab: 4096}
	for i := range texts {
		sim.texts, sim.prompt = append(sim.texts, random32(uint64(i), 8+tokens, 4096)), append(sim.prompt, 8)
	}
	for _, c := range costCurves[7:] {
		sim.curve = &c
		sumFresh, sumKnown, n := 0.0, 0.0, 0.0
		for _, step := range []float64{0.01, 0.11} {
			for _, a := range acceptances {
				drafter := func(text int) Drafter {
					return &chanceDrafter{sequence: sim.texts[text], seed: uint64(text) << 32, spend: func() { sim.spend(step * c.one) }, chance: func(int) float64 { return a }}
				}
				given := func() *auto { return Auto(AutoOptions{Costs: c.costs()}).(*auto) }
				best, length := sim.best(t, drafter)
				fresh := best / sim.run(t, drafter, func() Schedule { return given() }, false)
				learned := given()
				sim.run(t, drafter, func() Schedule { return learned }, true)
				rates := learned.acceptance
				known := best / sim.run(t, drafter, func() Schedule {
					x := given()
					x.acceptance = rates
					return x
				}, false)
				t.Logf("%-20s step %.2f, acceptance %.2f, best constant %2d: begun anew %.3f of it, with acceptance known %.3f", c.name, step, a, length, fresh, known)
				sumFresh, sumKnown, n = sumFresh+math.Log(fresh), sumKnown+math.Log(known), n+1
			}
		}
		fresh, known := math.Exp(sumFresh/n), math.Exp(sumKnown/n)
		t.Logf("%-20s mean: begun anew %.3f, with acceptance known %.3f", c.name, fresh, known)
		if known < 0.98 || known < fresh+0.01 {
			t.Errorf("%s: with acceptance known %.3f of the best constant length's speed, begun anew %.3f", c.name, known, fresh)
		}
	}
}
