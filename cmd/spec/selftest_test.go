package main

import (
	"strings"
	"testing"

	"github.com/specgo/spec/cmd/spec/internal/selftest"
)

func TestSelftest(t *testing.T) {
	out := done(t, "", "selftest", "--quick", "-n", "4", "--draws", "200")
	for _, want := range []string{"one answer", "confirmation", "same text", "distribution", "p 0.", ": 0 failed\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r := decode[selftest.Result](t, done(t, "", "selftest", "--quick", "-n", "2", "--draws", "100", "--json"))
	if r.Schema != 1 || r.Failed != 0 || len(r.Checks) < 30 || r.Threads < 1 || len(r.Kernels) < 1 {
		t.Errorf("%+v", r)
	}
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
