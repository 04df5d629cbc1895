package main

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/testkit"
)

// Two CPUs for 10 s: this process took 11 s of them, the others 2 s, the host 1 s.
func TestShares(t *testing.T) {
	const self = "123 (a (strange) name) R 1 2 3 4 5 6 7 8 9 10 %USER% %SYSTEM% 0 0 20"
	stat := func(user, system, idle, steal string) string {
		return "cpu  " + user + " 10 " + system + " " + idle + " 50 0 5 " + steal +
			" 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5 6\n"
	}
	own := func(user, system string) string {
		return strings.NewReplacer("%USER%", user, "%SYSTEM%", system).Replace(self)
	}
	before := parseLoad(stat("1000", "100", "900", "7"), own("500", "50"))
	if before.cpus != 2 || math.Abs(before.busy-11.15) > 1e-9 || math.Abs(before.own-5.5) > 1e-9 ||
		math.Abs(before.stolen-0.07) > 1e-9 {
		t.Errorf("%+v", before)
	}
	after := parseLoad(stat("2200", "200", "1600", "107"), own("1500", "150"))
	others, stolen, ok := shares(before, after, 10)
	if !ok || math.Abs(others-0.1) > 1e-9 || math.Abs(stolen-0.05) > 1e-9 {
		t.Errorf("others %v, stolen %v", others, stolen)
	}
	if _, _, ok := shares(load{}, load{}, 10); ok {
		t.Error("shares of a system that tells nothing")
	}
	for _, bad := range []string{"", "cpu 1 2", "x"} {
		if l := parseLoad(bad, bad); l != (load{}) {
			t.Errorf("%q: %+v", bad, l)
		}
	}
}

func TestDisturbance(t *testing.T) {
	for _, c := range []struct {
		quiet       quiet
		took        float64
		interleaved bool
		want        string
	}{
		{quiet{Others: 0.03, Stolen: 0.01, Before: 50, After: 55}, 10, false, ""},
		{quiet{Others: 0.03, Stolen: 0.03, Before: 50, After: 55}, 10, false, "others took 3 % of the CPUs and the host 3 %"},
		{quiet{Others: 0.2}, 0.2, false, ""}, // 80 ms: a few ticks
		{quiet{Others: 0.2}, 1, false, "others took 20 % of the CPUs and the host 0 %"},
		{quiet{Before: 81, After: 47}, 10, false, "memory 81 GB/s before and 47 after"},
		{quiet{Before: 47, After: 81}, 10, false, "memory 47 GB/s before and 81 after"},
		{quiet{Before: 81, After: 47}, 10, true, ""}, // each run is checked
	} {
		if got := c.quiet.disturbance(c.took, 2, c.interleaved); got != c.want {
			t.Errorf("%+v: %q, want %q", c.quiet, got, c.want)
		}
	}
}

