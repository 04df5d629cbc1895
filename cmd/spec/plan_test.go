package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/testkit"
)

func TestPlan(t *testing.T) {
	out := done(t, "", "plan", "--seconds", "0.1", "-p", ring, "--temp", "0")
	for _, want := range []string{"acceptance", "formula", "measured", "auto",
		"Warning: the draft model is only", "Advice: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r := decode[plan.Prediction](t, done(t, "", "plan", "--seconds", "0.1", "--json"))
	if r.Schema != 1 || len(r.Lengths) < plan.Longest || r.Acceptance <= 0 || r.Advice == "" {
		t.Errorf("%+v", r)
	}
}

// A model without a draft model is tried with itself in fewer bits, unless it has as few already.
func TestPlanOfAModelByItself(t *testing.T) {
	file := filepath.Join("..", "..", "testdata", "go-target.q8_0.gguf")
	out := done(t, "", "plan", "-m", file, "--seconds", "0.1", "-p", ring, "--temp", "0")
	if !strings.Contains(out, "draft form") || !strings.Contains(out, "more memory") || strings.Contains(out, "Warning") {
		t.Error(out)
	}
	r := decode[plan.Prediction](t,
		done(t, "", "plan", "-m", file, "--seconds", "0.1", "-p", ring, "--temp", "0", "--json"))
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
		len(r.Models) != 2 || r.Models[1].SHA256 == "" || r.Models[1].SHA256 == r.Models[0].SHA256 || r.SIMD == "" {
		t.Errorf("%+v", r)
	}
	table, err := csv.NewReader(strings.NewReader(done(t, "", append(args, "--csv")...))).ReadAll()
	if err != nil || len(table) != 1+len(r.Lengths) || !slices.Contains(table[0], "best_length") ||
		!slices.Contains(table[0], "prompt_sets") {
		t.Errorf("%v: %d lines, %d lengths: %q", err, len(table), len(r.Lengths), table[0])
	}
}

// The row of the best length, which has the mark, is among those that are listed.
func TestBestLengthIsListed(t *testing.T) {
	for best := range plan.Longest + 1 {
		var listed []int
		for k := range plan.Longest {
			if isListed(k+1, best) {
				listed = append(listed, k+1)
			}
		}
		if best > 0 && !slices.Contains(listed, best) || len(listed) < 12 || len(listed) > 13 {
			t.Errorf("the best is %d: %v", best, listed)
		}
	}
}

// A fleet is planned from what bench has written, with the same outcome each time, or from what is measured.
func TestPlanFleet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const figures = `{"schema":1,"cpu":"made up","simd":"avx2","threads":4,"model":"m","bytes":1,"bandwidth_gbps":1,
		"rows":[
		{"kind":"batch","n_tokens":1,"context":8,"repeats":9,"tokens_per_second":100,"pass_seconds":0.01,"stddev":0,
		"bandwidth_fraction":1,"ratio_to_decode":1},
		{"kind":"batch","n_tokens":8,"context":8,"repeats":9,"tokens_per_second":400,"pass_seconds":0.02,"stddev":0,
		"bandwidth_fraction":1,"ratio_to_decode":1},
		{"kind":"prefill","n_tokens":100,"context":0,"repeats":9,"tokens_per_second":1000,"pass_seconds":0.1,"stddev":0,
		"bandwidth_fraction":1,"ratio_to_decode":1}]}`
	write(figures)
	args := []string{"plan", "--fleet", "--figures", file, "--prompt-tokens", "101", "--answer-tokens", "40",
		"--spread", "0", "--load", "30", "--answer-time", "2", "--core-price", "0.36", "--json"}
	out := done(t, "", args...)
	r := decode[fleetPlan](t, out)
	// A request takes 0.1 s of its prompt and 40 tokens of 2.5 ms each, where eight share a pass: 5 in a second.
	if r.Schema != 1 || r.Threads != 4 || r.CPU != "made up" || r.Places != 8 || r.Capacity < 4.5 || r.Capacity > 5.01 ||
		r.Machines < 7 || r.Machines > 12 || r.Each == nil || r.Each.Answer > 2 || r.Prompt != 101 || r.Reply != 40 {
		t.Errorf("%+v, %+v", r, r.Each)
	}
	want := float64(r.Machines) * 4 * 0.36 / 3600 / 30 / 40 * 1e6
	if got := r.PerAnswers; got < 0.999*want || got > 1.001*want {
		t.Errorf("price %v, want %v", got, want)
	}
	if again := done(t, "", args...); again != out {
		t.Errorf("%s\nand then\n%s", out, again)
	}
	lines := done(t, "", append(slices.Clone(args[:len(args)-1]), "--csv")...)
	table, err := csv.NewReader(strings.NewReader(lines)).ReadAll()
	if err != nil || len(table) != 1+len(r.Uses) || !slices.Contains(table[0], "answer_p95_seconds") {
		t.Errorf("%v: %q", err, table)
	}
	out = done(t, "", args[:len(args)-1]...)
	for _, want := range []string{"made up", "one machine", "for 30 requests/s", "million tokens", "90 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for flags, want := range map[string]string{
		"--fleet -p x": "-p", "--fleet -md x": "-md", "--load 3": "--fleet", "--prompt-tokens 9": "--fleet", "-np 2": "-np",
		"--fleet --load 3":        "--first-token",
		"--fleet --answer-time 3": "--load", "--fleet -m x --figures x": "-m",
		"--fleet -o md": "md",
	} {
		if _, errs, code := spec(t, "", append([]string{"plan"}, strings.Fields(flags)...)...); code != exitUsage ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", flags, code, errs)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if _, errs, code := spec(t, "", append([]string{"plan", "--fleet"}, args...)...); code != exitFailed ||
			!strings.Contains(errs, want) {
			t.Errorf("exit %d, %s", code, errs)
		}
	}
	refused("-np 9", "--figures", file, "-np", "9")
	refused("no number of machines", "--figures", file, "--load", "1", "--answer-time", "0.01")
	for _, bad := range [][2]string{{`"schema":1`, `"schema":2`}, {`"kind":"prefill"`, `"kind":"verify"`},
		{`"pass_seconds":0.01`, `"pass_seconds":-1`}, {`"threads":4`, `"threads":0`}, {`"model"`, `"modell"`}} {
		write(strings.Replace(figures, bad[0], bad[1], 1))
		refused(file, "--figures", file)
	}
	measured := decode[fleetPlan](t, done(t, "", "plan", "--fleet", "--seconds", "0.1", "-np", "2",
		"--prompt-tokens", "20", "--answer-tokens", "8", "--json"))
	if measured.Capacity <= 0 || measured.Places > 2 || len(measured.Uses) == 0 || measured.Uses[0].Answer <= 0 {
		t.Errorf("%+v", measured)
	}
	refused("context", "--prompt-tokens", "9000")
}
