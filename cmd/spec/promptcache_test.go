package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/testdata"
)

// cachedText is what spec generate --json has written.
type cachedText struct {
	Text  string `json:"text"`
	Stats struct {
		Prompt int `json:"n_prompt"`
		Reused int `json:"n_prompt_reused"`
	} `json:"stats"`
}

// A prompt's file is written by one run and of use to the next, greedy and sampled, with and without drafts: the text
// stays the same. A file that is only read stays as it is, and one of other options, or of something else, is refused.
func TestPromptCacheFiles(t *testing.T) {
	dir := t.TempDir()
	file, cache := filepath.Join(dir, "prompt"), filepath.Join(dir, "cache")
	prompt := strings.Repeat("func add(a, b int) int { return a + b }\n", 6)
	write := func(args ...string) (w cachedText) {
		t.Helper()
		args = append([]string{"generate", "--json", "-n", "12", "--seed", "3", "-p", prompt}, args...)
		code, out, stderr := runWith(t, cache, args...)
		if code != 0 {
			t.Fatalf("%q: %s", args, stderr)
		}
		if err := json.Unmarshal([]byte(out), &w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for i, how := range [][]string{{"--temp", "0"}, {"--temp", "0.8"}, {"--temp", "0", "--drafter", "none"}} {
		want := write(how...)
		for run := range 2 {
			got := write(append(how, "--prompt-cache", file)...)
			reused := got.Stats.Prompt - 1
			if i+run == 0 {
				reused = 0
			}
			if got.Text != want.Text || got.Stats.Reused != reused {
				t.Errorf("%q, run %d: %q with %d of %d tokens reused, want %q", how, run, got.Text, got.Stats.Reused,
					got.Stats.Prompt, want.Text)
			}
		}
	}
	before := size()
	prompt += "func main() {"
	if got := write("--prompt-cache", file, "--prompt-cache-ro"); got.Stats.Reused < 64 || size() != before {
		t.Errorf("%d tokens reused, %d bytes of %d", got.Stats.Reused, size(), before)
	}
	first := write("--prompt-cache", file, "--prompt-cache-all", "--temp", "0")
	prompt += first.Text
	if got := write("--prompt-cache", file); got.Stats.Reused < got.Stats.Prompt-3 {
		t.Errorf("%d of %d tokens of prompt and answer are reused", got.Stats.Reused, got.Stats.Prompt)
	}
	// -n 0 writes no text, and its prompt to the file.
	prompt += "\n\tfor i := range 9 {\n"
	for i, n := range []string{"0", "1"} {
		got := write("--temp", "0", "--prompt-cache", file, "-n", n)
		if reused := got.Stats.Prompt - 1; (got.Stats.Reused == reused) != (i == 1) || (got.Text == "") != (i == 0) {
			t.Errorf("-n %s: %+v", n, got)
		}
	}
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("junk ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--prompt-cache", file, "--kv", "q8_0"}, {"--prompt-cache", junk},
		{"--prompt-cache", file, "--no-kv-cache"}, {"--prompt-cache-all"},
		{"--prompt-cache", filepath.Join(dir, "no", "x")}} {
		args = append([]string{"generate", "-n", "1", "-p", prompt}, args...)
		if code, _, stderr := runWith(t, cache, args...); code == 0 || !strings.Contains(stderr, "--prompt-cache") {
			t.Errorf("%q: %d, %s", args[5:], code, stderr)
		}
	}
	// A file that cannot be written is told before a text is, also of a prompt that is too short to be kept.
	for _, prompt := range []string{prompt, "x"} {
		code, out, stderr := runWith(t, cache, "generate", "-n", "1", "-p", prompt, "--prompt-cache",
			filepath.Join(dir, "no", "x"))
		if code != exitFailed || out != "" || !strings.Contains(stderr, "--prompt-cache") {
			t.Errorf("a file in no folder: %d, %q, %s", code, out, stderr)
		}
	}
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if name := e.Name(); name != "prompt" && name != "cache" && name != "junk" {
			t.Errorf("%s is left", name)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// What a conversation has been, before /clear or before its first messages were dropped, takes memory within a bound.
func TestPromptCacheHasABound(t *testing.T) {
	parts, o := library.Parts{Target: target(t)}, library.Options{Context: 256, Parallel: 1}
	f, err := (&promptCache{file: filepath.Join(t.TempDir(), "prompt")}).open(&parts, &o)
	if err != nil {
		t.Fatal(err)
	}
	f.abort()
	if o.Memory.Cache != library.DefaultCacheBytes || o.Parallel != 0 {
		t.Errorf("%d bytes are kept, %d sequences at once", o.Memory.Cache, o.Parallel)
	}
}

// A prompt that was computed ahead is in the folder, which is listed and emptied by itself.
func TestPromptsAreComputedAhead(t *testing.T) {
	dir := t.TempDir()
	folder, cache := filepath.Join(dir, "prompts"), filepath.Join(dir, "cache")
	text := filepath.Join(dir, "system.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("// Copy returns a copy.\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{", 0 of them were there; ", "141 of them were there; 0 bytes written"} {
		code, out, stderr := runWith(t, cache, "cache", "prompt", "-f", text, "--cache-dir", folder)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("run %d: %q%s", i, out, stderr)
		}
	}
	_, listed, _ := runWith(t, cache, "cache", "list", "--cache-dir", folder)
	_, found, _ := runWith(t, cache, "cache", "list", "--cache-dir", folder, "--json")
	var all struct {
		Entries int   `json:"n_entries"`
		Bytes   int64 `json:"bytes"`
	}
	if err := json.Unmarshal([]byte(found), &all); err != nil || all.Entries < 2 || all.Bytes < 1000 ||
		!strings.Contains(listed, "entries of computed prompts") {
		t.Errorf("%q, %q, %v", listed, found, err)
	}
	code, out, _ := runWith(t, cache, "cache", "clean", "--cache-dir", folder)
	_, left, _ := runWith(t, cache, "cache", "list", "--cache-dir", folder)
	if code != 0 || !strings.HasPrefix(out, "deleted ") || !strings.HasPrefix(left, "0 entries") {
		t.Errorf("%d: %q, then %q", code, out, left)
	}
	for _, args := range [][]string{{"prompt", "-f", text}, {"list", "--cache-dir", filepath.Join(dir, "no")},
		{"build", "--cache-dir", folder}, {"prompt", "-f", text, "--cache-dir", folder, "-c", "8"}} {
		if code, _, stderr := runWith(t, cache, append([]string{"cache"}, args...)...); code == 0 || stderr == "" {
			t.Errorf("%q: %d, %s", args, code, stderr)
		}
	}
}

// Another model under the name of one finds nothing of what that one has computed, even with a file of the same size
// and time: its own text is written, from the folder of a server and from the file of a prompt, which is refused.
func TestReplacedModelFindsNothing(t *testing.T) {
	dir := t.TempDir()
	folder, cache, model := filepath.Join(dir, "prompts"), filepath.Join(dir, "cache"), filepath.Join(dir, "m.gguf")
	text, file := filepath.Join(dir, "system.txt"), filepath.Join(dir, "prompt")
	if err := os.WriteFile(text, []byte(strings.Repeat("// Copy returns a copy.\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	target := testdata.Target()
	data := make([]byte, target.Size())
	if _, err := target.ReadAt(data, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, there := range []string{", 0 of them were there", "141 of them were there", ", 0 of them were there"} {
		if i != 1 {
			if err := os.WriteFile(model+".new", data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chtimes(model+".new", at, at), os.Rename(model+".new", model)); err != nil {
				t.Fatal(err)
			}
			data[len(data)-100]++ // of the next one's weights
		}
		code, out, stderr := runWith(t, cache, "cache", "prompt", "-m", model, "-f", text, "--cache-dir", folder)
		if code != 0 || !strings.Contains(out, there) {
			t.Errorf("run %d: %q%s, want %q", i, out, stderr, there)
		}
		code, _, stderr = runWith(t, cache, "generate", "-m", model, "-f", text, "-n", "1", "--prompt-cache", file)
		if refused := i == 2; (code != 0) != refused || refused && !strings.Contains(stderr, file) {
			t.Errorf("run %d: --prompt-cache: exit %d, %s", i, code, stderr)
		}
	}
}
