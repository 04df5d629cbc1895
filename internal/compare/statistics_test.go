package compare

import (
	"math"
	"testing"

	"github.com/specgo/spec/speculative"
)

// The bootstrap's distribution of the median of seven different values is known: with n of the seven draws at most
// value i, where n has the binomial distribution of 7 and i/7, the median is at most value i where n is at least 4.
// That has probability 0.010 for i = 1 and 0.108 for i = 2, so 2.5 % lies at value 2, and by symmetry 97.5 % at value
// 6. Of three values it is 0.26 for i = 1.
func TestEstimateByHand(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Estimate
		flag   string
	}{
		{nil, Estimate{}, "†"},
		{[]float64{2}, Estimate{2, 2, 2, 1}, "†"},
		{[]float64{30, 10, 20}, Estimate{20, 10, 30, 3}, "†‡"},
		{[]float64{16, 11, 12, 17, 14, 13, 15}, Estimate{14, 12, 16, 7}, "‡"},
		{[]float64{106, 101, 102, 107, 104, 103, 105}, Estimate{104, 102, 106, 7}, ""},
	} {
		got := EstimateOf(c.values)
		if got != c.want || got.Flag() != c.flag {
			t.Errorf("%v: %+v %q, want %+v %q", c.values, got, got.Flag(), c.want, c.flag)
		}
		if again := EstimateOf(c.values); again != got {
			t.Errorf("%v: %+v, then %+v", c.values, got, again)
		}
	}
	if got, want := (Estimate{2.314, 2.049, 2.446, 30}).String(), "2.31 (2.05-2.45)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// With many values the interval approaches that of the median of a sample: for 400 uniform values 0.5 ± 1.96 * 0.5 /
// sqrt(400) = 0.5 ± 0.049.
func TestEstimateOfMany(t *testing.T) {
	var values []float64
	for i := range 400 {
		values = append(values, float64((i*251)%400)/400)
	}
	e := EstimateOf(values)
	if math.Abs(e.Value-0.49875) > 1e-9 || math.Abs(e.Low-0.451) > 0.01 || math.Abs(e.High-0.548) > 0.01 {
		t.Errorf("%+v", e)
	}
}

// 64 tokens that plain decoding writes in 64 * 0.5 = 32 s: 40 rounds allow 1.6, less the time of drafting.
func TestCapped(t *testing.T) {
	for _, c := range []struct {
		seconds          float64
		rounds           int
		drafting         float64
		speedup, formula float64
	}{
		{32, 40, 0, 1, 1.6},
		{16, 40, 0, 1.6, 1.6}, // 2 was measured
		{16, 40, 12, 1, 1},    // 12 s of drafting beside 20 s of passes
		{16, 16, 0, 2, 4},     // measured
		{64, 40, 0, 0.5, 1.6}, // slower
		{16, 0, 0, 2, 0},      // no rounds are known
	} {
		speedup, formula := Capped(0.5, c.seconds, 64, c.rounds, c.drafting)
		if math.Abs(speedup-c.speedup) > 1e-12 || math.Abs(formula-c.formula) > 1e-12 {
			t.Errorf("%+v: %v and %v", c, speedup, formula)
		}
		r := Timed{Seconds: c.seconds, Before: 0.25, After: 0.75, IDs: make([]int32, 64),
			Stats: speculative.Stats{Rounds: c.rounds, Draft: c.drafting}}
		if got, _ := r.Speedup(); got != speedup {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The title names drafters, prompts and temperatures, and no figure.
func TestHeadline(t *testing.T) {
	row := func(drafter, prompts string, temperature float32) Row {
		return Row{
			Prompts: prompts, Setting: Setting{Drafter: drafter, Temperature: temperature},
			Speedups: Speedups{Estimate: Estimate{Value: 3.5, N: 9}},
		}
	}
	for want, rows := range map[string][]Row{
		"Speculative decoding: nothing was compared": {
			row(Plain, "code", 0)},
		"Speculative decoding: drafter model; code prompts; greedy": {
			row(Plain, "code", 0), row("model", "code", 0)},
		"Speculative decoding: drafter model, ngram and tree; code and copy prompts; temperature 0.8": {
			row("model", "code", 0.8), row("ngram", "copy", 0.8), row("tree", "copy", 0.8)},
		"Speculative decoding: drafter model; code prompts; 3 temperatures": {
			row("model", "code", 0), row("model", "code", 1), row("model", "code", 2)},
	} {
		if got := (&Report{Rows: rows}).headline(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where verifiers differ, each has its own hue; so have schedules.
func TestHues(t *testing.T) {
	for name, list := range map[string]map[string]int{"schedules": scheduleHues, "verifiers": verifierHues} {
		seen := map[int]string{}
		for x, hue := range list {
			if other := seen[hue]; other != "" {
				t.Errorf("%s: %s and %s have the same hue", name, x, other)
			}
			seen[hue] = x
		}
	}
	for _, s := range speculative.Names(speculative.Schedules(), true) {
		if scheduleHues[s] == 0 {
			t.Errorf("schedule %s has no hue", s)
		}
	}
	for _, v := range speculative.Names(speculative.Verifiers(), true) {
		if verifierHues[v] == 0 {
			t.Errorf("verifier %s has no hue", v)
		}
	}
	rows := []*Row{
		{Setting: Setting{Schedule: "auto", Verify: "match"}}, {Setting: Setting{Schedule: "auto", Verify: "block"}},
	}
	if hue := hues(rows); hue(rows[0]) == hue(rows[1]) {
		t.Error("two verifiers have the same hue")
	}
	if hue := hues(rows[:1]); hue(rows[0]) != scheduleHues["auto"] {
		t.Error("a single verifier is not colored by its schedule")
	}
}
