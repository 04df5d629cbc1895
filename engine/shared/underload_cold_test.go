package shared_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// Auto under load from a cold start, in virtual time: in the time in which decoders without drafts write 64 or 256
// tokens each, when nothing is known at first of costs and acceptance, and the draft model has not read the prompts,
// all decoders together have leastCold of the tokens that they have without drafts. Passes take what was measured
// with a model of 1 B on two sets of kernels, whatever they are disturbed by; drafts are cheap, or take half as long
// as the target. Where drafts are worth the most, most of that remains.
func TestAutoFromColdStart(t *testing.T) {
	const leastCold = 0.92
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1}) // without workers, which do not belong to the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	l := loaded{draft: shared.SmallModel(t, rt, 2)}
	large, double := shared.SmallModel(t, rt, 100), shared.SmallModel(t, rt, 4)
	avx2 := passTimes{{1, 16}, {2, 16.5}, {3, 19.2}, {4, 24.1}, {6, 34.3}, {8, 44.4}, {12, 99}, {16, 125}, {24, 177},
		{32, 220}, {512, 3200}}
	loads, chances, rounds := []int{2, 4, 8, 16}, []float64{0.1, 0.5, 0.7, 0.8, 0.95}, []int{64, 256}
	mostBelow := 10
	if !testkit.IsLong(t) {
		loads, chances, rounds, mostBelow = []int{2, 8}, []float64{0.1, 0.5, 0.95}, []int{64}, 5
	}
	least, below := 2.0, 0
	for i, c := range []struct {
		name       string
		cost, step passTimes
		target     *engine.Model
		gain       float64 // of two decoders with an acceptance of 0.95, at least
	}{
		{"AVX-512", avx512, passTimes{{1, 0.4}, {8, 0.5}, {256, 5}}, large, 2.5},
		{"AVX2", avx2, passTimes{{1, 0.28}, {2, 0.4}, {4, 0.59}, {8, 1}, {16, 2.2}, {32, 4}, {256, 30}}, large, 1.1},
		{"AVX-512, half", avx512, passTimes{{1, 9}, {8, 10}, {256, 200}}, double, 0},
		{"AVX2, half", avx2, passTimes{{1, 8}, {2, 8.3}, {4, 12}, {8, 22}, {12, 50}, {16, 62}, {32, 110},
			{512, 1600}}, double, 0},
	} {
		l.cost, l.step, l.target = c.cost, c.step, c.target
		for j, machine := range []string{"quiet", "noisy", "half speed", "breaks", "tree, noisy", "no prompts"} {
			if (i+j)%2 > 0 && !testkit.IsLong(t) { // each with drafts of both kinds
				continue
			}
			l.noise, l.slow, l.breaks, l.prompt, l.tree = 0, false, false, 60, false
			switch machine {
			case "noisy":
				l.noise = 0.1
			case "half speed":
				l.noise, l.slow = 0.03, true
			case "breaks":
				l.noise, l.breaks = 0.03, true
			case "tree, noisy":
				l.noise, l.tree = 0.1, true
			case "no prompts":
				l.prompt = 0
			}
			for _, n := range rounds {
				for k := range loads {
					if l.decoders = loads[k]; (i+j)/2%2 != k && !testkit.IsLong(t) { // each at both loads with other costs
						continue
					}
					l.length = time.Duration(n) * c.cost.of(l.decoders)
					l.schedule = nil
					plain := l.run(t)
					var line strings.Builder
					for _, l.accepted = range chances {
						l.schedule = func() speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) }
						gain := l.run(t).all / plain.all
						fmt.Fprintf(&line, " %.3f", gain)
						if least = min(least, gain); gain < 0.97 {
							below++
						}
						if gain < leastCold || l.decoders == 2 && l.accepted == 0.95 && gain < c.gain {
							t.Errorf("%s, %s, %d rounds, %d decoders, acceptance %.2f: %.3f of the tokens without drafts", c.name, machine,
								n, l.decoders, l.accepted, gain)
						}
					}
					t.Logf("%-13s %-11s %3d rounds %2d decoders:%s", c.name, machine, n, l.decoders, &line)
				}
			}
		}
	}
	if t.Logf("least %.3f, %d below 0.97", least, below); below > mostBelow {
		t.Errorf("%d cases below 0.97 of the tokens without drafts", below)
	}
}

// TestLongAutoFromColdStart: all loads and acceptances, and four times as long.
func TestLongAutoFromColdStart(t *testing.T) {
	testkit.Long(t)
	TestAutoFromColdStart(t)
}
