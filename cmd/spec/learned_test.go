package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a run learned is kept for the next one, and does not change the text.
func TestLearned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "learned")
	args := []string{"-p", ring, "-s", "3", "-n", "60", "--drafter", "tree", "--schedule", "auto"}
	want := parsed(t, args...)
	args = append(args, "--learned", file)
	for i, run := range []string{"first", "second", "third"} {
		if got := parsed(t, args...); got.Text != want.Text {
			t.Fatalf("%s run: what was learned changed the text to %q", run, got.Text)
		}
		state := readFile(t, file)
		if !strings.Contains(state, `"schedule":{"lengths":[{`) {
			t.Fatalf("%s run: nothing was kept: %.300s", run, state)
		}
		const known = `{"drafted":50,` // no run drafts so many
		if i > 0 && !strings.Contains(state, known) {
			t.Errorf("%s run: what was known before is lost: %.300s", run, state)
		}
		if i == 0 {
			write(t, file, strings.Replace(state, `"lengths":[`, `"lengths":[`+known+`"seconds":9,"passes":9},`, 1))
		}
	}
	for name, x := range map[string]struct{ state, flags, want string }{
		"damaged":         {"{", "", "saved state"},
		"another version": {`{"version":99}`, "", "version 99"},
		"another drafter": {readFile(t, file), "--drafter ngram", "rates"},
	} {
		write(t, file, x.state)
		_, errs, code := spec(t, "", append(append([]string{"generate"}, args...), strings.Fields(x.flags)...)...)
		if code != exitFailed || !strings.Contains(errs, file) || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != x.state {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}
