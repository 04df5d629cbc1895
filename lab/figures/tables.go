package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/compare"
)

// markdown is a table.
type markdown struct {
	head []string
	rows [][]string
}

func (m *markdown) add(cells ...string) { m.rows = append(m.rows, cells) }

// String is the table without rows of which only the first cell has something.
func (m *markdown) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(m.head)
	b.WriteString(strings.Repeat("|---", len(m.head)) + "|\n")
	rows := 0
	for _, r := range m.rows {
		if slices.ContainsFunc(r[1:], func(s string) bool { return s != "" }) {
			line(r)
			rows++
		}
	}
	if rows == 0 {
		return ""
	}
	return b.String()
}

// notes explain the marks that the text uses, and say what was run.
func notes(text string, about string) string {
	if text == "" {
		return ""
	}
	var list []string
	if about != "" {
		list = append(list, about)
	}
	if strings.Contains(text, "†") {
		list = append(list, "† fewer than 5 prompts.")
	}
	if strings.Contains(text, "‡") {
		list = append(list, "‡ the interval is wider than a quarter of the value.")
	}
	if len(list) == 0 {
		return text
	}
	return text + "\n" + strings.Join(list, " ") + "\n"
}

// prompts says on how many prompts a speedup rests.
func prompts(n int) string {
	if n == 1 {
		return "1 prompt"
	}
	return fmt.Sprint(n, " prompts")
}

// tables are all tables by name but that of the sweep; one without results is empty.
func (r *report) tables() map[string]string {
	return map[string]string{
		"machines":     r.machines(),
		"headline":     r.headline(),
		"length":       r.length(),
		"drafters":     r.drafters(),
		"schedules":    r.schedules(),
		"lookahead":    r.lookahead(),
		"verifiers":    r.verifiers(),
		"temperatures": r.temperatures(),
		"stairs":       r.stairs(),
		"stairs-times": r.stairsTimes(),
		"sizes":        r.sizes(),
		"weights":      r.weights(),
		"alone":        r.alone(),
		"plan":         r.plan(),
		"costs":        r.costs(),
		"batches":      r.batches(),
		"counts":       r.counts(),
		"frequency":    r.frequency(),
		"claims":       r.claims(),
		"assisted":     r.assisted(),
		"heads":        r.heads(),
		"receipts":     r.receipts(),
	}
}

// machines says where and when the results were measured.
func (r *report) machines() string {
	m := markdown{head: []string{"machine", "CPU", "kernels, threads", "memory before and after each session, GB/s",
		"runs left out", "Go", "commit", "date"}}
	for _, v := range r.views {
		var pairs []string // a session that was killed has no "after"
		for _, x := range v.memory {
			if x.Column != v.column {
				continue
			}
			speed := fmt.Sprintf("%.0f", x.GBps)
			if n := len(pairs); n > 0 && x.When == "after" {
				pairs[n-1] += "-" + speed
			} else {
				pairs = append(pairs, speed)
			}
		}
		all, out := v.unsteady()
		m.add(v.Machine, v.CPU, v.name(""), strings.Join(pairs, ", "), fmt.Sprintf("%d of %d", out, all), v.Go+" "+v.System,
			v.Commit, v.Date)
	}
	return m.String()
}

// headline is the README's: drafters on the sets of prompts, with the default schedule.
func (r *report) headline() string {
	m := markdown{head: append([]string{"prompts"}, drafterHeads(r)...)}
	list := r.with("drafters")
	n := 0
	for _, set := range allSets {
		cells := []string{setNames[set]}
		for _, v := range list {
			for _, d := range []string{"model", "tree"} {
				x, ok := v.row("drafters", set, 0, settingName(d, "auto", "greedy", 0))
				if cells = append(cells, ""); ok {
					cells[len(cells)-1] = x.Estimate.String()
					n = max(n, x.N)
				}
			}
		}
		m.add(cells...)
	}
	return notes(m.String(), fmt.Sprintf("Median speedup over plain decoding with its 95 %% interval over the prompts, "+
		"up to %s of each kind; reading the prompt is not counted.", prompts(n)))
}

func drafterHeads(r *report) (heads []string) {
	for _, v := range r.with("drafters") {
		heads = append(heads, "draft model, "+r.name(v), "tree, "+r.name(v))
	}
	return heads
}

var setNames = map[string]string{code: "code", copied: "copying", open: "open-ended", paper: "the paper's"}

// length is the speedup of drafts of constant length, beside the formula.
func (r *report) length() string {
	m := markdown{head: []string{"tokens in a draft"}}
	for _, k := range lengths {
		m.head = append(m.head, fmt.Sprint(k))
	}
	m.head = append(m.head, "auto")
	var counted []string
	for _, v := range r.with("length") {
		var measured, formula, passes []string
		n := 0
		for _, k := range append(slices.Clone(lengths), 0) {
			name := settingName("model", "constant", "greedy", k)
			if k == 0 {
				name = settingName("model", "auto", "greedy", 0)
			}
			x, ok := v.row("length", code, 0, name)
			if !ok {
				measured, formula, passes = append(measured, ""), append(formula, ""), append(passes, "")
				continue
			}
			n = max(n, x.N)
			measured, formula, passes = append(measured, x.Estimate.String()), append(formula, fmt.Sprintf("%.2f", x.formula)),
				append(passes, fmt.Sprintf("%.2f", x.perPass()))
		}
		counted = append(counted, r.name(v)+": "+prompts(n))
		m.add(append([]string{r.name(v) + ": speedup"}, measured...)...)
		m.add(append([]string{"formula"}, formula...)...)
		m.add(append([]string{"tokens in a pass of the target"}, passes...)...)
	}
	return notes(m.String(), "64 tokens after each prompt. "+strings.Join(counted, "; ")+".")
}

