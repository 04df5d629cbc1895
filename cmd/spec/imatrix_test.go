package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/imatrix"
)

// TestImatrix: a text becomes a file with an entry for every matrix of the layers, and two of them become one.
func TestImatrix(t *testing.T) {
	dir := t.TempDir()
	text, out, twice := filepath.Join(dir, "text.txt"), filepath.Join(dir, "x.gguf"), filepath.Join(dir, "2x.gguf")
	if err := os.WriteFile(text, []byte(strings.Repeat("func main() { return }\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join("..", "..", "testdata", "go-draft.q8_0.gguf")
	_, stderr, code := spec(t, "", "imatrix", "-m", draft, "-f", text, "-o", out, "-c", "16", "--chunks", "3")
	if code != 0 || !strings.Contains(stderr, "8 tensors, 3 chunks of 16 tokens") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	f, err := imatrix.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	got := f.Tensors["blk.0.ffn_up.weight"]
	if len(got.Counts) != 1 || got.Counts[0] != 48 || len(f.Datasets) != 1 || f.Datasets[0] != "text.txt" {
		t.Errorf("%g inputs, of %q", got.Counts, f.Datasets)
	}
	// The chunks from one on, and those in front of it, are all chunks.
	first, rest := filepath.Join(dir, "first.gguf"), filepath.Join(dir, "rest.gguf")
	done(t, "", "imatrix", "-m", draft, "-f", text, "-o", first, "-c", "16", "--chunks", "1")
	done(t, "", "imatrix", "-m", draft, "-f", text, "-o", rest, "-c", "16", "--from-chunk", "1", "--chunks", "2")
	done(t, "", "imatrix", "--in-file", first, "--in-file", rest, "-o", twice)
	both, err := imatrix.Open(twice)
	if err != nil || both.Chunks != 3 {
		t.Fatalf("%+v, %v", both, err)
	}
	for i, x := range both.Tensors["blk.0.ffn_up.weight"].Sums {
		if want := got.Sums[i]; math.Abs(float64(x-want)) > 1e-4*float64(want) {
			t.Fatalf("column %d: %g in two parts, %g at once", i, x, want)
		}
	}
	done(t, "", "imatrix", "--in-file", out, "--in-file", out, "-o", twice)
	if f, err = imatrix.Open(twice); err != nil || f.Tensors["blk.0.ffn_up.weight"].Counts[0] != 96 || f.Chunks != 6 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"-o", []string{"-f", text}},
		{"--in-file and -f exclude", []string{"-f", text, "--in-file", out, "-o", twice}},
		{"--in-file and -p exclude", []string{"-p", "x", "--in-file", out, "-o", twice}},
		{"--in-file and -m exclude", []string{"--in-file", out, "-o", twice, "-m", draft}},
		{"--in-file and -c exclude", []string{"--in-file", out, "-o", twice, "-c", "512"}},
		{"--in-file and --chunks exclude", []string{"--in-file", out, "-o", twice, "--chunks", "-1"}},
		{"--chunk 9: the text has 8 chunks", []string{"-m", draft, "-f", text, "-o", twice, "-c", "16", "--chunk", "9"}},
		{"not measured", []string{"--process-output"}}, {"spec perplexity", []string{"--ppl"}},
		{"--chunks 0", []string{"-f", text, "-o", twice, "--chunks", "0"}},
		{"is the input", []string{"--in-file", out, "-o", out}},
		{"imatrix_test.go", []string{"--in-file", "imatrix_test.go", "-o", twice}},
		{"less than one chunk", []string{"-p", "x", "-o", twice}},
		{"none", []string{"-m", "no.gguf", "-f", text, "-o", filepath.Join(dir, "none", "x.gguf")}}, // before the model
	} {
		if _, stderr, code := spec(t, "", append([]string{"imatrix"}, c.args...)...); code == 0 ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d: %s", c.args, code, stderr)
		}
	}
}
