package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/compare"
)

// A view is one column of the tables: what one machine measured with one kernel set and number of threads.
type view struct {
	*results
	column string
}

// name is how a table or legend calls the column, behind the machine where it needs one.
func (v view) name(machine string) string {
	simd, threads, _ := strings.Cut(v.column, "/")
	name := kernelName(simd)
	if machine != "" {
		name = machine + ", " + name
	}
	if threads != "1" {
		return name + ", " + threads + " threads"
	}
	return name + ", 1 thread"
}

// kernelName is how the documentation writes a kernel set.
func kernelName(simd string) string {
	switch simd {
	case "avx512":
		return "AVX-512"
	case "avx2":
		return "AVX2"
	case "avxvnni":
		return "AVX-VNNI"
	case "neon":
		return "NEON"
	}
	return simd
}

// readAll reads the results files of a kind in a folder; there may be none. A machine's files are of one commit, and
// another machine's may be of another: machines come by on different days, and only rows of one are compared.
func readAll(folder, kind string) (list []*results, err error) {
	names, err := fs.Glob(os.DirFS(folder), kind+"-*.jsonl") // the folder's own name is no pattern
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		name = filepath.Join(folder, name)
		r, err := readResults(name)
		if err != nil {
			return nil, err
		}
		if r.whole == 0 {
			continue
		}
		for _, other := range list {
			if other.Machine == r.Machine && other.Commit != r.Commit {
				return nil, fmt.Errorf("%s: %w: %s, commit %s, has other results of commit %s", name, errOther, r.Machine,
					r.Commit, other.Commit)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// row is a setting's figures on a set of prompts.
type row struct {
	compare.Estimate         // the speedup
	formula          float64 // the median over the prompts
	plain            float64 // tokens per second of plain decoding, likewise
	seconds          []float64
	runs             []run // the first of each prompt
}

// row of a setting; ok is false without a run of it.
func (v view) row(experiment, set string, temperature float32, setting string) (x row, ok bool) {
	return v.rowOf(experiment, set, temperature, setting, nil)
}

// rowOf is row without the excepted prompts.
func (v view) rowOf(experiment, set string, temperature float32, setting string, except []string) (x row, ok bool) {
	ratios, formulas, plain := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	var prompts []string
	for _, c := range v.cells {
		if c.Experiment != experiment || c.Column != v.column || c.Set != set || c.Temperature != temperature ||
			slices.Contains(except, c.Prompt) {
			continue
		}
		for _, r := range c.Runs {
			if r.Setting != setting || c.Disturbed != "" {
				continue
			}
			if !slices.Contains(prompts, c.Prompt) {
				prompts = append(prompts, c.Prompt)
				x.runs = append(x.runs, r)
			}
			x.seconds = append(x.seconds, r.Seconds)
			if r.Seconds > 0 && r.steady() {
				ratio, formula := r.speedup()
				ratios[c.Prompt], formulas[c.Prompt] = append(ratios[c.Prompt], ratio), append(formulas[c.Prompt], formula)
				plain[c.Prompt] = append(plain[c.Prompt], 2/(r.Before+r.After))
			}
		}
	}
	var values, others, base []float64
	for _, p := range prompts {
		if len(ratios[p]) > 0 {
			values, others, base = append(values, compare.Median(ratios[p])), append(others, compare.Median(formulas[p])),
				append(base, compare.Median(plain[p]))
		}
	}
	x.Estimate, x.formula, x.plain = compare.EstimateOf(values), compare.Median(others), compare.Median(base)
	if len(prompts) == 1 { // over the runs
		x.Estimate = compare.EstimateOf(ratios[prompts[0]])
		x.Estimate.N = 1
	}
	return x, len(prompts) > 0
}

// steadyWithin is the ratio of plain decoding's times before and after a run up to which the run counts. A virtual
// machine's memory changes its speed by half from one moment to the next: then nobody knows at which speed a run was
// made.
const steadyWithin = 1.2

// steady reports whether plain decoding took about as long after the run as before it. That does not depend on the
// run's own time, so it favors no setting.
func (r *run) steady() bool {
	return max(r.Before, r.After) <= steadyWithin*min(r.Before, r.After)
}

// unsteady counts the timed runs of a view, and those that are left out.
func (v view) unsteady() (all, out int) {
	for _, c := range v.cells {
		for _, r := range c.Runs {
			if c.Column == v.column && r.Seconds > 0 && r.Setting != "plain" {
				all++
				if !r.steady() || c.Disturbed != "" {
					out++
				}
			}
		}
	}
	return all, out
}

// perPass is the tokens in a pass of the target, for all prompts together.
func (x *row) perPass() float64 {
	return ratio(x.sum(func(r run) int { return r.Tokens }), x.sum(func(r run) int { return r.Target }))
}

// acceptance is the share of drafted tokens that were accepted.
func (x *row) acceptance() float64 {
	return ratio(x.sum(func(r run) int { return r.Accepted }), x.sum(func(r run) int { return r.Drafted }))
}

// share is a part of the runs' time.
func (x *row) share(part func(run) float64) float64 {
	var some, all float64
	for _, r := range x.runs {
		some, all = some+part(r), all+r.Seconds
	}
	if all == 0 {
		return 0
	}
	return some / all
}

// verification is the time of a verification pass over that of a plain one: the median over the runs.
func (x *row) verification() float64 {
	var list []float64
	for _, r := range x.runs {
		if r.Rounds > 0 && r.Before > 0 && r.steady() {
			list = append(list, r.Verifying/float64(r.Rounds)/((r.Before+r.After)/2))
		}
	}
	return compare.Median(list)
}

func (x *row) sum(f func(run) int) (n int) {
	for _, r := range x.runs {
		n += f(r)
	}
	return n
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// report holds all results and renders them.
type report struct {
	files []*results
	views []view
}

func newReport(files []*results) *report {
	r := &report{files: files}
	for _, f := range files {
		for _, c := range f.columns() {
			r.views = append(r.views, view{f, c})
		}
	}
	return r
}

// name of a view in tables and legends: with its machine where there are several, up to what stands in brackets if that
// tells them apart.
func (r *report) name(v view) string {
	if len(r.files) < 2 {
		return v.name("")
	}
	short := func(machine string) string {
		machine, _, _ = strings.Cut(machine, " (")
		return machine
	}
	for _, f := range r.files {
		if f.Machine != v.Machine && short(f.Machine) == short(v.Machine) {
			return v.name(v.Machine)
		}
	}
	return v.name(short(v.Machine))
}

// with lists the views that have a cell of the experiment.
func (r *report) with(experiment string) (list []view) {
	for _, v := range r.views {
		if slices.ContainsFunc(v.cells, func(c cell) bool { return c.Experiment == experiment && c.Column == v.column }) {
			list = append(list, v)
		}
	}
	return list
}

// settingName is the text by which a run names its setting.
func settingName(drafter, schedule, verify string, length int) string {
	return setting(drafter, schedule, verify, length).String()
}

// renderAll writes charts to the folder figures of out, and tables to its documents, from the results in the folder.
func renderAll(out, folder string) error {
	reports := map[string]*report{}
	for _, kind := range []string{ofModes, ofSweep} {
		files, err := readAll(folder, kind)
		if err != nil {
			return err
		}
		reports[kind] = newReport(files)
	}
	r := reports[ofModes]
	tables := r.tables()
	tables[ofSweep] = reports[ofSweep].sweepTable()
	if len(r.files)+len(reports[ofSweep].files) == 0 {
		return fmt.Errorf("%s: no %s-*.jsonl, no %s-*.jsonl", folder, ofModes, ofSweep)
	}
	if err := os.MkdirAll(filepath.Join(out, "figures"), 0o755); err != nil {
		return err
	}
	for _, p := range r.pictures() {
		if err := os.WriteFile(filepath.Join(out, "figures", p.name+".svg"), []byte(p.svg), 0o644); err != nil {
			return err
		}
	}
	for _, name := range documents {
		name = filepath.Join(out, name)
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		text2, err := fill(string(text), tables)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(text2), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// documents have tables between marks; their names are relative to the documentation's folder.
var documents = []string{"PAPERS.md", "BENCHMARKS.md", "SCHEDULE.md", "SPECULATION.md", "../README.md"}

const (
	beginMark = "<!-- figures: "
	endMark   = "<!-- end of figures -->"
)

// fill replaces what is between each pair of marks by the table that the first one names.
func fill(text string, tables map[string]string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, beginMark)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, ok := strings.Cut(rest, " -->")
		_, after, ended := strings.Cut(rest, endMark)
		if !ok || !ended {
			return "", fmt.Errorf("the mark %q has no end", beginMark+name)
		}
		table, ok := tables[name]
		if !ok {
			return "", fmt.Errorf("no table is called %q", name)
		}
		if table == "" {
			table = "Not measured.\n"
		}
		b.WriteString(beginMark + name + " -->\n" + table + endMark)
		text = after
	}
}
