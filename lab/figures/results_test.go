package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A kill in the middle of a line loses that cell and nothing else; what is there is not measured again.
func TestResume(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	made(t, name, testHeader, quickMode)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cut := whole[:len(whole)*2/3] // within a line, as the next byte shows
	if cut[len(cut)-1] == '\n' {
		t.Fatal("choose another place")
	}
	if err := os.WriteFile(name, cut, 0o644); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(name, testHeader)
	if err != nil {
		t.Fatal(err)
	}
	kept, all := len(j.done), 0
	missing := []key{}
	for i, c := range testColumns {
		for _, k := range cells(experiments(), c, i == 0, quickMode) {
			if all++; !j.done[k] {
				missing = append(missing, k)
			}
		}
	}
	if kept+len(missing) != all || len(missing) == 0 || kept == 0 {
		t.Fatalf("%d cells kept, %d missing, of %d", kept, len(missing), all)
	}
	for _, k := range missing {
		if err := j.add(cell{key: k}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.add(cell{key: missing[0]}); err == nil {
		t.Error("a cell is added twice")
	}
	j.close()
	r, err := readResults(name)
	if err != nil || len(r.cells) != all {
		t.Fatalf("%d cells of %d: %v", len(r.cells), all, err)
	}
}

// Results of another commit, CPU, number of cores, system or Go release are not mixed, neither in a file nor in a
// folder.
func TestOtherCommit(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "results-a.jsonl")
	made(t, name, testHeader, quickMode)
	for _, change := range []func(*header){
		func(h *header) { h.Commit = "def5678" }, func(h *header) { h.CPU = "another" }, func(h *header) { h.Cores = 3 },
		func(h *header) { h.System = "linux/arm64" }, func(h *header) { h.Go = "go1.27" },
	} {
		h := testHeader
		change(&h)
		if _, err := openJournal(name, h); !errors.Is(err, errOther) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	h := testHeader
	h.Date = "2026-01-03" // continued the next day
	j, err := openJournal(name, h)
	if err != nil {
		t.Fatal(err)
	}
	j.close()
	h.CPU = "another"
	made(t, filepath.Join(dir, "results-b.jsonl"), h, quickMode)
	if list, err := readAll(dir, ofModes); err != nil || len(list) != 2 {
		t.Errorf("another CPU beside the first: %d files, %v", len(list), err)
	}
	// each machine's rows name its commit
	h.Machine, h.Commit = "another machine", "def5678"
	made(t, filepath.Join(dir, "results-c.jsonl"), h, quickMode)
	made(t, filepath.Join(dir, "sweep-a.jsonl"), testHeader, sweepMode)
	made(t, filepath.Join(dir, "sweep-c.jsonl"), h, sweepMode)
	for kind, files := range map[string]int{ofModes: 3, ofSweep: 2} {
		list, err := readAll(dir, kind)
		if err != nil || len(list) != files {
			t.Fatalf("%s: %d files, %v", kind, len(list), err)
		}
		r := newReport(list)
		for _, text := range []string{r.machines(), r.origin()} {
			if !strings.Contains(text, testHeader.Commit) || !strings.Contains(text, h.Commit) {
				t.Errorf("%s: a commit is not named: %s", kind, text)
			}
		}
	}
	// and are of one
	for _, kind := range []string{ofModes, ofSweep} {
		h.Machine = testHeader.Machine
		name := filepath.Join(dir, kind+"-d.jsonl")
		made(t, name, h, quickMode)
		if _, err := readAll(dir, kind); !errors.Is(err, errOther) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: two commits of one machine: %v", kind, err)
		}
	}
}

func TestBadResults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	for _, text := range []string{"{}\n", "x\n", `{"cell":{"x":"length"}}` + "\n", `{"results":{"schema":99}}` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readResults(name); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A clone has the results of another machine and commit. The command measures beside them and renders both; here it
// measures nothing: the time is over at once.
func TestCommandBesideOlderResults(t *testing.T) {
	dir := t.TempDir()
	docs := filepath.Join(dir, "docs")
	folder := filepath.Join(docs, "figures")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	made(t, filepath.Join(folder, "results-a.jsonl"), testHeader, quickMode)
	page := filepath.Join(docs, "PAPERS.md")
	if err := os.WriteFile(page, []byte(beginMark+"length -->\nold\n"+endMark+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	defer func(c string) { commit = c }(commit)
	commit = "def5678"
	name := filepath.Join(folder, "results-b.jsonl")
	if err := command(t.Context(), []string{"-quick", "-budget", "1s", "-simd", "scalar", "-out", docs, "-results",
		name}); err != nil {
		t.Fatal(err)
	}
	if r, err := readResults(name); err != nil || r.Commit != commit {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "AVX-512, 2 threads: speedup |") {
		t.Errorf("%v, %s", err, text)
	}
}

// Where there are several machines their names are short as long as they tell them apart.
func TestNamesOfMachines(t *testing.T) {
	for _, x := range []struct {
		machines []string
		want     string
	}{
		{[]string{"Zen 3 (two cores)"}, "AVX2, 1 thread"},
		{[]string{"Zen 3 (two cores)", "Zen 5 (two cores)"}, "Zen 3, AVX2, 1 thread"},
		{[]string{"Zen 3 (two cores)", "Zen 5", "Zen 3 (four cores)"}, "Zen 3 (two cores), AVX2, 1 thread"},
	} {
		var files []*results
		for _, m := range x.machines {
			files = append(files, &results{header: header{Machine: m}})
		}
		if got := newReport(files).name(view{files[0], "avx2/1"}); got != x.want {
			t.Errorf("%q: %q, want %q", x.machines, got, x.want)
		}
	}
}