// A cell that is disturbed is measured again, the least disturbed measurement stays and is marked; a later call
// measures it again as long as tries are left, after what was never measured; its times are in no table.
func TestDisturbedCells(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	now, calls := time.Unix(0, 0), 0
	kept := false           // decoders that had learned on a disturbed machine
	var disturbed []float64 // CPUs' share that others take in each measurement
	x := experiment{name: "plan", pair: pairKey{small: true}, quick: amount{prompts: 1},
		special: func(l *lab, x *experiment, c *cell) error {
			calls++
			kept = kept || l.benches[x.kind(c.key)] != nil
			l.benches[x.kind(c.key)] = new(compare.Bench)
			c.GBps = float64(calls)
			return nil
		}}
	second := x
	second.name = "receipt"
	start := func() *lab {
		j, err := openJournal(name, testHeader)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.close() })
		var l load
		l.cpus = 2
		before := false
		return &lab{ctx: context.Background(), journal: j, columns: []column{{"", 1}}, log: io.Discard,
			took:    map[string]time.Duration{},
			now:     func() time.Time { now = now.Add(time.Second); return now },
			measure: func(*lab, column) (float64, error) { return 50, nil },
			load: func() load {
				if before = !before; !before {
					l.busy += 2*disturbed[calls-1] + 0.5
					l.own += 0.5
				}
				return l
			}}
	}
	disturbed = []float64{0.5, 0, 0.3, 0.2, 0.4}
	l := start()
	if err := l.run([]experiment{x}, quickMode); err != nil || calls != 2 || l.journal.cells[0].GBps != 2 ||
		l.journal.cells[0].Disturbed != "" || l.journal.cells[0].Tries != 2 {
		t.Fatalf("disturbed once: %d measurements, %+v, %v", calls, l.journal.cells, err)
	}
	l = start()
	if err := l.run([]experiment{x, second}, quickMode); err != nil || calls != 5 {
		t.Fatalf("disturbed each time: %d measurements, %v", calls, err)
	}
	if c := l.journal.cells[1]; c.Disturbed == "" || c.GBps != 4 || c.Tries != mostTries {
		t.Errorf("the least disturbed measurement is not kept: %+v", c)
	}
	if kept || len(l.benches) != 0 {
		t.Error("decoders that learned on a disturbed machine are used again")
	}
	l = start()
	if err := l.run([]experiment{x, second}, quickMode); err != nil || calls != 5 {
		t.Errorf("measured more often than %d times: %d, %v", mostTries, calls, err)
	}

	// Two tries are used up, one is left: it comes after what was never measured, and takes the cell's place.
	name = filepath.Join(t.TempDir(), "again.jsonl")
	l = start()
	k := x.keys(x.quick, l.columns[0].String(), true)[0]
	if err := l.journal.add(cell{key: k, GBps: 99, Disturbed: "someone", Tries: 2}); err != nil {
		t.Fatal(err)
	}
	disturbed = []float64{0, 0, 0, 0, 0, 0, 0}
	l = start()
	if err := l.run([]experiment{x, second}, quickMode); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(name)
	if err != nil || len(r.cells) != 2 || r.cells[0].key != k || r.cells[0].GBps != 7 ||
		r.cells[0].Disturbed != "" || r.cells[1].GBps != 6 {
		t.Errorf("%+v, %v", r.cells, err)
	}
}

func TestDisturbedTimesAreNotShown(t *testing.T) {
	text := run{Setting: settingName("model", "constant", "greedy", 3), Tokens: 64, Seconds: 2, Before: 0.0625,
		After: 0.0625, Rounds: 16, Target: 16}
	slow := text
	slow.Seconds = 8
	quiet := cell{key: key{Experiment: "length", Column: "avx2/1", Set: code, Prompt: "a"}, Runs: []run{text}}
	loud := cell{key: key{Experiment: "length", Column: "avx2/1", Set: code, Prompt: "b"},
		Runs: []run{slow}, Disturbed: "others"}
	v := newReport([]*results{{header: testHeader, cells: []cell{quiet, loud}}}).views[0]
	if x, _ := v.row("length", code, 0, text.Setting); x.N != 1 || x.Value != 2 {
		t.Errorf("%+v", x.Estimate)
	}
	if all, out := v.unsteady(); all != 2 || out != 1 {
		t.Errorf("%d of %d left out", out, all)
	}
	times := series{Setting: "plain", Seconds: []float64{1}}
	v = newReport([]*results{{header: testHeader, cells: []cell{
		{key: key{Experiment: "stairs-times", Column: "avx2/1"}, Series: []series{times}},
		{key: key{Experiment: "stairs-times", Column: "avx2/1", Repeat: 1}, Series: []series{times}, Disturbed: "others"},
	}}}).views[0]
	if got := v.timesOf("stairs-times", "plain").seconds; !slices.Equal(got, []float64{1}) {
		t.Errorf("times %v", got)
	}
}

// The modes fit their bounds on two kernel sets, by the usual times; cells that were measured count with their own.
func TestModesFit(t *testing.T) {
	var b strings.Builder
	if err := printPlan(&b, experiments(), testColumns, nil); err != nil {
		t.Errorf("%v\n%s", err, b.String())
	}
	for _, x := range experiments() {
		if usualSeconds[x.name] == 0 {
			t.Errorf("%s: how long a cell takes is not known", x.name)
		}
	}
	slow := []cell{}
	for _, k := range experimentOf("length").keys(amount{prompts: 3}, testColumns[0].String(), true) {
		slow = append(slow, cell{key: k, Took: 1000})
	}
	if err := printPlan(&b, experiments(), testColumns, slow); err == nil || !strings.Contains(b.String(), "median of 3") {
		t.Error("cells of 1,000 s fit")
	}
}

