package main

import (
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/testkit"
)

func TestPlan(t *testing.T) {
	out := done(t, "", "plan", "--seconds", "0.2", "-p", ring, "--temp", "0")
	for _, want := range []string{"acceptance", "formula", "measured", "auto",
		"Warning: the draft model is only", "Advice: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r := decode[plan.Prediction](t, done(t, "", "plan", "--seconds", "0.2", "--json"))
	if r.Schema != 1 || len(r.Lengths) < plan.Longest || r.Acceptance <= 0 || r.Advice == "" {
		t.Errorf("%+v", r)
	}
}

// A model without a draft model is tried with itself in fewer bits, unless it has as few already.
func TestPlanOfAModelByItself(t *testing.T) {
	file := filepath.Join("..", "..", "testdata", "go-target.q8_0.gguf")
	out := done(t, "", "plan", "-m", file, "--seconds", "0.2", "-p", ring, "--temp", "0")
	if !strings.Contains(out, "draft form") || !strings.Contains(out, "more memory") || strings.Contains(out, "Warning") {
		t.Error(out)
	}
	r := decode[plan.Prediction](t, done(t, "", "plan", "-m", file, "--seconds", "0.2", "-p", ring, "--temp", "0", "--json"))
	if !r.Self || r.SizeRatio < 1.8 || r.SizeRatio > 1.95 || r.Acceptance < 0.8 {
		t.Errorf("%+v", r)
	}
	if _, errs, code := spec(t, "", "plan", "-m", file, "--weights", "q4_0"); code != exitUsage ||
		!strings.Contains(errs, "-md FILE") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// An encoder writes no text.
func TestPlanRefusesEncoders(t *testing.T) {
	file := testkit.Shared(t, "families/encoders/bert.gguf")
	if _, errs, code := spec(t, "", "plan", "-m", file); code != exitUsage || !strings.Contains(errs, "spec bench") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// Prompts are a plain text too, and the results say what was measured: in CSV a line for each length.
func TestPlanResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text.go")
	write(t, file, ring)
	args := []string{"plan", "--seconds", "0.1", "--prompts", file, "-n", "16"}
	r := decode[planReport](t, done(t, "", append(args, "--json")...))
	if want := results.TextFile("text.go", []byte(ring)); r.Tokens < 8 || len(r.Prompts) != 1 || r.Prompts[0] != want ||
		len(r.Models) != 2 || r.Models[1].SHA256 == "" || r.SIMD == "" {
		t.Errorf("%+v", r)
	}
	table, err := csv.NewReader(strings.NewReader(done(t, "", append(args, "--csv")...))).ReadAll()
	if err != nil || len(table) != 1+len(r.Lengths) || !slices.Contains(table[0], "best_length") ||
		!slices.Contains(table[0], "prompt_sets") {
		t.Errorf("%v: %d lines, %d lengths: %q", err, len(table), len(r.Lengths), table[0])
	}
}
