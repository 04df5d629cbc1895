package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spec batch answers with what a completion of the same prompt alone is, goes on where an output ends, and says what
// it did.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var lines strings.Builder
	prompts := []string{"func main() {\n", "package main\n\nimport", "// Copy copies"}
	for i, prompt := range prompts {
		fmt.Fprintf(&lines, `{"custom_id": "r%d", "method": "POST", "url": "/v1/completions", "body": {"prompt": %q, "max_tokens": 12, "temperature": 0}}`+"\n", i, prompt)
	}
	lines.WriteString(`{"custom_id": "bad", "url": "/v1/completions", "body": {"prompt": "x", "max_token": 3}}` + "\n")
	if err := os.WriteFile(in, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var r batchReport
	if err := json.Unmarshal([]byte(done(t, "", "batch", "-i", in, "-o", out, "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Requests != 4 || r.Done != 4 || r.Failed != 1 || r.CompletionTokens != 36 || r.Schema != 1 {
		t.Errorf("%+v", r)
	}
	texts := func() map[string]string {
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for line := range strings.Lines(string(data)) {
			var a struct {
				ID       string `json:"custom_id"`
				Response struct {
					Status int `json:"status_code"`
					Body   struct {
						Choices []struct{ Text string }
						Error   struct{ Message, Param string }
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatal(err)
			}
			if m[a.ID] != "" {
				t.Errorf("%s is answered twice", a.ID)
			}
			if m[a.ID] = a.Response.Body.Error.Param; a.Response.Status == 200 {
				m[a.ID] = a.Response.Body.Choices[0].Text
			}
		}
		return m
	}
	first := texts()
	for i, prompt := range prompts {
		want := done(t, "", "generate", "-p", prompt, "-n", "12", "--temp", "0", "--no-display-prompt")
		if id := fmt.Sprintf("r%d", i); strings.TrimSuffix(want, "\n") != strings.TrimSuffix(
			first[id], "\n") || first[id] == "" {
			t.Errorf("%s: %q, spec generate writes %q", id, first[id], want)
		}
	}
	if first["bad"] != "max_token" {
		t.Errorf("the error of a wrong request names %q", first["bad"])
	}
	// A part of it again.
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if report := done(t, "", "batch", "-i", in, "-o", out); !strings.Contains(report, "4 requests") ||
		!strings.Contains(report, "tokens/s") {
		t.Errorf("%q", report)
	}
	for id, text := range texts() {
		if text != first[id] {
			t.Errorf("%s: %q the second time, %q before", id, text, first[id])
		}
	}
	for want, args := range map[string][]string{
		"-i is missing":     {"-o", out},
		"-o is missing":     {"-i", in},
		"want I/N":          {"-i", in, "-o", out, "--shard", "4/4"},
		"unknown flag":      {"-i", in, "-o", out, "--host", "::"},
		"--shard x":         {"-i", in, "-o", out, "--shard", "x"},
		"-np, --parallel 0": {"-i", in, "-o", out, "-np", "0"},
	} {
		_, errs, code := spec(t, "", append([]string{"batch"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, strings.TrimPrefix(want, "-np, --parallel 0")) {
			t.Errorf("%q: exit %d, %q", args, code, errs)
		}
	}
	if _, errs, code := spec(t, "", "batch", "-i", filepath.Join(dir, "none"), "-o", out); code != exitFailed ||
		!strings.Contains(errs, "none") {
		t.Errorf("no input: exit %d, %q", code, errs)
	}
}

// A line that is no JSON is refused by its file and number; an error that wraps several is its own text, and errors
// that were joined are one line.
func TestBatchLineIsNamed(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	line := `{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x%sy"}}` + "\n"
	if err := os.WriteFile(in, fmt.Appendf(nil, line+line, 1, "", 2, "\t"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, text, _ := spec(t, "", "batch", "-i", in, "-o", filepath.Join(dir, "out.jsonl")); !strings.Contains(
		text, in+": line 2: ") {
		t.Error(text)
	}
	if got := message(errors.Join(errors.New("a"), errors.New("b"))); got != "a; b" {
		t.Errorf("%q", got)
	}
}

// Standard input and output are no files of a batch, and none is made that is called "-"; that of vectors is.
func TestDashIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ in, out, want string }{{"-", "out", "-i -: "}, {"in", "-", "-o -: "}} {
		if _, text, code := spec(t, "", "batch", "-i", c.in, "-o", c.out); code != exitUsage || !strings.Contains(text,
			c.want) {
			t.Errorf("-i %s -o %s: exit %d, %s", c.in, c.out, code, text)
		}
	}
	if got, want := done(t, "", "embed", "-p", "x", "-o", "-"), done(t, "", "embed", "-p", "x"); got != want {
		t.Errorf("embed -o -: %.100q, want %.100q", got, want)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// The models of a folder answer a batch too.
func TestBatchOfModelsOfAFolder(t *testing.T) {
	dir, _ := modelFolder(t)
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	write(t, in, `{"custom_id":"a","url":"/v1/completions","body":{"model":"m","prompt":"func","max_tokens":2}}`)
	done(t, "", "batch", "--models-dir", dir, "-i", in, "-o", out, "-t", "1")
	if text, err := os.ReadFile(out); err != nil || !strings.Contains(string(text), `"status_code":200`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Where an answer says that the server's log has the details, they are on standard error.
func TestBatchTellsWhatTheServersLogHas(t *testing.T) {
	dir, _ := modelFolder(t)
	write(t, filepath.Join(dir, "z.gguf"), "not a model")
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	write(t, in, `{"custom_id":"a","url":"/v1/completions","body":{"model":"z","prompt":"func","max_tokens":2}}`)
	_, errs, code := spec(t, "", "batch", "--models-dir", dir, "-i", in, "-o", out, "-t", "1")
	if code != exitFailed || !strings.Contains(errs, "z could not be loaded") ||
		!strings.Contains(errs, `msg="model not loaded" model=z error=`) {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// A failure of an earlier run is no answer: the same command tries its request again, and keeps what is answered.
func TestBatchTriesFailuresAgain(t *testing.T) {
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	line := `{"custom_id":"%d","url":"/v1/completions","body":{"prompt":"func","max_tokens":2}}` + "\n"
	write(t, in, fmt.Sprintf(line+line+line, 400, 500, 504))
	answer := `{"id":"x","custom_id":"%[1]d",` +
		`"response":{"status_code":%[1]d,"request_id":"x","body":{}},"error":null}` + "\n"
	write(t, out, fmt.Sprintf(answer, 400)+fmt.Sprintf(answer, 500)+fmt.Sprintf(answer, 504))
	report := done(t, "", "batch", "-i", in, "-o", out, "-t", "1")
	text, err := os.ReadFile(out)
	if err != nil || !strings.Contains(report, "1 answered before, 2 now") ||
		strings.Count(string(text), `"status_code":200`) != 2 || strings.Count(string(text), "\n") != 3 {
		t.Errorf("%s%s, %v", report, text, err)
	}
}

// A request whose text alone needs more memory than --kv-memory is has that as its answer, and ends nothing: package
// batch knows it by the code that package serve gives it.
func TestBatchRequestTooLargeForMemory(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var lines strings.Builder
	for name, prompt := range map[string]string{"large": strings.Repeat("a b c ", 300), "small": "x"} {
		fmt.Fprintf(&lines, `{"custom_id": %q, "url": "/v1/completions", "body": {"prompt": %q, "max_tokens": 2}}`+"\n", name,
			prompt)
	}
	if err := os.WriteFile(in, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var r batchReport
	report := done(t, "", "batch", "-i", in, "-o", out, "--kv-memory", "2MiB", "--json")
	if err := json.Unmarshal([]byte(report), &r); err != nil || r.Done != 2 || r.Failed != 1 {
		t.Errorf("%v, %s", err, report)
	}
}
