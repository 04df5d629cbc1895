package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// TestLongDFlash: and in every other command that takes draft heads.
func TestLongDFlash(t *testing.T) {
	testkit.Long(t)
	TestDFlash(t)
}

// TestDFlash: a head that drafts blocks, by default and by name, writes plain decoding's text; where there is none, or
// another, that is said.
func TestDFlash(t *testing.T) {
	f, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]gguf.Value{"vocab_size": nil}
	for _, kv := range f.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			keys["."+kv.Key] = kv.Value
		}
	}
	vocab := f.KVs[0]
	for _, kv := range f.KVs {
		if kv.Key == "tokenizer.ggml.tokens" {
			vocab = kv
		}
	}
	_, _, n, _ := gguf.TypeOf(vocab.Value)
	dir := t.TempDir()
	head := filepath.Join(dir, "head.gguf")
	data := randommodel.DFlash{Keys: keys, Width: 256, Vocab: int(n), Layers: []int32{1, 3, 5}, Rank: 32}.File(t)
	if err := os.WriteFile(head, data, 0o644); err != nil {
		t.Fatal(err)
	}
	base := []string{"generate", "-p", "func (b *Buffer) Write(", "-n", "16", "--seed", "4", "-md", head}
	for _, temperature := range []string{"0", "0.8"} {
		if temperature != "0" && !testkit.IsLong(t) {
			continue
		}
		plain := done(t, "", append(base[:len(base)-2:len(base)-2], "--temp", temperature, "--drafter", "none")...)
		for _, args := range [][]string{{}, {"--drafter", "dflash", "--schedule", "constant"}} {
			if got := done(t, "", append(append(base, "--temp", temperature), args...)...); got != plain {
				t.Errorf("--temp %s %s: %q, plain %q", temperature, args, got, plain)
			}
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"another head":    {append(base, "--drafter", "eagle"), "needs a draft head of EAGLE-3"},
		"no head":         {[]string{"generate", "-p", "x", "--drafter", "dflash"}, "needs a draft head of DFlash"},
		"a head as model": {[]string{"generate", "-p", "x", "-m", head}, "a DFlash draft head"},
	} {
		if _, errs, code := spec(t, "", c.args...); code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
	if !testkit.IsLong(t) {
		return
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"draft head", []string{"plan", "-md", head, "--seconds", "0.1", "-n", "24", "-p", "func main"}},
		{"draft  ", []string{"bench", "-md", head, "--quick", "-p", "0", "--verify", "2", "--batch", "0", "-d", "0",
			"-n", "4"}},
		{"greedy, dflash", []string{"selftest", "-md", head, "--quick", "-n", "6", "--draws", "100"}},
		{"dflash", []string{"compare", "-md", head, "--drafter", "dflash", "--schedule", "constant", "--draft-max", "5",
			"-n", "8", "--max-prompts", "1", "-r", "1", "--warmup", "0"}},
	} {
		if out := done(t, "", c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%s: no %q in\n%s", c.args, c.says, out)
		}
	}
}
