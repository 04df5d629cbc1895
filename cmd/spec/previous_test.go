package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --draft-from changes the drafts and not the text, with and without another drafter; what is no answer is refused.
func TestDraftFrom(t *testing.T) {
	dir := t.TempDir()
	args := func(more ...string) []string {
		return append([]string{"generate", "-p", "func main() {\n", "-n", "48", "--temp", "0", "--schedule", "constant",
			"--json"}, more...)
	}
	run := func(args []string) (r result) {
		t.Helper()
		stdout, stderr, code := spec(t, "", args...)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%v: exit %d, %v, %s", args, code, err, stderr)
		}
		return r
	}
	want := run(args())
	file := filepath.Join(dir, "answer.txt")
	if err := os.WriteFile(file, []byte(want.Text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--drafter", "ngram"}, {"--drafter", "tree", "--draft-max", "9"}} {
		r := run(args(append(more, "--draft-from", file)...))
		if r.Text != want.Text || r.Stats.Previous.Accepted < 36 || want.Stats.Previous.Drafted != 0 {
			t.Errorf("%v: %+v, %q, want %q", more, r.Stats, r.Text, want.Text)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{empty: "empty", filepath.Join(dir, "none"): "none"} {
		if _, stderr, code := spec(t, "", args("--draft-from", name)...); code == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
	}
}
