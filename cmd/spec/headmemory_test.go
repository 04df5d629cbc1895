package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
)

// TestHeadUnderMemory: a target that is read from disk, with an EAGLE-3 head beside it, writes the text that it writes
// where both fit, and compare and plan run. Less memory is refused before anything is written.
func TestHeadUnderMemory(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	command := func(name string, args ...string) []string {
		return append([]string{name, "-m", servedTarget, "-md", servedHead, "-c", "256"}, args...)
	}
	generate := command("generate", "--temp", "0", "-p", "func main() {", "-n", "12")
	code, want, stderr := runWith(t, cache, generate...)
	if code != 0 {
		t.Fatal(stderr)
	}
	const limit = "--memory=24750000"
	code, got, stderr := runWith(t, cache, append(generate, limit)...)
	if list, _ := engine.PanelFiles(cache); code != 0 || got != want || len(list) == 0 ||
		!strings.Contains(stderr, "drafted") {
		t.Errorf("%q, expected %q; %d files: %s", got, want, len(list), stderr)
	}
	for _, args := range [][]string{
		command("compare", limit, "--drafter", "eagle,tree", "-n", "4", "-r", "1", "--max-prompts", "1", "--schedule",
			"constant"),
		command("plan", limit, "--seconds", "0.1", "-p", "x"),
	} {
		if code, out, stderr := runWith(t, cache, args...); code != 0 || strings.Contains(out, " NO") {
			t.Errorf("%v: %d: %s%s", args, code, out, stderr)
		}
	}
	empty := t.TempDir()
	code, _, stderr = runWith(t, empty, append(generate, "--memory=16000000")...)
	if list, _ := engine.PanelFiles(empty); code != exitFailed || len(list) != 0 ||
		!strings.Contains(stderr, "go-target.q8_0.gguf: with what else is needed, the least is") {
		t.Errorf("%d: %s", code, stderr)
	}
}
