package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/testdata"
)

// Adapters are given in llama.cpp's forms, old and new.
func TestAdapterFlags(t *testing.T) {
	want := []library.AdapterFile{{Path: "a", Scale: 1}, {Path: "b", Scale: 1}, {Path: "c:d", Scale: 0.5},
		{Path: "e", Scale: -2}, {Path: "f", Scale: 1.5}}
	g := options[*generate](t, "generate", "--lora", "a,b", "--lora-scaled", "c:d:0.5,e:-2", "--lora-scaled", "f", "1.5",
		"-p",
		"x")
	if !slices.Equal(g.adapters.adapters, want) {
		t.Errorf("%+v", g.adapters.adapters)
	}
	for _, args := range []string{"--lora  x", "--lora-scaled a", "--lora-scaled a:x", "--lora-scaled a:NaN",
		"--lora a,"} {
		if _, _, code := spec(t, "", append([]string{"generate"}, strings.Split(args, " ")...)...); code != exitUsage {
			t.Errorf("%s: exit %d", args, code)
		}
	}
	if _, errs, code := spec(t, "", "serve", "-m", "a", "-m", "b", "--lora", "c"); code != exitUsage ||
		!strings.Contains(errs, "--lora") {
		t.Errorf("several models: exit %d: %s", code, errs)
	}
}

// A text with an adapter is another one, its receipt is confirmed with the adapter alone, and the scale counts.
func TestGenerateWithAdapter(t *testing.T) {
	base, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, receipt := filepath.Join(dir, "lora.gguf"), filepath.Join(dir, "receipt.json")
	if err := os.WriteFile(file, randommodel.Adapter{Seed: 3, Spread: 0.3}.File(t, base), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(more ...string) string {
		return fmt.Sprint(parsed(t, append([]string{"-p", ring, "--temp", "0", "-n", "12"}, more...)...).TokenIDs)
	}
	if out := strings.Join(strings.Fields(done(t, "", "inspect", file)), " "); !strings.Contains(out,
		"LoRA adapter for llama models, of rank 4, for 42 matrices, with alpha 4") {
		t.Error(out)
	}
	plain, adapted := text(), text("--lora", file, "--receipt", receipt)
	if plain == adapted || text("--lora-scaled", file, "1") != adapted || text("--lora-scaled", file+":0") != plain ||
		text("--lora", file, "--drafter", "none") != adapted {
		t.Errorf("plain %s, adapted %s", plain, adapted)
	}
	if out := done(t, "", "verify", "--lora", file, receipt); !strings.Contains(out, "confirmed") {
		t.Error(out)
	}
	if _, errs, code := spec(t, "", "verify", receipt); code == exitDone || !strings.Contains(errs, "adapters") {
		t.Errorf("without the adapter: exit %d: %s", code, errs)
	}
	if _, errs, code := spec(t, "", "generate", "--lora", receipt, "-p", "x"); code == exitDone ||
		!strings.Contains(errs, "receipt.json") {
		t.Errorf("not an adapter: exit %d: %s", code, errs)
	}
}

// plan measures a target with adapters: how often the draft model agrees with it is another number.
func TestPlanWithAdapter(t *testing.T) {
	base, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lora.gguf")
	if err := os.WriteFile(file, randommodel.Adapter{Seed: 3, Spread: 0.3}.File(t, base), 0o600); err != nil {
		t.Fatal(err)
	}
	acceptance := func(more ...string) float64 {
		return decode[plan.Prediction](t,
			done(t, "", append([]string{"plan", "--seconds", "0.1", "-p", ring, "--temp", "0", "-n",
				"16", "--json"}, more...)...)).Acceptance
	}
	if plain, adapted := acceptance(), acceptance("--lora", file); plain == adapted {
		t.Errorf("%v of the drafts are accepted, with the adapter too", plain)
	}
	if _, errs, code := spec(t, "", "plan", "--fleet", "--lora", file); code != exitUsage ||
		!strings.Contains(errs, "--lora") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// An adapter's folder asks for its base, and only that.
func TestConvertAdapterNeedsBase(t *testing.T) {
	dir := t.TempDir()
	if _, _, code := spec(t, "", "convert", dir, "out", "--base", dir); code != exitUsage {
		t.Errorf("--base for a model: exit %d", code)
	}
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := spec(t, "", "convert", dir, "out"); code != exitUsage || !strings.Contains(errs, "--base") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A draft head's folder asks for its target, and only that.
func TestConvertHead(t *testing.T) {
	dir := t.TempDir()
	config := []byte(`{"architectures":["DFlashDraftModel"]}`)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := spec(t, "", "convert", dir, "out"); code != exitUsage || !strings.Contains(errs, "--target") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := spec(t, "", "convert", dir, "out", "--base", dir, "--target", dir); code != exitUsage ||
		!strings.Contains(errs, "--base") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := spec(t, "", "convert", dir, "out", "--target", filepath.Join(dir, "no")); code != exitFailed ||
		!strings.Contains(errs, "the target: ") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
