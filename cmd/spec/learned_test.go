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
		"of another tree": {strings.ReplaceAll(readFile(t, file), `"drafter":[[`, `"drafter":[[[2,1],`), "", "saved state"},
		"twice the same": {strings.Replace(readFile(t, file), `"choices":[`, `"choices":[{"of":["tree","auto"]},`, 1), "",
			"order"},
	} {
		write(t, file, x.state)
		_, errs, code := spec(t, "", append(append([]string{"generate"}, args...), strings.Fields(x.flags)...)...)
		if code != exitFailed || !strings.Contains(errs, file) || !strings.Contains(errs, x.want) ||
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != x.state {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}

// What runs with other drafters or schedules learned stays in the file, and each finds its own again.
func TestLearnedKeepsWhatOthersLearned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "learned")
	run := func(drafter, schedule string) string {
		t.Helper()
		parsed(t, "-p", ring, "-s", "3", "-n", "40", "--drafter", drafter, "--schedule", schedule, "--learned", file)
		return readFile(t, file)
	}
	want := run("tree", "auto")
	want = want[strings.Index(want, `{"of":["tree","auto"]`):strings.LastIndex(want, "]")]
	if len(want) < 200 {
		t.Fatalf("little was learned: %s", want)
	}
	for _, other := range [][2]string{{"ngram", "auto"}, {"tree", "constant"}, {"none", "auto"}, {"tree", "heuristic"}} {
		if state := run(other[0], other[1]); !strings.Contains(state, want) {
			t.Errorf("after %s the part of tree and auto is lost: %.300s", other, state)
		}
	}
	state := run("tree", "auto")
	if strings.Contains(state, want) || !strings.Contains(state, `["tree","constant"]`) ||
		!strings.Contains(state, `["ngram","auto"]`) {
		t.Errorf("tree and auto learned nothing more, or the others are lost: %.300s", state)
	}
}

// Ctrl-C and a conversation that fills its context keep what was learned.
func TestLearnedIsKeptWhenARunEndsEarly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "learned")
	const part = `{"of":["model","auto"],"schedule":`
	_, stderr, code := spec(t, "func main() {\nfunc main() {\nfunc main() {\n", "chat", "--chat-template", "plain", "-n",
		"60",
		"-c", "100", "--schedule", "auto", "--learned", file)
	if state := readFile(t, file); code != exitFailed || !strings.Contains(state, part) {
		t.Errorf("a full context: exit %d: %s: %s", code, stderr, state)
	}
	needInterrupts(t)
	write(t, file, `{"version":1}`)
	cmd, stdout, errs := start(t, strings.NewReader(ring), "generate", "--ignore-eos", "--no-kv-cache", "--schedule",
		"auto",
		"--learned", file)
	text := &firstByte{Writer: stdout, given: make(chan struct{})}
	cmd.Stdout = text
	launch(t, cmd)
	<-text.given
	interrupt(t, cmd, os.Interrupt, errs)
	if state := readFile(t, file); !strings.Contains(state, part) {
		t.Errorf("Ctrl-C: %s", state)
	}
}
