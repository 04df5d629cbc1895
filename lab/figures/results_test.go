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
	if _, _, err := readAll(dir, ofModes, ""); err != nil {
		t.Errorf("another CPU beside the first: %v", err)
	}
	h.Commit = "def5678"
	made(t, filepath.Join(dir, "results-c.jsonl"), h, quickMode)
	if _, _, err := readAll(dir, ofModes, ""); !errors.Is(err, errOther) {
		t.Errorf("another commit beside the first: %v", err)
	}
	made(t, filepath.Join(dir, "sweep-a.jsonl"), testHeader, sweepMode)
	made(t, filepath.Join(dir, "sweep-c.jsonl"), h, sweepMode)
	for _, commit := range []string{"", h.Commit} {
		if list, others, err := readAll(dir, ofSweep, commit); err != nil || len(list) != 2 || others != nil {
			t.Errorf("sweeps: %d files, left out %q, %v", len(list), others, err)
		}
	}
	// what is measured now is rendered, beside a clone's older file
	for commit, files := range map[string]int{testHeader.Commit: 2, h.Commit: 1} {
		if list, others, err := readAll(dir, ofModes, commit); err != nil || len(list) != files || list[0].Commit != commit ||
			len(others) != 3-files {
			t.Errorf("of commit %s: %d files, left out %q, %v", commit, len(list), others, err)
		}
	}
	var log strings.Builder
	err = renderAll(t.TempDir(), dir, ofModes, h.Commit, &log)
	if err != nil || strings.Count(log.String(), "is left out") != 2 {
		t.Errorf("%q, %v", &log, err)
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

// A clone has the results of an older commit. The command measures beside them and renders its own, here none: the
// time is over at once.
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
	for of, want := range map[string]string{"def5678": "Not measured.",
		testHeader.Commit: "AVX-512, 2 threads: speedup |"} {
		commit = of
		args := []string{"-quick", "-budget", "1s", "-simd", "scalar", "-out", docs, "-results",
			filepath.Join(folder, "results-"+of+".jsonl")}
		if err := command(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("of commit %s: %v, %s", of, err, text)
		}
	}
}
