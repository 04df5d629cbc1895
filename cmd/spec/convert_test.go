package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func TestConvertOptions(t *testing.T) {
	for line, want := range map[string]converting{
		"a b":                {dir: "a", out: "b", typ: "f16"},
		"a -o b --type Q8_0": {dir: "a", out: "b", typ: "q8_0"},
	} {
		if got := options[*converting](t, append(
			[]string{"convert"}, strings.Fields(line)...)...); !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", line, *got, want)
		}
	}
}

// What the published form of a model is converted to runs, and a refusal leaves nothing behind.
func TestConvert(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	if _, stderr, code := spec(t, "", "convert", t.TempDir(), out); code != 1 || !strings.Contains(stderr, "config.json") {
		t.Errorf("an empty folder: exit code %d, %q", code, stderr)
	}
	if _, _, code := spec(t, "", "convert", "x"); code != 2 {
		t.Errorf("no OUT: exit code %d", code)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	folder := testkit.Shared(t, "families/papers/hf")
	for name, said := range map[string]string{
		"llama": "llama, q8_0, ", "qwen2": "qwen2, q8_0, ", "codegen": "codegen, q8_0, 183.2 k parameters in 25 tensors, ",
		"opt-post": "opt, q8_0, ", "t5-v11": "t5, q8_0, 292.1 k parameters in 61 tensors, "} {
		if _, stderr, code := spec(t, "", "convert", filepath.Join(folder, name), out, "--type", "q8_0"); code != 0 ||
			!strings.Contains(stderr, said) {
			t.Fatalf("%s: exit code %d, %q", name, code, stderr)
		}
		if _, stderr, code := spec(t, "", "generate", "-m", out, "-p", "of the", "-n", "4", "--temp", "0"); code != 0 ||
			!strings.Contains(stderr, "4 tokens") {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
}
