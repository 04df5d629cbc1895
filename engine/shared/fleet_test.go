package shared

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/fleet"
)

// What "spec plan --fleet" simulates is what the Scheduler does: the same requests, passes that take the same time, and
// both answers are compared. They are equal where chunks of prompts do not matter. How long those are, the Scheduler
// decides by what it learns of passes: 5 % at medians and the 95th of 100, more than 30 runs differed by.
func TestFleetSimulatesTheScheduler(t *testing.T) {
	m := smallLlama(t, newRuntime(t, engine.RuntimeOptions{Threads: 1}), 512)
	for _, x := range []struct {
		name           string
		places, n      int
		rate           float64
		prompt, answer fleet.Lengths
		tolerance      float64
	}{
		{"one place", 1, 60, 3, fleet.Lengths{Mean: 60, Spread: 0.5, Most: 250}, fleet.Lengths{Mean: 12, Most: 12}, 0.001},
		{"light", 8, 250, 8, fleet.Lengths{Mean: 100, Spread: 1, Most: 400},
			fleet.Lengths{Mean: 10, Spread: 1, Most: 100}, 0.05},
		{"heavy", 8, 200, 16, fleet.Lengths{Mean: 60, Spread: 1, Most: 400},
			fleet.Lengths{Mean: 16, Spread: 1, Most: 100}, 0.02},
		{"short prompts", 4, 120, 15, fleet.Lengths{Mean: 6, Spread: 1, Most: 40},
			fleet.Lengths{Mean: 14, Spread: 1, Most: 100}, 0.01},
	} {
		t.Run(x.name, func(t *testing.T) {
			machine := fleet.Machine{Places: x.places, Costs: fleet.Costs{Position: 5e-6,
				Rows: []fleet.Point{{N: 1, Seconds: 0.010}, {N: 2, Seconds: 0.012}, {N: 8, Seconds: 0.024}},
				// every token alike: whose prompt a chunk is of makes no difference
				Prompts: []fleet.Point{{N: 128, Seconds: 0.0005}}}}
			all := fleet.Load{Rate: x.rate, Prompt: x.prompt, Answer: x.answer}.Requests(x.n, 11)
			predicted, err := machine.Run(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			known := make([]costs.Time, x.places) // what it has learned in an hour
			for i := range known {
				known[i] = costs.Time{Rows: i + 1, Seconds: machine.Pass(i+1, 0), Passes: 1000}
			}
			m.Costs(0).Set(known, true)
			real := fleet.Outcome{Times: make([]fleet.Times, x.n)}
			synctest.Test(t, func(t *testing.T) {
				c := New(m, Options{Sessions: x.places, CacheBytes: -1})
				defer c.Close()
				c.prepare = func(b engine.Batch) time.Duration {
					rows, positions, prompts := 0, 0, 0
					for i, s := range c.taken {
						if n := len(b[i].Tokens); s.chunk {
							prompts += n
						} else {
							rows += n
							if n == 1 {
								positions += s.Len()
							}
						}
					}
					took := machine.Pass(rows, positions) + machine.Prompt(1)*float64(prompts)
					cost := time.Duration(took * float64(time.Second))
					time.Sleep(cost)
					real.Busy += took
					return cost
				}
				var wait sync.WaitGroup
				begin := time.Now()
				for i, q := range all {
					wait.Go(func() {
						at := begin.Add(time.Duration(q.At * float64(time.Second)))
						time.Sleep(time.Until(at))
						s, err := c.NewSession(context.Background(), SessionOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						defer s.Close()
						time.Sleep(time.Microsecond) // a server reads the prompt
						if q.Prompt > 1 {            // as decoders do: the last token is the first row
							feed(t, s, q.Prompt-1, engine.None)
						}
						for j := range q.Answer {
							if feed(t, s, 1, engine.Last); j == 0 {
								real.Times[i].First = time.Since(at).Seconds()
							}
						}
						real.Times[i].Answer = time.Since(at).Seconds()
					})
				}
				wait.Wait()
				real.Seconds = time.Since(begin).Seconds()
			})
			near := func(what string, got, want, tolerance float64) {
				t.Logf("%-16s predicted %.4f, the Scheduler %.4f, ratio %.4f", what, got, want, got/want)
				if !(math.Abs(got-want) <= tolerance*want) {
					t.Errorf("%s: %v predicted, %v by the Scheduler", what, got, want)
				}
			}
			first, last := predicted.Sorted(0)
			f, l := real.Sorted(0)
			near("mean first", mean(first), mean(f), x.tolerance)
			near("mean answer", mean(last), mean(l), x.tolerance)
			for _, share := range []float64{0.5, 0.95} {
				near("first token", fleet.Quantile(first, share), fleet.Quantile(f, share), x.tolerance)
				near("answer", fleet.Quantile(last, share), fleet.Quantile(l, share), x.tolerance)
			}
			near("seconds", predicted.Seconds, real.Seconds, 0.01)
			near("busy", predicted.Busy, real.Busy, 0.01)
		})
	}
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}