// What is measured as a series, for real on the embedded pair.
func TestSeries(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "results.jsonl"), testHeader)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	x := *experimentOf("stairs-times")
	x.pair, x.inner, x.tokens, x.quick = pairKey{small: true}, 3, 4, amount{prompts: 1}
	now, loads, speeds := time.Unix(0, 0), 0, 0
	l := &lab{ctx: context.Background(), journal: j, columns: []column{{"", 1}}, log: io.Discard,
		took: map[string]time.Duration{}, now: func() time.Time { now = now.Add(time.Second); return now },
		load: func() load { // others take half of the CPUs during the first measurement
			loads++
			return load{cpus: 2, busy: min(1, float64(loads-1))}
		},
		measure: func(*lab, column) (float64, error) { // and memory becomes faster during the second
			speeds++
			return []float64{0, 50, 50, 50, 50, 90, 90}[min(speeds, 6)], nil
		}}
	if err := l.run([]experiment{x}, quickMode); err != nil || l.report() != nil || len(j.cells) != 1 {
		t.Fatalf("%v, %v, %d cells", err, l.report(), len(j.cells))
	}
	c := j.cells[0]
	if c.Tries != 2 || c.Disturbed != "" || c.Quiet.Others != 0 {
		t.Errorf("an undisturbed measurement of runs that are compared with their neighbors is not kept: tries %d, %q, %+v",
			c.Tries, c.Disturbed, c.Quiet)
	}
	if len(c.Series) != 4 || c.Series[0].Setting != "plain" || len(c.Runs) > 0 {
		t.Fatalf("%+v", c)
	}
	for i, s := range c.Series {
		if want := []int{9, 3, 3, 3}[i]; len(s.Seconds) != want || s.Tokens != 4 || s.Target == 0 || s.Differs {
			t.Errorf("%+v, want %d times", s, want)
		}
	}
	if got := c.Series[3].Setting; got != settingName("model", "constant", "stairs-batch", 6) {
		t.Error(got)
	}
}

// A receipt for real, of the embedded pair: it is confirmed in passes of 64 tokens, and each changed token is found
// where it is.
func TestReceipt(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "results.jsonl"), testHeader)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	x := *experimentOf("receipt")
	x.pair = pairKey{small: true}
	l := &lab{ctx: context.Background(), journal: j, columns: []column{{"", 1}}, log: io.Discard,
		took: map[string]time.Duration{}, now: time.Now,
		load: func() load { return load{} }, measure: func(*lab, column) (float64, error) { return 12.5, nil }}
	if err := l.run([]experiment{x}, quickMode); err != nil || l.report() != nil || len(j.cells) != 1 ||
		j.cells[0].Receipt == nil {
		t.Fatalf("%v, %v, %+v", err, l.report(), j.cells)
	}
	r := j.cells[0].Receipt
	if r.Tokens != receiptTokens || r.Refused != tampering || r.Positions != tampering || r.Passes < receiptTokens/64 ||
		r.Passes > receiptTokens/64+2 || r.Writing <= 0 || r.Confirm <= 0 {
		t.Errorf("%+v", *r)
	}
}

// Every numbered claim of ../shared/papers.md has a row, once.
func TestClaimsAreComplete(t *testing.T) {
	seen := map[string]int{}
	for _, c := range claimList {
		seen[c.id]++
		if seen[c.id] > 1 || sources[c.id[0]] == "" || c.run == "" && c.verdict != notRun {
			t.Errorf("%+v", c)
		}
	}
	for _, id := range sharedClaims(t) {
		if seen[id] == 0 {
			t.Errorf("%s has no row", id)
		}
		delete(seen, id)
	}
	if len(seen) > 0 {
		t.Errorf("rows of claims that are not in the list: %v", seen)
	}
}

// sharedClaims are the ids in the first column of the tables.
func sharedClaims(t *testing.T) (ids []string) {
	t.Helper()
	text, err := os.ReadFile(testkit.Shared(t, "papers.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Split(line, "|"); len(f) > 2 && strings.ContainsAny(strings.TrimSpace(f[1]), "0123456789") {
			ids = append(ids, strings.TrimSpace(f[1]))
		}
	}
	return ids
}
