package main

import (
	"strings"
	"testing"

	"github.com/specgo/spec/internal/plan"
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

// An encoder writes no text.
func TestPlanRefusesEncoders(t *testing.T) {
	file := testkit.Shared(t, "families/encoders/bert.gguf")
	if _, errs, code := spec(t, "", "plan", "-m", file); code != exitUsage || !strings.Contains(errs, "spec bench") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
