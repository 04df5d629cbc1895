package compare

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/speculative"
)

// noisy is a report of settings on prompts, with times that scatter as on a busy machine; lucky is the setting that is
// by far the fastest.
func noisy(lucky string) *Report {
	rng := rand.New(rand.NewPCG(3, 4))
	plan := Plan{Sets: []Set{{Name: "code"}}, Repeats: 3}
	for range 7 {
		plan.Sets[0].Prompts = append(plan.Sets[0].Prompts, Prompt{ID: "p", Text: "x"})
	}
	for _, schedule := range []string{"constant", "dynamic", "auto", oracle} {
		plan.Settings = append(plan.Settings, Setting{Drafter: "model", Schedule: schedule, Verify: "greedy"})
	}
	x := &experiment{plan: plan, cells: map[key]*cell{}}
	for j := range plan.Sets[0].Prompts {
		for repeat := range plan.Repeats {
			for i, s := range append([]Setting{plan.Settings[0].plain()}, plan.Settings...) {
				r := &Timed{IDs: make([]int32, 64), Seconds: 32 * (0.5 + rng.Float64()), Before: 0.25 + 0.5*rng.Float64(),
					After: 0.5, Stats: speculative.Stats{Rounds: 64 - 8*i - j, Draft: rng.Float64(), Drafted: 90, Accepted: 40,
						DraftedAt: []int{50, 40, 4}, AcceptedAt: []int{40, 10, 4}}}
				if s.Schedule == lucky {
					r.Seconds /= 8
				}
				x.record(key{s, 0, j, 0}, repeat, r)
			}
		}
	}
	return x.report()
}

// No figure of a page is above the bound that it states, though times scatter: the medians of speedup and formula are
// of the same runs. And no tile is there because its figure is the greatest.
func TestPageDoesNotContradictItself(t *testing.T) {
	var labels [][]string
	for _, lucky := range []string{"constant", "auto", oracle, ""} {
		r := noisy(lucky)
		capped := 0
		for _, row := range r.Rows {
			if row.Estimate.Value > row.Formula {
				t.Errorf("%s: speedup %v above the formula's %v", row.Setting, row.Estimate.Value, row.Formula)
			}
			if row.SpeedupMedian != row.Estimate.Value || row.Estimate.Low > row.Estimate.Value ||
				row.Estimate.High < row.Estimate.Value {
				t.Errorf("%s: %+v", row.Setting, row.Speedups)
			}
			capped += row.NCapped
			if row.Drafter != Plain && !slices.Equal(row.DraftedAt, []int{350, 280, 28}) || row.Drafter == Plain &&
				row.NCapped > 0 {
				t.Errorf("%s: drafted %v, %d capped", row.Setting, row.DraftedAt, row.NCapped)
			}
		}
		if capped == 0 {
			t.Error("no run above its formula: the test tests nothing")
		}
		var names []string
		for _, tile := range r.tiles() {
			name, _, _ := strings.Cut(tile.Label, ":")
			names = append(names, name)
			if strings.Contains(tile.Label, "greatest") || strings.Contains(tile.Label, "speedup") &&
				!strings.Contains(tile.Label, "interval") {
				t.Error(tile.Label)
			}
		}
		labels = append(labels, names)
		var page strings.Builder
		if err := r.Page(&page); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"upper bound", "no run can exceed", "lower bound on the"} {
			if strings.Contains(page.String(), wrong) {
				t.Errorf("the page says %q", wrong)
			}
		}
		for _, want := range []string{"assumes that drafting is free", "Accepted by position", "80 25"} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	}
	for _, names := range labels {
		if !slices.Equal(names, labels[0]) || len(names) == 0 || names[0] != "model, auto, code" {
			t.Errorf("tiles follow the figures: %q", labels)
		}
	}
}
