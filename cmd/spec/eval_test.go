package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Cases pass with the files that were written from them, whatever drafts, and fail where the answer is another one or a
// check says so: the exit code, the lines and JUnit's XML say which.
func TestEvalRunsCases(t *testing.T) {
	dir := t.TempDir()
	cases, junit := filepath.Join(dir, "cases.jsonl"), filepath.Join(dir, "junit.xml")
	const text = `{"name": "push", "url": "/v1/completions", "golden": true,
		"body": {"prompt": "func (r *Ring) Push(", "max_tokens": 6, "temperature": 0}, "checks": [{"contains": "int"}]}
	{"name": "drawn", "golden": true, "body": {"messages": [{"role": "user", "content": "a ring"}], "max_tokens": 5},
		"checks": []}

	{"name": "judged", "url": "/v1/completions", "body": {"prompt": "x := ", "max_tokens": 8, "guided_choice": ["1", "[]"]},
		"checks": [{"judged": {"question": "Is this a number? {answer}", "choices": ["maybe"], "want": "maybe"}},
			{"similar": {"to": "[]", "at_least": -0.99}}, {"json_schema": {}}]}
	`
	lines := strings.ReplaceAll(strings.ReplaceAll(text, ",\n\t\t\t", ","), ",\n\t\t", ",")
	write(t, cases, lines)
	run := func(code int, args ...string) string {
		t.Helper()
		out, errs, got := spec(t, "",
			append([]string{"eval", "--chat-template", "chatml", "--junit", junit, cases}, args...)...)
		if got != code {
			t.Fatalf("%q: exit code %d\n%s%s", args, got, out, errs)
		}
		return out + errs
	}
	if out := run(exitFailed); !strings.Contains(out, "there is no such file; --update writes it") ||
		!strings.Contains(out, "2 of 3 cases failed") {
		t.Errorf("without files: %s", out)
	}
	run(exitDone, "--update")
	for _, more := range [][]string{nil, {"--drafter", "none"}, {"--threads", "1", "--goldens", dir}} {
		if out := run(exitDone, more...); strings.Count(out, "ok   ") != 3 {
			t.Errorf("%q: %s", more, out)
		}
	}
	if out := run(exitFailed, "--override-kv", "llama.rope.freq_base=float:300"); !strings.Contains(out,
		"differs: model") {
		t.Errorf("other keys of the file: %s", out)
	}
	write(t, cases, strings.Replace(strings.Replace(lines, "Push(", "Pop(", 1), `"contains": "int"`, `"contains": "@@"`,
		1))
	out := run(exitFailed)
	for _, want := range []string{"FAIL push", "because this differs: prompt", `does not contain "@@"`, "ok   drawn",
		"1 of 3 cases failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	data, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal(data, &suite); err != nil || suite.Tests != 3 || suite.Failures != 1 || suite.Errors != 0 ||
		len(suite.Cases) != 3 || suite.Cases[0].Failure == nil || suite.Cases[1].Failure != nil ||
		!strings.Contains(suite.Cases[0].Failure.Text, "prompt: from token") {
		t.Errorf("%v\n%s", err, data)
	}
	for name, value := range map[string]string{"models": "embedded target sha256:", "prompt_sets": "cases.jsonl sha256:",
		"simd": "", "cpu": "", "date": "20"} {
		i := slices.IndexFunc(suite.Properties, func(p junitProperty) bool { return p.Name == name })
		if i < 0 || suite.Properties[i].Value == "" || !strings.HasPrefix(suite.Properties[i].Value, value) {
			t.Errorf("property %s: %+v", name, suite.Properties)
		}
	}
	write(t, cases, lines+
		`{"name": "wrong", "body": {"messages": [{"role": "user", "content": "x"}], "no_such": 1}, "checks": [{"contains": "x"}]}`)
	if out := run(exitFailed); !strings.Contains(out, "FAIL wrong") || !strings.Contains(out, "no_such") {
		t.Errorf("a field that there is not: %s", out)
	}
}

// What a file of cases says wrongly is named with its line, before a model is loaded.
func TestEvalNamesWhatIsWrong(t *testing.T) {
	cases := filepath.Join(t.TempDir(), "cases.jsonl")
	const good = `{"name": "a", "body": {}, "checks": [{"contains": "x"}]}` + "\n"
	for text, want := range map[string]string{
		"":                                        "no cases",
		good + "\n" + good:                        `line 3: name: "a" is that of line 1 too`,
		`{"name": "../a", "body": {}}`:            "is no name of a golden file",
		`{"name": "a", "body": {}}`:               "nothing would be looked at",
		`{"name": "a", "bodies": {}}`:             `unknown name "bodies"`,
		`{"name": "a", "golden": true}`:           "body: missing",
		strings.Replace(good, "contains", "x", 1): `unknown name "x"`,
		strings.Replace(good, `"contains": "x"`, `"contains": "x", "json_schema": {}`,
			1): "checks[0]: 2 of contains",
		strings.Replace(good, `"contains": "x"`, `"similar": {"to": "x", "at_least": 2}`,
			1): "similar.at_least: 2",
		strings.Replace(good, `"contains": "x"`, `"called": {}`,
			1): "called.name: missing",
		strings.Replace(good, `"contains": "x"`, `"judged": {"choices": ["a"], "want": "b"}`,
			1): `judged.want: "b"`,
		strings.Replace(good, `"contains": "x"`, `"judged": {"choices": ["a"], "want": "a", "question": "x"}`, 1): "{answer}",
	} {
		write(t, cases, text)
		if _, errs, code := spec(t, "", "eval", cases); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %s", text, code, errs, want)
		}
	}
	write(t, cases, good)
	junit := filepath.Join(filepath.Dir(cases), "none", "junit.xml") // which is told before a model is loaded
	if _, errs, code := spec(t, "", "eval", cases, "-m", "no.gguf", "--junit", junit); code != exitFailed ||
		!strings.Contains(errs, "junit.xml") {
		t.Errorf("a folder that is not there: %d %s", code, errs)
	}
	for _, args := range [][]string{{}, {cases, cases}, {cases, "-m", "a", "-m", "b"}} {
		if _, errs, code := spec(t, "", append([]string{"eval"}, args...)...); code != exitUsage {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
}