// drafters on all sets, with the default schedule.
func (r *report) drafters() string {
	m := markdown{head: []string{"prompts", "drafter"}}
	list := r.with("drafters")
	for _, v := range list {
		// auto drafts fewer tokens where they are expensive
		m.head = append(m.head, r.name(v)+": speedup", "formula", "tokens in a pass", "accepted")
	}
	n := 0
	for _, set := range allSets {
		for _, d := range drafting {
			cells := []string{setNames[set], d}
			for _, v := range list {
				x, ok := v.row("drafters", set, 0, settingName(d, "auto", "greedy", 0))
				if !ok {
					cells = append(cells, "", "", "", "")
					continue
				}
				n = max(n, x.N)
				cells = append(cells, x.Estimate.String(), fmt.Sprintf("%.2f", x.formula), fmt.Sprintf("%.2f", x.perPass()),
					fmt.Sprintf("%.0f %%", 100*x.acceptance()))
			}
			m.add(cells...)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return notes(m.String(), "Up to "+prompts(n)+" of each kind, 64 tokens after each.")
}

// schedules side by side, with the passes of target and draft.
func (r *report) schedules() string {
	names := []string{"constant", "heuristic", "dynamic", "oracle"}
	m := markdown{head: append([]string{"kernels", "prompts"}, "static 5", "heuristic", "dynamic", "oracle")}
	n := 0
	for _, v := range r.with("schedules") {
		for _, set := range allSets {
			cells := []string{r.name(v), setNames[set]}
			found := false
			for _, s := range names {
				x, ok := v.row("schedules", set, 0, settingName("model", s, "greedy", 0))
				if cells = append(cells, ""); ok {
					found, n = true, max(n, x.N)
					cells[len(cells)-1] = fmt.Sprintf("%s; %d / %d", x.Estimate, x.sum(func(r run) int { return r.Target }),
						x.sum(func(r run) int { return r.Draft }))
				}
			}
			if found {
				m.add(cells...)
			}
		}
	}
	return notes(m.String(), "Speedup; passes of the target / of the draft model. Up to "+prompts(
		n)+" of each kind, 64 tokens after each.")
}

// first is the view that has most of the experiment, the newest of several: for what is counted, which is the same on
// all machines at one commit.
func (r *report) first(experiment string) (v view, ok bool) {
	cells := func(v view) (n int) {
		for _, c := range v.cells {
			if c.Experiment == experiment && c.Column == v.column {
				n++
			}
		}
		return n
	}
	best := 0
	for _, other := range r.with(experiment) {
		if n := cells(other); n > best || n == best && other.Date > v.Date {
			v, best = other, n
		}
	}
	return v, best > 0
}

// everywhere says of which commit the counts of an experiment are.
func (r *report) everywhere(experiment string) string {
	v, _ := r.first(experiment)
	if v.results == nil {
		return ""
	}
	return "The same on every machine; commit " + v.Commit + "."
}

// counts are passes and acceptance of the embedded pair, the same on every machine.
func (r *report) counts() string {
	v, ok := r.first("counts")
	if !ok {
		return ""
	}
	m := markdown{head: []string{"drafter, schedule"}}
	for _, set := range allSets {
		m.head = append(m.head, setNames[set]+": tokens in a pass", "accepted")
	}
	n := 0
	for _, s := range experimentOf("counts").at(0) {
		cells := []string{s.Drafter + ", " + s.Limits()}
		for _, set := range allSets {
			x, ok := v.row("counts", set, 0, s.String())
			if !ok {
				cells = append(cells, "", "")
				continue
			}
			n = max(n, len(x.runs))
			cells = append(cells, x.perPassEstimate().String(), fmt.Sprintf("%.0f %%", 100*x.acceptance()))
		}
		m.add(cells...)
	}
	return notes(m.String(), prompts(n)+" of each kind, 96 tokens after each; the median over the prompts with its 95 % "+
		"interval. "+r.everywhere("counts"))
}

// perPassEstimate is the median over the prompts.
func (x *row) perPassEstimate() compare.Estimate {
	var list []float64
	for _, r := range x.runs {
		list = append(list, ratio(r.Tokens, r.Target))
	}
	return compare.EstimateOf(list)
}

// lookahead is the count of passes over all code prompts, as the publication gives it for one example.
func (r *report) lookahead() string {
	v, ok := r.first("counts")
	if !ok {
		return ""
	}
	names := []string{"constant", "heuristic", "dynamic", "oracle"}
	m := markdown{head: []string{"passes of the target / of the draft model", "static 5", "heuristic", "dynamic",
		"oracle"}}
	m.add("published, one example", "38 / 192", "", "", "27 / 129")
	one := []string{"here, the first code prompt, 96 tokens"}
	for _, s := range names {
		x, ok := v.row("counts", code, 0, settingName("model", s, "greedy", 0))
		if one = append(one, ""); ok {
			one[len(one)-1] = fmt.Sprintf("%d / %d", x.runs[0].Target, x.runs[0].Draft)
		}
	}
	m.add(one...)
	for _, set := range allSets {
		all, n := []string{""}, 0
		for _, s := range names {
			x, ok := v.row("counts", set, 0, settingName("model", s, "greedy", 0))
			if all = append(all, ""); ok {
				n = max(n, len(x.runs))
				all[len(all)-1] = fmt.Sprintf("%d / %d", x.sum(func(r run) int { return r.Target }),
					x.sum(func(r run) int { return r.Draft }))
			}
		}
		all[0] = fmt.Sprintf("here, all %s, %s", prompts(n), setNames[set])
		m.add(all...)
	}
	return notes(m.String(), r.everywhere("counts"))
}

// experimentOf is the experiment of that name.
func experimentOf(name string) *experiment {
	return named(experiments(), name)
}
