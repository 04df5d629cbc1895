package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The published tables and charts are what the results say, and no commit but one of the results is named beside them.
func TestDocumentsAreOfTheirCommits(t *testing.T) {
	files, err := readAll("../results", ofModes)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range documents {
		name = filepath.Join("docs", name)
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := renderAll(filepath.Join(dir, "docs"), "../results"); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+string(filepath.Separator))
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			return err
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what go -C lab run ./figures -render writes", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hash := regexp.MustCompile(`\b[0-9a-f]{7,40}\b`)
	for _, name := range []string{"docs/PAPERS.md", "docs/BENCHMARKS.md"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range hash.FindAllString(string(text), -1) {
			known := slices.ContainsFunc(files, func(r *results) bool { return r.Commit == word })
			if !known && strings.ContainsAny(word, "abcdef") && strings.ContainsAny(word, "0123456789") {
				t.Errorf("%s names the commit %s, of which no results are", name, word)
			}
		}
	}
}
