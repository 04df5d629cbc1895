package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/cmd/spec/internal/selftest"
	"github.com/specgo/spec/internal/results"
)

func TestSelftest(t *testing.T) {
	out := done(t, "", "selftest", "--quick", "-n", "3", "--draws", "100", "-p", "func main() {")
	for _, want := range []string{"one answer", "confirmation", "same text", "distribution", "p 0.", ": 0 failed\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// a draft head alone, as -md gives it
	r := decode[selfTestReport](t, done(t, "", "selftest", "-m", servedTarget, "-md", servedHead, "--quick", "-n", "2",
		"--draws", "100", "--json", "-p", `func\t`))
	if r.Schema != 1 || r.Failed != 0 || len(r.Checks) < 30 || r.Result.Threads < 1 || len(r.Kernels) < 1 {
		t.Errorf("%+v", r)
	}
	if !slices.ContainsFunc(r.Checks, func(c selftest.Check) bool { return c.What == "greedy, eagle-tree" }) {
		t.Errorf("the head does not draft: %+v", r.Checks)
	}
	if why := lacks(r.Origin, 2); why != "" || r.Prompts[0] != results.TextFile("-p", []byte("func\t")) {
		t.Errorf("%s: %+v", why, r.Origin)
	}
}

// lacks is what a file of results should say about its origin and does not, with so many models and one text; "":
// nothing.
func lacks(o results.Origin, models int) string {
	switch {
	case o.Version == "" || o.CPU == "" || o.Cores < 1 || o.System == "" || o.Go == "":
		return "what wrote it, and on what"
	case o.SIMD == "" || o.Threads < 1:
		return "kernels and threads"
	case len(o.Models) != models || len(o.Prompts) != 1:
		return "models and texts"
	}
	if _, err := time.Parse(time.RFC3339, o.Date); err != nil {
		return "the date"
	}
	for _, f := range append(o.Models, o.Prompts...) {
		if len(f.SHA256) != 64 || f.Name == "" {
			return "the hash of " + f.Name
		}
	}
	return ""
}

func TestSelftestPlanDemoUsage(t *testing.T) {
	prompts := t.TempDir() + "/prompts.jsonl"
	write(t, prompts, "{\"prompt\":\"a\"}\n{\"id\":\"b\"}\n")
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"plan -m missing.gguf", "missing.gguf", exitFailed},
		{"plan -p a --prompts " + prompts, "excludes", exitUsage},
		{"plan --prompts " + prompts, `no "prompt"`, exitFailed},
		{"selftest --prompts missing.jsonl", "missing.jsonl", exitFailed},
		{"selftest -f missing.txt", "missing.txt", exitFailed},
		{"selftest --draws 1", "--draws", exitUsage},
		{"selftest -m missing.gguf", "missing.gguf", exitFailed},
		{"demo -n 0", "-n", exitUsage},
	} {
		_, errs, code := spec(t, "", strings.Fields(x.args)...)
		if code != x.code || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("spec %s: exit %d, %s", x.args, code, errs)
		}
	}
}
