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

// The chart by temperature is of the length that was chosen, not of the schedule's own alone.
func TestTemperaturesOfAChosenLength(t *testing.T) {
	r := &Report{}
	for i, temperature := range []float32{0, 0.5, 1} {
		s := Setting{Drafter: "model", Schedule: "constant", Verify: defaultVerifier(temperature), DraftMax: 4,
			Temperature: temperature}
		r.Rows = append(r.Rows, Row{Prompts: "code", Setting: s.plain()}, Row{Prompts: "code", Setting: s,
			Speedups: Speedups{Estimate: Estimate{Value: 2.5 - 0.5*float64(i), N: 9}}})
	}
	s := r.byTemperature()
	if len(s.Figures) != 1 {
		t.Fatalf("%d figures", len(s.Figures))
	}
	for _, want := range []string{"constant 4: 2.50x at 0<", "constant 4: 2.00x at 0.5<", "constant 4: 1.50x at 1<"} {
		if !strings.Contains(s.Figures[0].SVG, want) {
			t.Errorf("no %q in\n%s", want, s.Figures[0].SVG)
		}
	}
}

// The schedule's own length, by which --draft-max 0 goes, is no draft of 0 tokens: it is among the bars.
func TestTheSchedulesOwnLengthIsNotSwept(t *testing.T) {
	r := &Report{}
	for _, length := range []int{0, 2, 4, 8} {
		s := Setting{Drafter: "model", Schedule: "constant", Verify: "greedy", DraftMax: length}
		r.Rows = append(r.Rows, Row{Prompts: "code", Setting: s,
			Speedups: Speedups{Estimate: Estimate{Value: 1.5, N: 9}, Formula: 2}})
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; r.isSwept(row) != (row.DraftMax > 0) {
			t.Errorf("%s: swept %v", row.Setting, r.isSwept(row))
		}
	}
	s := r.byLength()
	if len(s.Figures) != 1 || strings.Contains(s.Figures[0].SVG, "x at 0<") ||
		!strings.Contains(s.Figures[0].SVG, "1.50x at 2<") || !strings.Contains(s.Figures[0].SVG, "1.50x at 8<") {
		t.Errorf("%+v", s.Figures)
	}
}

// With several seeds a prompt has several texts, and rounds are counted by text.
func TestDraftLengthsAreOfTexts(t *testing.T) {
	r := &Report{}
	for _, schedule := range []string{"auto", oracle} {
		r.Rows = append(r.Rows, Row{Prompts: "code", NPrompts: 2,
			Setting: Setting{Drafter: "model", Schedule: schedule, Verify: "match", Temperature: 1},
			Lengths: []LengthRound{{Round: 1, Texts: 6, Mean: 4, Low: 3, High: 5}}})
	}
	s := r.draftLengths()
	if len(s.Figures) != 1 || !strings.Contains(s.Figures[0].SVG, "over 6 texts") || strings.Contains(s.Text, "prompts") {
		t.Errorf("%+v", s)
	}
}

// A verifier that was run at 0 itself has one point there, not the greedy one's beside it.
func TestOnePointAtZero(t *testing.T) {
	r := &Report{}
	add := func(temperature float32, verify string) {
		r.Rows = append(r.Rows, Row{Prompts: "code", Speedups: Speedups{Estimate: Estimate{Value: 2, N: 9}},
			Setting: Setting{Drafter: "model", Schedule: "auto", Verify: verify, Temperature: temperature}})
	}
	add(0, "greedy")
	add(0, "match")
	for _, temperature := range []float32{0.5, 1} {
		add(temperature, "match")
		add(temperature, "rejection")
	}
	s := r.byTemperature()
	if len(s.Figures) != 1 || strings.Count(s.Figures[0].SVG, "match: 2.00x at 0<") != 1 ||
		strings.Count(s.Figures[0].SVG, "rejection: 2.00x at 0<") != 1 {
		t.Errorf("%+v", s.Figures)
	}
}
