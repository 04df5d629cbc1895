package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// Each flag sets what it names.
func TestFileChangeFlags(t *testing.T) {
	for line, want := range map[string]fileChanges{
		"--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 99": {rope: engine.Rope{Scaling: "yarn", Scale: 4, Original: 99}},
		"--rope-freq-base 5000 --rope-freq-scale 0.25":          {rope: engine.Rope{Base: 5000, Scale: 4}},
		"--yarn-attn-factor 1.5 --yarn-beta-slow 2 --yarn-beta-fast 16 --yarn-ext-factor -1": {
			rope: engine.Rope{Attention: 1.5, Slow: 2, Fast: 16}},
		"--override-kv a.b=int:-3,c=float:0.5 --override-kv d=bool:true --override-kv e=str:x:y": {override: []gguf.KV{
			{Key: "a.b", Value: int64(-3)}, {Key: "c", Value: 0.5}, {Key: "d", Value: true}, {Key: "e", Value: "x:y"}}},
	} {
		for _, command := range []string{"generate", "verify", "serve"} {
			args := strings.Fields(line)
			var got fileChanges
			switch command {
			case "generate":
				got = options[*generate](t, append([]string{command}, args...)...).changes
			case "verify":
				got = options[*verification](t, append([]string{command, "x"}, args...)...).changes
			case "serve":
				got = options[*serving](t, append([]string{command}, args...)...).changes
			}
			if got.rope != want.rope || len(got.override) != len(want.override) {
				t.Errorf("%s %s: %+v", command, line, got)
			}
			for i := range min(len(got.override), len(want.override)) {
				if got.override[i] != want.override[i] {
					t.Errorf("%s %s: %+v", command, line, got.override[i])
				}
			}
		}
	}
	for _, line := range []string{"--rope-scaling ntk", "--rope-freq-scale 0", "--yarn-ext-factor 0.5", "--override-kv a",
		"--override-kv a=b", "--override-kv a=int:x", "--override-kv a=float:inf", "--override-kv a=byte:1",
		"--override-kv =int:1"} {
		if _, _, code := spec(t, "",
			append([]string{"generate", "-p", "x", "-n", "1"}, strings.Fields(line)...)...); code != exitUsage {
			t.Errorf("%s: exit %d", line, code)
		}
	}
}

// A text under other keys is another one, its receipt is confirmed with the same flags, and refused without them.
func TestFileChangesInReceipts(t *testing.T) {
	receipt := filepath.Join(t.TempDir(), "r.json")
	args := []string{"generate", "-p", "func Max(a, b int) int {", "-n", "24", "--temp", "0"}
	changes := []string{"--override-kv", "llama.rope.freq_base=float:300"}
	plain := done(t, "", args...)
	if text := done(t, "", append(append(args, changes...), "--receipt", receipt)...); text == plain {
		t.Error("the same text with another base")
	}
	done(t, "", append([]string{"verify", receipt}, changes...)...)
	if _, text, code := spec(t, "", "verify", receipt); code != exitFailed || !strings.Contains(text, "model_sha256") ||
		!strings.Contains(text, "--override-kv") {
		t.Errorf("exit %d: %s", code, text)
	}
	if _, err := os.Stat(receipt); err != nil {
		t.Error(err)
	}
	if _, text, code := spec(t, "", append(args, "--override-kv", "llama.nothing=int:1")...); code != exitFailed ||
		!strings.Contains(text, "nothing") {
		t.Errorf("exit %d: %s", code, text)
	}
}
