package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/bench"
)

func TestPassTimes(t *testing.T) {
	p := newPassTimes([]bench.Row{{Kind: "decode", Tokens: 1, PassSeconds: 1},
		{Kind: "verify", Tokens: 2, PassSeconds: 1.5}, {Kind: "verify", Tokens: 4, PassSeconds: 3.5},
		{Kind: "prefill", Tokens: 128, PassSeconds: 9}, {Kind: draftKind, Tokens: 1, PassSeconds: 0.25}})
	for tokens, want := range map[int]float64{1: 1, 2: 1.5, 3: 2.5, 4: 3.5, 6: 5.5} {
		if got := p.at(tokens); math.Abs(got-want) > 1e-12 {
			t.Errorf("a pass of %d tokens: %v, want %v", tokens, got, want)
		}
	}
	// Two rounds without a draft, three of one drafted token, one of three: 2*1 + 3*1.5 + 3.5, and six passes of the
	// draft model, for ten tokens.
	r := run{Tokens: 10, Draft: 6, Drafts: []int{2, 3, 0, 1}}
	if got := p.predicted(&r); math.Abs(got-1.15) > 1e-12 {
		t.Errorf("%v seconds for a token, want 1.15", got)
	}
}

// The lengths are ranked by the costs of their own kernels and the counts of their own set, temperature and drafter.
func TestChooseLengths(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "results.jsonl"), testHeader)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	l := &lab{journal: j}
	k := key{Experiment: sweep, Column: "avx2/2", Set: code, Drafter: "model", Prompt: "ring", Temperature: 0.8}
	if _, err := chooseLengths(l, k); err == nil || !strings.Contains(err.Error(), costs) {
		t.Errorf("without costs: %v", err)
	}
	rows := func(slope float64) (list []bench.Row) {
		list = []bench.Row{{Kind: "decode", Tokens: 1, PassSeconds: 1}, {Kind: draftKind, Tokens: 1, PassSeconds: 0.01}}
		for _, n := range []int{2, 16} {
			list = append(list, bench.Row{Kind: "verify", Tokens: n, PassSeconds: 1 + slope*float64(n-1)})
		}
		return list
	}
	for _, c := range []cell{{key: key{Experiment: costs, Column: "avx512/2"}, Rows: rows(0)},
		{key: key{Experiment: costs, Column: "avx2/2"}, Rows: rows(0.3)}} {
		if err := j.add(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chooseLengths(l, k); err == nil || !strings.Contains(err.Error(), rank) {
		t.Errorf("without counts: %v", err)
	}
	counted := func(k key, perPass func(length int) float64) {
		k.Experiment, k.Column = rank, "avx512/2"
		c := cell{key: k}
		for _, n := range ranked {
			rounds := int(math.Round(1000 / perPass(n)))
			drafts := make([]int, n+1)
			drafts[n] = rounds
			c.Runs = append(c.Runs, run{Setting: settingAt(k, n).String(), Tokens: 1000, Rounds: rounds,
				Draft: n * rounds, Drafts: drafts})
		}
		if err := j.add(c); err != nil {
			t.Fatal(err)
		}
	}
	counted(k, func(n int) float64 { return 3.3 * (1 - math.Pow(0.7, float64(n+1))) }) // of 0.7 accepted
	other := k
	other.Temperature = 0
	counted(other, func(n int) float64 { return 1 + 0.9*float64(n) })
	list, err := chooseLengths(l, k)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.String())
	}
	// By hand: lengths 1 to 5 take 1.31/1.68, 1.62/2.17, 1.93/2.51, 2.24/2.75, 2.55/2.91 seconds for a token: 2 (0.747),
	// 3 (0.769), 1 (0.779).
	want := []string{"model auto match", "model constant 2 match", "model constant 3 match", "model constant 1 match"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	k.Column = "avx512/2" // tokens are free
	list, err = chooseLengths(l, k)
	if err != nil || list[1].DraftMax != 10 && list[1].DraftMax != 7 {
		t.Errorf("%v, %v", list, err)
	}
}

// A sweep that begins anew counts the tokens of passes before it chooses lengths by them, though the pair of the sweep
// is open already for the times of passes; each pair is opened as rarely as that allows.
func TestSweepHasWhatItNeeds(t *testing.T) {
	list := experiments()
	var order []string
	for missing := inTurn(list, testColumns, sweepMode); len(missing) > 0; {
		_, now, later := onePair(list, missing)
		if len(now) == 0 {
			t.Fatalf("%d cells wait for each other", len(missing))
		}
		for _, k := range now {
			if n := len(order); n == 0 || order[n-1] != k.Experiment {
				order = append(order, k.Experiment)
			}
		}
		missing = later
	}
	if want := []string{costs, rank, sweep}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// The table, worked by hand: auto has 1.5 and 1.8 where the best constant length, 3, has 2 and 1.8: 0.75 and 1, in
// the median 0.875. Length 2 is better on one prompt only, and the disturbed cell does not count.
func TestSweepTable(t *testing.T) {
	k := key{Experiment: sweep, Column: "avx2/1", Set: code, Drafter: "tree"}
	text := func(length int, speedup float64) run {
		return run{Setting: settingAt(k, length).String(), Tokens: 64, Seconds: 4 / speedup, Before: 0.0625, After: 0.0625,
			Rounds: 16, Target: 16}
	}
	on := func(prompt, disturbed string, runs ...run) cell {
		k := k
		k.Prompt = prompt
		return cell{key: k, Runs: runs, Disturbed: disturbed}
	}
	r := newReport([]*results{{header: testHeader, cells: []cell{
		on("a", "", text(0, 1.5), text(3, 2), text(2, 1.25)),
		on("b", "", text(0, 1.8), text(3, 1.8), text(2, 1.9)),
		on("c", "others", text(0, 0.1), text(3, 3), text(2, 3)),
	}}})
	table := strings.Split(r.sweepTable(), "\n")
	want := []string{
		"| AVX2, 1 thread | 0 | code | tree | 1.65† (1.50-1.80) | 3: 1.90† (1.80-2.00) | 0.88†‡ (0.75-1.00) |  |",
		"| AVX2, 1 thread |  |  | **all 1 sets** |  |  | **0.875** (geometric mean) | 0 below |",
	}
	if len(table) < 4 || !slices.Equal(table[2:4], want) {
		t.Errorf("got\n%s", strings.Join(table, "\n"))
	}
	slow := text(0, 0.9) // plain decoding is better than any draft
	var cells []cell
	for i, want := range []string{"| plain | 0.90† (0.90-0.90) |  |", "| plain | 0.90† (0.90-0.90) |  |",
		"| plain | 0.90† (0.90-0.90) |  |", "| plain | 0.90† (0.90-0.90) |  |", "| plain | 0.90 (0.90-0.90) | below |"} {
		cells = append(cells, on(string(rune('a'+i)), "", slow, text(3, 0.5), text(2, 0.6)))
		if got := newReport([]*results{{header: testHeader, cells: cells}}).sweepTable(); !strings.Contains(got, want) {
			t.Errorf("%d prompts: got\n%s", i+1, got)
		}
	}
}
