package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --draft-vocab leaves the text as it is, for every drafter that has one; a list that is too short drafts less that is
// accepted, and one of the text's own tokens loses nothing.
func TestDraftVocabFlags(t *testing.T) {
	run := func(more ...string) (r result) {
		t.Helper()
		args := append([]string{"generate", "-p", "func main() {\n", "-n", "48", "--temp", "0", "--schedule", "constant",
			"--json"}, more...)
		stdout, stderr, code := spec(t, "", args...)
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%v: exit %d, %v, %s", args, code, err, stderr)
		}
		return r
	}
	want := run()
	file := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(file, []byte("func main() {\n"+want.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	few, own := run("--draft-vocab", "4"), run("--draft-vocab", "200", "--draft-vocab-from", file)
	if few.Text != want.Text || few.Stats.Accepted >= want.Stats.Accepted {
		t.Errorf("4 tokens: %+v, all %+v, %q", few.Stats, want.Stats, few.Text)
	}
	if own.Text != want.Text || own.Stats.Accepted < want.Stats.Accepted*9/10 {
		t.Errorf("the text's tokens: %+v, all %+v, %q", own.Stats, want.Stats, own.Text)
	}
	for _, drafter := range []string{"self", "eagle", "tree"} {
		if r := run("--drafter", drafter, "--draft-vocab", "300"); r.Text != want.Text || r.Stats.Drafted == 0 {
			t.Errorf("%s: %+v, %q", drafter, r.Stats, r.Text)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--draft-vocab", "9", "--drafter", "ngram"}, exitUsage, "no draft vocabulary"},
		{[]string{"--draft-vocab-from", file}, exitUsage, "needs --draft-vocab"},
		{[]string{"--draft-vocab", "-1"}, exitUsage, "--draft-vocab"},
		{[]string{"--draft-vocab", "9", "--draft-vocab-from", file + ".none"}, exitFailed, "--draft-vocab-from"},
	} {
		_, stderr, code := spec(t, "", append([]string{"generate", "-p", "x", "-n", "2"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, code, stderr)
		}
	}
	if _, stderr, code := spec(t, "", "serve", "--draft-vocab-from", file); code != exitUsage ||
		!strings.Contains(stderr, "needs --draft-vocab") {
		t.Errorf("serve: exit %d, %s", code, stderr)
	}
}
