package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The enlarged draft model writes what the embedded one writes.
func TestSynth(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "draft.gguf")
	done(t, "", "synth", "draft-5m", big)
	args := []string{"generate", "-p", "func (r *Ring) Push(", "--temp", "0", "-n", "12", "--drafter", "none", "-m"}
	want, _, code := spec(t, "", append(args, "../../testdata/go-draft.q8_0.gguf")...)
	got, stderr, code2 := spec(t, "", append(args, big)...)
	if code != exitDone || code2 != exitDone || got != want || want == "" {
		t.Errorf("enlarged %q, embedded %q: %s", got, want, stderr)
	}
	random := filepath.Join(dir, "random.gguf")
	if testing.Short() {
		return
	}
	done(t, "", "synth", "smollm2-135m", random, "--type", "q4_0")
	out, _, code := spec(t, "", "inspect", random)
	if code != exitDone || !strings.Contains(out, "135 M") && !strings.Contains(out, "134") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestSynthBadInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.gguf")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"WHAT", nil}, {"OUT", []string{"draft-5m"}}, {"draft-6m", []string{"draft-6m", out}},
		{"--type", []string{"draft-5m", out, "--type", "q4_0"}},
		{"too many", []string{"draft-5m", out, "x"}}, {"--type", []string{"gpt2-124m", out, "--type", "q9"}},
	} {
		if _, stderr, code := spec(t, "", append([]string{"synth"}, c.args...)...); code != exitUsage ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, stderr)
		}
	}
}
