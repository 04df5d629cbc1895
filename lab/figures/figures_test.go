package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/plan"
)

var testColumns = []column{{"avx512", 2}, {"avx2", 2}}

// made is a results file with made-up figures for all cells of a mode: time does not run in it, so that what is
// rendered is always the same.
func made(t *testing.T, name string, h header, m mode) {
	t.Helper()
	j, err := openJournal(name, h)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	rng := rand.New(rand.NewPCG(3, 4))
	list := experiments()
	for i, c := range testColumns {
		keys := cells(list, c, i == 0, m)
		if err := j.write(line{Memory: &memory{c.String(), "before", 48, "2026-01-02 03:04"}}); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if err := j.add(madeCell(rng, k, float64(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.write(line{Memory: &memory{c.String(), "after", 50, "2026-01-02 03:14"}}); err != nil {
			t.Fatal(err)
		}
	}
}

func madeCell(rng *rand.Rand, k key, slower float64) cell {
	c := cell{key: k}
	switch k.Experiment {
	case "costs":
		c.Rows = []bench.Row{{Kind: "decode", Tokens: 1, PassSeconds: 0.02, TokensPerSecond: 50, RatioToDecode: 1}}
		for _, n := range verified {
			ratio := 1 + 0.01*float64(n)*(1+8*slower)
			c.Rows = append(c.Rows, bench.Row{Kind: "verify", Tokens: n, PassSeconds: 0.02 * ratio, RatioToDecode: ratio})
		}
		c.Rows = append(c.Rows, bench.Row{Kind: "prefill", Tokens: 128, TokensPerSecond: 600, RatioToDecode: 12})
		for _, n := range []int{1, 4, 16, 64} {
			c.Rows = append(c.Rows, bench.Row{Kind: "batch", Tokens: n, Context: 8, TokensPerSecond: 10 * float64(n)})
		}
		return c
	case "plan":
		c.Plan = &plan.Prediction{Auto: 2.25}
		for _, n := range plan.Lengths {
			c.Plan.Lengths = append(c.Plan.Lengths, plan.Length{Length: n, Speedup: 1.5 + 0.0625*float64(n)})
		}
		return c
	case "frequency":
		c.Groups = []group{{10, 50, 40}, {100, 30, 15}, {0, 20, 5}}
		return c
	case "redistribution":
		c.Chances = []chance{{"\n", 0.5, 0.25, 0.5}, {" x", 0.125, 0.5, 0}, {"(", 0.25, 0.125, 0.25},
			{"all others", 0.125, 0.125, 0.25}}
		return c
	}
	const tokens = 64
	x := experimentOf(k.Experiment)
	settings := x.at(k.Temperature)
	switch {
	case k.Experiment == "receipt":
		c.Receipt = &receipt{Tokens: 192, Writing: 4, Drafted: 2, Confirm: 0.5, Passes: 4, Tampered: 8,
			Refused: 8, Positions: 8}
		return c
	case k.Experiment == sweep:
		settings = []compare.Setting{settingAt(k, 0), settingAt(k, 2), settingAt(k, 3), settingAt(k, 4)}
	case k.Experiment == rank:
		settings = nil
	case x.inner > 0:
		c.Series = []series{{Setting: "plain", Tokens: 8, Target: 8, Seconds: []float64{0.12, 0.125, 0.13}}}
		for i, s := range settings {
			c.Series = append(c.Series, series{Setting: s.String(), Tokens: 8, Target: 3, Draft: 12,
				Seconds: []float64{0.06 + 0.001*float64(i), 0.061 + 0.001*float64(i)}})
		}
		return c
	}
	c.Runs = []run{{Setting: "plain", Tokens: tokens, Seconds: 0.02 * tokens, Before: 0.02, After: 0.02,
		Rounds: tokens, Target: tokens}}
	for i, s := range settings {
		rounds := 20 + i + rng.IntN(12)
		one := run{Setting: s.String(), Tokens: tokens, Before: 0.02, After: 0.02, Rounds: rounds, Target: rounds,
			Draft: 4 * rounds, Drafted: 4 * rounds, Accepted: tokens - rounds,
			Drafting: digits(0.001 * float64(rounds)), Verifying: digits(0.02 * float64(rounds) * (1.05 + 0.5*slower))}
		one.Seconds = digits(one.Drafting + one.Verifying + 0.002)
		if x.counts {
			one.Seconds, one.Before, one.After, one.Drafting, one.Verifying = 0, 0, 0, 0, 0
			for at := range rounds {
				one.Lengths = append(one.Lengths, 1+(at+i)%7)
			}
			for at := range byPosition {
				one.DraftedAt, one.AcceptedAt = append(one.DraftedAt, rounds), append(one.AcceptedAt, rounds/(at+2))
			}
		}
		c.Runs = append(c.Runs, one)
	}
	return c
}

var testHeader = header{Schema: schema, Commit: "abc1234", CPU: "A CPU (family 1, model 2)", Cores: 2,
	System: "linux/amd64", Go: "go1.26", Machine: "a machine", Date: "2026-01-02"}

// All tables and charts of the full mode are there and well-formed, and no cell of a table says NaN.
func TestRender(t *testing.T) {
	dir := os.Getenv("FIGURES_OUT") // to look at them
	if dir == "" {
		dir = t.TempDir()
	}
	folder := filepath.Join(dir, "docs", "figures")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	made(t, filepath.Join(folder, "results-a.jsonl"), testHeader, fullMode)
	later := testHeader
	later.Commit = "def5678" // the sweep's table names its own
	made(t, filepath.Join(folder, "sweep-a.jsonl"), later, sweepMode)
	files, err := readAll(folder, ofModes)
	if err != nil {
		t.Fatal(err)
	}
	sweeps, err := readAll(folder, ofSweep)
	if err != nil {
		t.Fatal(err)
	}
	tables := newReport(files).tables()
	tables[ofSweep] = newReport(sweeps).sweepTable()
	var text strings.Builder
	for name, table := range tables {
		if table == "" || strings.Contains(table, "NaN") || strings.Contains(table, "Inf") {
			t.Errorf("table %s: %q", name, table)
		}
		for _, l := range strings.Split(table, "\n") {
			if strings.HasPrefix(l, "|") && strings.Count(l, "|") != strings.Count(table[:strings.Index(table, "\n")], "|") {
				t.Errorf("table %s: the line %q has other columns than the head", name, l)
			}
		}
		fmt.Fprintf(&text, "## %s\n%s%s -->\nto be replaced\n%s\n\n", name, beginMark, name, endMark)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "PAPERS.md"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := renderAll(filepath.Join(dir, "docs"), folder); err != nil {
		t.Fatal(err)
	}
	filled, err := os.ReadFile(filepath.Join(dir, "docs", "PAPERS.md"))
	if err != nil || strings.Contains(string(filled), "to be replaced") ||
		!strings.Contains(string(filled), "| AVX-512, 2 threads: speedup |") ||
		!strings.Contains(string(filled), "a machine: commit def5678, 2026-01-02.") {
		t.Errorf("the tables are not all in: %v", err)
	}
	pictures, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil || len(pictures) != 11 {
		t.Errorf("%d pictures: %v", len(pictures), err)
	}
	for _, name := range pictures {
		svg, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(string(svg)))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "http") &&
			strings.Count(string(svg), "http") != strings.Count(string(svg), "http://www.w3.org/2000/svg") {
			t.Errorf("%s: not a number, or something from elsewhere", name)
		}
	}
}

// A claim whose experiment is not in the results says so.
func TestClaimsWithoutResults(t *testing.T) {
	table := newReport([]*results{{header: testHeader}}).claims()
	if n := strings.Count(table, "| not in these results |"); n < 10 || strings.Count(table, "\n") != len(claimList)+2 {
		t.Errorf("%d claims say that they are not in the results:\n%s", n, table)
	}
}

// The table by draft length, worked by hand: two prompts, both of 2 measured, the latter capped at 1.6 by its 40
// passes' formula.
func TestLengthTable(t *testing.T) {
	text := func(seconds float64, rounds int) run {
		return run{Setting: settingName("model", "constant", "greedy", 3), Tokens: 64, Seconds: seconds, Before: 0.0625,
			After: 0.0625, Rounds: rounds, Target: rounds}
	}
	changed := text(1, 16)
	changed.After = changed.Before / 1.25
	r := newReport([]*results{{header: testHeader, cells: []cell{
		{key: key{Experiment: "length", Column: "avx2/1", Set: code, Prompt: "a"}, Runs: []run{text(2, 16)}},
		{key: key{Experiment: "length", Column: "avx2/1", Set: code, Prompt: "b"}, Runs: []run{text(2, 40)}},
		{key: key{Experiment: "length", Column: "avx2/1", Set: code, Prompt: "memory became faster"}, Runs: []run{changed}},
		{key: key{Experiment: "length", Column: "avx2/1", Set: copied, Prompt: "c"}, Runs: []run{text(9, 40)}},
		{key: key{Experiment: "length", Column: "avx2/2", Set: code, Prompt: "c"}, Runs: []run{text(9, 40)}},
	}}})
	table := strings.Split(r.length(), "\n")
	// 64 tokens of 62.5 ms are 4 s of plain decoding: 2 s are a speedup of 2; 40 passes allow 64/40 = 1.6 at most, and
	// 16 passes 4.
	want := []string{
		"| tokens in a draft | 1 | 2 | 3 | 4 | 5 | 7 | 10 | auto |",
		"|---|---|---|---|---|---|---|---|---|",
		"| AVX2, 1 thread: speedup |  |  | 1.80† (1.60-2.00) |  |  |  |  |  |",
		"| formula |  |  | 2.80 |  |  |  |  |  |",
		"| tokens in a pass of the target |  |  | 2.67 |  |  |  |  |  |",
	}
	if all, out := r.views[0].unsteady(); all != 4 || out != 1 {
		t.Errorf("%d of %d runs are left out", out, all)
	}
	if !slices.Equal(table[:len(want)], want) || !strings.Contains(r.length(), "AVX2, 1 thread: 2 prompts") {
		t.Errorf("got\n%s", strings.Join(table, "\n"))
	}
	if chart, _ := r.lengthChart(); !strings.Contains(chart, "AVX2, 1 thread (2 prompts)") {
		t.Errorf("the legend does not say how many prompts: %s", chart)
	}
}

func TestFill(t *testing.T) {
	tables := map[string]string{"a": "A\n", "none": ""}
	got, err := fill("x\n<!-- figures: a -->\nold\n<!-- end of figures -->\ny\n<!-- figures: none -->\n<!-- end of "+
		"figures -->", tables)
	if want := "x\n<!-- figures: a -->\nA\n<!-- end of figures -->\ny\n<!-- figures: none -->\nNot measured.\n<!-- end " +
		"of figures -->"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if again, err := fill(got, tables); again != got || err != nil {
		t.Errorf("again: %q, %v", again, err)
	}
	for _, bad := range []string{"<!-- figures: a -->\nold", "<!-- figures: b -->\n<!-- end of figures -->"} {
		if _, err := fill(bad, tables); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The quick mode's cells are among the full mode's, each once; there the headline tables have 30 prompts of a kind, and
// those of details 10.
func TestModes(t *testing.T) {
	list := experiments()
	full := cells(list, testColumns[0], true, fullMode)
	count := map[key]int{}
	for _, k := range full {
		count[k]++
	}
	for k, n := range count {
		if n != 1 {
			t.Errorf("%+v is run %d times", k, n)
		}
	}
	for _, x := range list {
		all := x.keys(x.full, "c", true)
		for _, k := range x.keys(x.quick, "c", true) {
			if !slices.Contains(all, k) {
				t.Errorf("%+v is run by the quick mode only", k)
			}
		}
	}
	prompts := map[string]map[string]bool{}
	for _, k := range full {
		name := k.Experiment + " " + k.Set
		if prompts[name] == nil {
			prompts[name] = map[string]bool{}
		}
		prompts[name][k.Prompt] = true
	}
	for x, least := range map[string]int{"drafters code": 30, "drafters copy": 30, "drafters open": 30, "counts open": 30,
		"length code": 10, "schedules code": 10, "verifiers code": 10} {
		if len(prompts[x]) < least {
			t.Errorf("%s: %d prompts", x, len(prompts[x]))
		}
	}
}

// What is counted is measured for real, on the embedded pair, until the time is used up; then the rest.
func TestMeasure(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	now := time.Unix(0, 0)
	start := func() *lab {
		j, err := openJournal(name, testHeader)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.close() })
		return &lab{ctx: context.Background(), journal: j, columns: []column{{"", 1}}, log: io.Discard,
			took: map[string]time.Duration{},
			now:  func() time.Time { now = now.Add(10 * time.Second); return now }, load: func() load { return load{} },
			measure: func(*lab, column) (float64, error) { return 12.5, nil }}
	}
	x := *experimentOf("counts")
	x.settings, x.tokens = x.settings[2:4], 8 // dynamic and the oracle
	x.quick = amount{prompts: 2, sets: []string{code}}
	special := *experimentOf("redistribution")
	list := []experiment{x, special}
	l := start()
	l.deadline = now.Add(75 * time.Second) // a session needs 30 seconds, and each look at the clock takes 10
	if err := l.run(list, quickMode); !errors.Is(err, errBudget) {
		t.Fatal(err)
	}
	first := len(l.journal.done)
	if first == 0 || first == 3 {
		t.Fatalf("%d cells before the time was used up", first)
	}
	l = start()
	if err := l.run(list, quickMode); err != nil {
		t.Fatal(err)
	}
	if err := l.report(); err != nil {
		t.Error(err)
	}
	r, err := readResults(name)
	if err != nil || len(r.cells) != 3 || len(r.memory) != 4 || r.memory[1].When != "after" || r.memory[1].GBps != 12.5 {
		t.Fatalf("%d cells, memory %+v: %v", len(r.cells), r.memory, err)
	}
	for _, c := range r.cells {
		if c.Experiment == "redistribution" {
			var p, q, residual float64
			for _, x := range c.Chances {
				p, q, residual = p+x.P, q+x.Q, residual+x.Residual
			}
			if math.Abs(p-1) > 0.01 || math.Abs(q-1) > 0.01 || math.Abs(residual-1) > 0.01 {
				t.Errorf("the probabilities %+v add up to %v, %v and %v", c.Chances, p, q, residual)
			}
			continue
		}
		if len(c.Runs) != 3 || c.Runs[0].Setting != "plain" || c.Runs[0].Target != 8 ||
			c.Runs[2].Target > c.Runs[1].Target || len(c.Runs[2].Lengths) == 0 || c.Runs[1].Seconds != 0 {
			t.Errorf("%+v", c)
		}
	}
	l = start()
	if err := l.run(list, quickMode); err != nil || len(l.benches) != 0 {
		t.Errorf("what is measured is measured again: %v", err)
	}
}

// Every cell is measured on all columns before the next one, and who begins changes; no cell is left out or measured
// twice.
func TestColumnsTakeTurns(t *testing.T) {
	columns := []column{{"avx512", 2}, {"avx2", 2}, {"avx2", 1}}
	for _, m := range []mode{quickMode, fullMode, sweepMode} {
		keys := inTurn(experiments(), columns, m)
		want := map[key]bool{}
		for i, c := range columns {
			for _, k := range cells(experiments(), c, i == 0, m) {
				want[k] = true
			}
		}
		for _, k := range keys {
			if !want[k] {
				t.Errorf("%+v is not asked for, or is measured twice", k)
			}
			delete(want, k)
		}
		if len(want) > 0 || len(keys) == 0 {
			t.Errorf("%d of %d cells are left out", len(want), len(keys))
		}
		first, seen := map[string]int{}, map[key]bool{}
		for i := 0; i < len(keys); {
			cell := keys[i]
			cell.Column = ""
			if seen[cell] {
				t.Fatalf("%+v is measured apart from the other columns", keys[i])
			}
			seen[cell] = true
			n := 0
			for i+n < len(keys) && sameCell(keys[i+n], cell) {
				n++
			}
			if n == len(columns) {
				first[keys[i].Column]++
			}
			i += n
		}
		if a, b := first["avx512/2"], first["avx2/1"]; a == 0 || max(a, b) > 2*min(a, b)+1 {
			t.Errorf("who begins: %v", first)
		}
	}
}

func sameCell(k, cell key) bool {
	k.Column = ""
	return k == cell
}

// A text that differs although its verifier promises plain decoding's is an error.
func TestDiffers(t *testing.T) {
	l := &lab{broken: []string{"length, model constant 1 greedy, prompt a"}}
	if err := l.report(); err == nil || !strings.Contains(err.Error(), "prompt a") {
		t.Error(err)
	}
}

func TestPrompts(t *testing.T) {
	for _, name := range allSets {
		ids := map[string]bool{}
		texts := map[string]bool{}
		for _, p := range promptSet(name) {
			ids[p.ID], texts[p.Text] = true, true
		}
		if n := len(promptSet(name)); n < 30 || len(ids) != n || len(texts) != n {
			t.Errorf("%s: %d prompts, %d names, %d texts", name, n, len(ids), len(texts))
		}
	}
	if x := compare.Median([]float64{3, 1, 2}); x != 2 {
		t.Error(x)
	}
}

// Twelve tokens: ten that occur twice, then two that occur once.
func TestGrouped(t *testing.T) {
	count, same := map[int]int{}, map[int]int{}
	for i := range 10 {
		count[100-i], same[100-i] = 2, 1
	}
	count[1], count[2], same[2] = 1, 1, 1
	want := []group{{10, 20, 10}, {100, 2, 1}, {0, 0, 0}}
	if got := grouped(count, same); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestFileName(t *testing.T) {
	if got := fileName("AMD EPYC (family 26, model 2)"); got != "amd-epyc-family-26-model-2" {
		t.Error(got)
	}
}

// What is counted is told of as many prompts as were counted, in tables and below charts.
func TestNumbersOfPrompts(t *testing.T) {
	r := &results{header: testHeader}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"counts", "temperatures"} {
		for _, k := range experimentOf(name).keys(amount{prompts: 7}, "avx2/1", true) {
			r.cells = append(r.cells, madeCell(rng, k, 0))
		}
	}
	all := newReport([]*results{r})
	told := map[string]string{"counts": all.counts(), "lookahead, table": all.lookahead()}
	for _, p := range all.pictures() {
		text := regexp.MustCompile("<[^>]*>").ReplaceAllString(p.svg, " ")
		told[p.name] = strings.Join(strings.Fields(text), " ")
	}
	for name, want := range map[string]string{"counts": "7 prompts of each kind",
		"lookahead, table": "all 7 prompts, code", "acceptance": "7 prompts of each kind",
		"lookahead": "7 prompts of each kind", "temperatures": "7 code prompts"} {
		if !strings.Contains(told[name], want) {
			t.Errorf("%s: no %q in\n%s", name, want, told[name])
		}
	}
}

// A prediction that was disturbed each time is in no table, as other times are not.
func TestDisturbedPrediction(t *testing.T) {
	c := cell{key: key{Experiment: "plan", Column: "avx2/1"}, Plan: &plan.Prediction{Auto: 2.25}}
	for disturbed, want := range map[string]bool{"": true, "others took 50 % of the CPUs and the host 0 %": false} {
		c.Disturbed = disturbed
		table := newReport([]*results{{header: testHeader, cells: []cell{c}}}).plan()
		if strings.Contains(table, "2.25") != want {
			t.Errorf("disturbed %q: %s", disturbed, table)
		}
	}
}

// A session that was killed has no bandwidth behind it, and takes none of the next session's.
func TestMemoryOfAKilledSession(t *testing.T) {
	r := &results{header: testHeader, cells: []cell{{key: key{Experiment: "length", Column: "avx2/1"}}},
		memory: []memory{{"avx2/1", "before", 48, ""}, {"avx2/2", "after", 99, ""}, {"avx2/1", "before", 60, ""},
			{"avx2/1", "after", 50, ""}}}
	if table := newReport([]*results{r}).machines(); !strings.Contains(table, "| 48, 60-50 |") {
		t.Error(table)
	}
}

// A drafter of which no run counts has no bar of its time.
func TestTimeWithoutASteadyRun(t *testing.T) {
	one := run{Setting: settingName("model", "auto", "greedy", 0), Tokens: 64, Seconds: 2, Before: 0.02, After: 0.05,
		Rounds: 20, Target: 20}
	r := &results{header: testHeader, cells: []cell{
		{key: key{Experiment: "drafters", Column: "avx2/1", Set: code, Prompt: "a"}, Runs: []run{one}}}}
	if chart := newReport([]*results{r}).timeChart(); chart != "" {
		t.Error(chart)
	}
}
