package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// TestEagle: a draft head, embedded or of a file, writes plain decoding's text; -md recognizes it.
func TestEagle(t *testing.T) {
	dir := t.TempDir()
	target, head, draft := filepath.Join(dir, "target.gguf"), filepath.Join(dir, "head.gguf"),
		filepath.Join(dir, "draft.gguf")
	for path, r := range map[string]io.Reader{target: testdata.Target(), head: testdata.Head(), draft: testdata.Draft()} {
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	base := []string{"generate", "-p", "func (b *Buffer) Write(", "-n", "20", "--seed", "4"}
	for i, temperature := range []string{"0", "0.8"} {
		plain := done(t, "", append(base, "--temp", temperature, "--drafter", "none")...)
		for j, args := range [][]string{
			{"--drafter", "eagle"}, {"--drafter", "eagle-tree"}, {"-m", target, "-md", head},
			{"-m", target, "-md", head, "--drafter", "eagle"},
			{"-m", target, "-md", head, "--drafter", "splice"}, {"-m", target, "-md", head, "-md", draft},
			{"-m", target, "-md", head, "--weights", "q4_0", "--drafter", "none"},
		} {
			if (i+j)%2 > 0 && !testkit.IsLong(t) {
				continue
			}
			if args[len(args)-1] == "none" {
				args = args[:4] // of another model's weights than plain
				converted := done(t, "", append(base, "--temp", temperature, "-m", target, "--weights", "q4_0",
					"--drafter", "none")...)
				if got := done(t, "", append(append(base, "--temp", temperature,
					"--weights", "q4_0"), args...)...); got != converted {
					t.Errorf("--temp %s %s --weights q4_0: %q, plain %q", temperature, args, got, converted)
				}
				continue
			}
			if got := done(t, "", append(append(base, "--temp", temperature), args...)...); got != plain {
				t.Errorf("--temp %s %s: %q, plain %q", temperature, args, got, plain)
			}
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no head":         {[]string{"-m", target, "-md", draft, "--drafter", "eagle"}, "needs a draft head of EAGLE-3"},
		"a head as model": {[]string{"-m", head}, "draft head"},
		"across":          {[]string{"-m", target, "-md", head, "--drafter", "reencode"}, "not a draft head"},
		"another's head":  {[]string{"-m", draft, "-md", head}, "target_hidden_size"},
		"no cache":        {[]string{"-m", target, "-md", head, "--no-kv-cache"}, "cache"},
		"no draft":        {[]string{"-m", target, "--drafter", "eagle"}, "-md FILE"},
	} {
		if _, errs, code := spec(t, "", append(base, c.args...)...); code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"draft head", []string{"plan", "-m", target, "-md", head, "--seconds", "0.1", "-n", "24", "-p", "func main"}},
		{"draft  ", []string{"bench", "-m", target, "-md", head, "--quick", "-p", "0", "--verify", "2", "--batch", "0",
			"-d", "0", "-n", "4"}},
	} {
		if out := done(t, "", c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%s: no %q in\n%s", c.args, c.says, out)
		}
	}
	requests, answers := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	line := `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"func (b *Buffer) Read(","max_tokens":30,"temperature":0,"speculation":{"drafter":"eagle","schedule":"constant"}}}`
	if err := os.WriteFile(requests, []byte(line), 0o666); err != nil {
		t.Fatal(err)
	}
	if out := done(t, "", "batch", "-m", target, "-md", head, "-i", requests, "-o", answers); !strings.Contains(
		out, "tokens drafted") {
		t.Errorf("batch drafts nothing:\n%s", out)
	}
	own := done(t, "", "compare", "-m", target, "-md", head, "-n", "12", "--max-prompts", "1", "-r", "1", "--warmup", "0")
	if !strings.Contains(own, "tree") || !strings.Contains(own, "model") {
		t.Errorf("compare -md HEAD without --drafter does not show tree and model:\n%s", own)
	}
	out := done(t, "", "compare", "--drafter", "model,eagle,eagle-tree", "--schedule", "constant", "--draft-max", "5",
		"-n", "16", "--max-prompts", "1", "-r", "1", "--warmup", "0")
	for _, name := range []string{"eagle", "eagle-tree"} {
		if !strings.Contains(out, name) {
			t.Errorf("compare does not show %s:\n%s", name, out)
		}
	}
}

// TestLongEagle: every way to name a head at both temperatures.
func TestLongEagle(t *testing.T) {
	testkit.Long(t)
	TestEagle(t)
}

// TestMTP: a model's own MTP block, by default and by name, writes plain decoding's text; files without one are
// refused.
func TestMTP(t *testing.T) {
	file := testkit.Shared(t, "families/models/qwen35.gguf")
	alone := filepath.Join(t.TempDir(), "mtp-qwen35.gguf")
	writeMTPBlocks(t, file, alone, 1, true)
	for _, temperature := range []string{"0", "0.8"} {
		base := []string{"generate", "-m", file, "-p", "func main", "-n", "40", "--seed", "4", "--temp", temperature}
		plain := done(t, "", append(base, "--drafter", "none")...)
		for _, args := range [][]string{nil, {"--drafter", "mtp"}, {"--no-kv-cache"}, {"--drafter", "tree"},
			{"--drafter", "splice", "--state-memory", "1"}, {"-md", alone}, {"-md", alone, "--drafter", "mtp"}} {
			if got := done(t, "", append(base, args...)...); got != plain {
				t.Errorf("--temp %s %s: %q, plain %q", temperature, args, got, plain)
			}
		}
	}
	for _, args := range [][]string{{"--drafter", "mtp"}, {"-m", file, "--drafter", "mtp", "-md", file},
		{"-m", file, "--drafter", "mtp", "--no-kv-cache"}, {"-m", file, "--drafter", "eagle", "-md", alone}, {"-m", alone},
		{"-m", filepath.Join(filepath.Dir(file), "qwen3.gguf"), "-md", alone},
		{"-m", filepath.Join(filepath.Dir(file), "qwen3.gguf"), "--drafter", "tree"}} {
		if _, errs, code := spec(t, "", append([]string{"generate", "-p", "x"}, args...)...); code == 0 || errs == "" {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}
