package main

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/internal/compare"
)

// stairs by batch size, of a setting on one prompt, in both forms.
func (r *report) stairs() string {
	m := markdown{head: []string{"rows of the batch"}}
	for _, b := range batches {
		m.head = append(m.head, fmt.Sprint(b))
	}
	m.head = append(m.head, "heuristic")
	for _, v := range r.with("stairs") {
		for i, form := range stairsForms {
			speedups, passes := []string{r.name(v) + ": " + stairsTexts[i] + ", speedup"},
				[]string{"passes of the target / of the draft model"}
			for _, b := range append(slices.Clone(batches), 0) {
				name := settingName("model", "constant", form, b-1)
				if b == 0 {
					name = settingName("model", "heuristic", "greedy", 0)
				}
				x, ok := v.row("stairs", code, 0, name)
				if !ok {
					speedups, passes = append(speedups, ""), append(passes, "")
					continue
				}
				speedups = append(speedups, fmt.Sprintf("%.2f (%.2f-%.2f)", x.Value, x.Low, x.High))
				passes = append(passes, fmt.Sprintf("%d / %d", x.runs[0].Target, x.runs[0].Draft))
			}
			if i > 0 {
				passes = nil // the same
			}
			if slices.ContainsFunc(speedups[1:], func(s string) bool { return s != "" }) {
				m.add(speedups...)
				if passes != nil {
					m.add(passes...)
				}
			}
		}
	}
	for _, v := range r.with("stairs-short") {
		for i, form := range stairsForms {
			cells, n := []string{""}, 0
			plain := v.timesOf("stairs-short", "plain")
			for _, b := range append(slices.Clone(batches), 0) {
				name := settingName("model", "constant", form, b-1)
				if b == 0 {
					name = settingName("model", "heuristic", "greedy", 0)
				}
				e := compare.EstimateOf(v.timesOf("stairs-short", name).seconds)
				if cells = append(cells, ""); e.N > 0 {
					n = e.N
					base := compare.Median(plain.seconds)
					cells[len(cells)-1] = fmt.Sprintf("%.2f (%.2f-%.2f)", base/e.Value, base/e.High, base/e.Low)
				}
			}
			cells[0] = fmt.Sprintf("%s: %s, the paper's prompt, %d tokens, %d runs", r.name(v), stairsTexts[i], paperTokens, n)
			m.add(cells...)
		}
	}
	return notes(m.String(), fmt.Sprintf("The first code prompt, %d tokens, and the paper's prompt; greedy; the "+
		"interval is over the runs.", stairsTokens))
}

// stairsTexts are the forms of stairs for people.
var stairsTexts = []string{"common prefixes computed once", "rows as one batch"}

// timed are all times of a setting of an experiment that keeps times only.
type timed struct {
	seconds []float64
	target  int // passes
	tokens  int
}

func (v view) timesOf(experiment, setting string) (t timed) {
	for _, c := range v.cells {
		if c.Experiment != experiment || c.Column != v.column || c.Disturbed != "" {
			continue
		}
		for _, s := range c.Series {
			if s.Setting == setting {
				t.seconds, t.target, t.tokens = append(t.seconds, s.Seconds...), s.Target, s.Tokens
			}
		}
	}
	return t
}

// stairsTimes are seconds, as the paper gives them.
func (r *report) stairsTimes() string {
	m := markdown{head: []string{"seconds", "plain", "heuristic", "stairs, batch 7, common prefixes computed once",
		"rows as one batch", "every row computed anew", "runs"}}
	m.add("published, T5-large", "0.4853", "0.4568 (-6 %)", "", "", "0.4016 (-17 %)", "1000")
	m.add("published, T5-3B", "1.2232", "0.9517 (-22 %)", "", "", "1.1059 (-10 %)", "100")
	for _, v := range r.with("stairs-times") {
		plain := compare.Median(v.timesOf("stairs-times", "plain").seconds)
		if plain == 0 {
			continue
		}
		cells, runs := []string{r.name(v)}, 0
		for _, name := range stairsTimed {
			experiment := "stairs-times"
			if name == stairsFaithful {
				experiment = "stairs-paper"
			}
			x := v.timesOf(experiment, name)
			e := compare.EstimateOf(x.seconds)
			if cells = append(cells, ""); e.N > 0 {
				cells[len(cells)-1] = fmt.Sprintf("%.4f (%.4f-%.4f)", e.Value, e.Low, e.High)
				if name != "plain" {
					cells[len(cells)-1] += fmt.Sprintf(", %+.0f %%", 100*(e.Value/plain-1))
				}
				if name == stairsFaithful {
					cells[len(cells)-1] += fmt.Sprintf(", %d runs", e.N)
				} else if name != "plain" {
					runs = e.N
				}
			}
		}
		m.add(append(cells, fmt.Sprint(runs))...)
	}
	return notes(m.String(), fmt.Sprintf(
		"The paper's prompt, %d tokens; the median over the runs with its 95 %% interval.", paperTokens))
}

// The settings of the times, as their runs name them.
var (
	stairsFaithful = settingName("model", "constant", "stairs-faithful", 6)
	stairsTimed    = []string{"plain", settingName("model", "heuristic", "greedy", 0),
		settingName("model", "constant", "stairs", 6), settingName("model", "constant", "stairs-batch", 6), stairsFaithful}
)
