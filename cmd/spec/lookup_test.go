package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file whose name is as long as names may be has an index too, which a newer one replaces; its own name is cut.
func TestLookupOfALongName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SPEC_CACHE", dir)
	file := filepath.Join(dir, strings.Repeat("é", 120)+".txt")
	for i, text := range []string{"some text", "another text"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Skip(err)
		}
		if _, stderr, code := spec(t, "", "lookup", "build", file); code != exitDone {
			t.Fatalf("%d: exit %d, %s", i, code, stderr)
		}
	}
	if made := filesLike(filepath.Join(dir, "lookup"), "*"); len(made) != 1 {
		t.Errorf("%q", made)
	}
}

// --lookup drafts from other texts and leaves the text as it is; an index is made once, found again, made anew when its
// files change, and refused for another vocabulary; what is damaged is named.
func TestLookup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b") // a name and no pattern
	t.Setenv("SPEC_CACHE", dir)
	args := func(more ...string) []string {
		return append([]string{"generate", "-p", "func main() {\n", "-n", "48", "--temp", "0", "--schedule", "constant",
			"--json"}, more...)
	}
	run := func(args []string) (r result, stderr string) {
		t.Helper()
		stdout, stderr, code := spec(t, "", args...)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%v: exit %d, %v, %s", args, code, err, stderr)
		}
		return r, stderr
	}
	want, _ := run(args())
	folder := filepath.Join(dir, "texts")
	write := func(name, text string) string {
		t.Helper()
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	answer, _ := json.Marshal(map[string]string{"content": "func main() {\n" + want.Text})
	file := write("answers.jsonl", string(answer)+"\n")
	write("other.txt", "nothing of it")
	const made = "made an index"
	for i, x := range []struct {
		more []string
		made bool
	}{
		{[]string{"--lookup", folder, "--drafter", "lookup"}, true},
		{[]string{"--lookup", folder, "--drafter", "tree"}, false},
		{[]string{"--lookup", file, "--drafter", "splice", "--lookup", folder}, true},
	} {
		r, stderr := run(args(x.more...))
		if r.Text != want.Text || r.Stats.Accepted < 20 || strings.Contains(stderr, made) != x.made {
			t.Errorf("%d: %+v, %s, %q, want %q", i, r.Stats, stderr, r.Text, want.Text)
		}
	}
	write("other.txt", "something else")
	now, old := filepath.Join(dir, "lookup", ".texts-1"+lookupEnd+"-1"),
		filepath.Join(dir, "lookup", ".texts-2"+lookupEnd+"-2-3")
	for file, age := range map[string]time.Duration{now: time.Hour, old: 25 * time.Hour} { // of programs that were killed
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr := run(args("--lookup", folder, "--drafter", "lookup")); !strings.Contains(stderr, made) {
		t.Errorf("files changed: %s", stderr)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an unfinished index stays")
	}
	if made := filesLike(filepath.Join(dir, "lookup"), "texts-*"+lookupEnd); len(made) != 1 {
		t.Errorf("indexes of one folder: %q", made)
	}
	if err := os.Remove(now); err != nil {
		t.Errorf("an index that is being made is deleted: %v", err)
	}
	index := filepath.Join(dir, "index")
	if stdout, stderr, code := spec(t, "", "lookup", "build", "-o", index, file); code != 0 ||
		!strings.Contains(stdout, "1 texts") || !strings.Contains(stdout, file) {
		t.Errorf("build: exit %d, %s, %s", code, stdout, stderr)
	}
	if r, stderr := run(args("--lookup", index, "--drafter", "lookup")); r.Text != want.Text || r.Stats.Accepted < 20 ||
		strings.Contains(stderr, made) {
		t.Errorf("%+v, %s", r.Stats, stderr)
	}
	var list struct {
		Files []struct {
			File   string `json:"file"`
			Tokens int    `json:"n_tokens"`
		} `json:"files"`
	}
	stdout, _, code := spec(t, "", "lookup", "--json")
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 || len(list.Files) != 2 ||
		list.Files[0].Tokens < 20 {
		t.Errorf("list: exit %d, %v, %s", code, err, stdout)
	}
	if stdout, _, code := spec(t, "", "lookup", "check", filepath.Base(list.Files[0].File), index); code != 0 ||
		strings.Count(stdout, "intact") != 2 {
		t.Errorf("check: exit %d, %s", code, stdout)
	}
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-5]++
	if err := os.WriteFile(index, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		says string
		args []string
	}{
		{index, []string{"lookup", "check", index}},
		{index, args("--lookup", index, "--drafter", "lookup")},
		{"--lookup PATH", args("--drafter", "lookup")},
		{"--drafter ngram", args("--lookup", folder, "--drafter", "ngram")},
		{"no such file", args("--lookup", filepath.Join(dir, "none"), "--drafter", "lookup")},
		{"of what", []string{"lookup", "rm"}},
		{"no name of", []string{"lookup", "rm", "../texts/answers.jsonl"}},
		{"expected", []string{"lookup", "burn"}},
		{"go with build", []string{"lookup", "list", "-o", index}},
		{"--json is for the list", []string{"lookup", "check", index, "--json"}},
		{"--json is for the list", []string{"lookup", "build", file, "--json"}},
	} {
		if _, stderr, code := spec(t, "", x.args...); code == 0 || !strings.Contains(stderr, x.says) {
			t.Errorf("%v: exit %d, %s", x.args, code, stderr)
		}
	}
	bad := filepath.Join(dir, "lookup", "a"+lookupEnd) // the first of the list
	if err := os.WriteFile(bad, []byte("no index"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := list.Files[0].File
	for _, x := range [][]string{{"lookup"}, {"lookup", "list", "--json"}, {"lookup", "check", bad, good}} {
		if stdout, stderr, code := spec(t, "", x...); code != exitFailed || !strings.Contains(stdout, good) ||
			!strings.Contains(stderr, bad) || strings.Contains(stderr, good) {
			t.Errorf("%v beside a damaged index: exit %d, %s, %s", x, code, stdout, stderr)
		}
	}
	if _, stderr, code := spec(t, "", "lookup", "rm", filepath.Base(bad)); code != 0 {
		t.Errorf("rm of a damaged index: exit %d, %s", code, stderr)
	}
	table, stderr, code := spec(t, "", "compare", "--drafter", "lookup", "--schedule", "constant", "--lookup", folder,
		"--max-prompts", "1", "-n", "16", "-r", "1", "--json")
	if code != 0 || !strings.Contains(table, `"lookup"`) {
		t.Errorf("compare: exit %d, %s, %s", code, stderr, table)
	}
	for _, f := range list.Files {
		if _, stderr, code := spec(t, "", "lookup", "rm", filepath.Base(f.File)); code != 0 {
			t.Errorf("rm: exit %d, %s", code, stderr)
		}
	}
	if stdout, _, _ := spec(t, "", "lookup"); !strings.HasPrefix(stdout, "no indexes") {
		t.Errorf("after rm: %s", stdout)
	}
}
