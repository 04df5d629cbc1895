package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// conversing writes an embedded model with a chat template to a file.
func conversing(t *testing.T, model *strings.Reader, path string) {
	t.Helper()
	f, err := gguf.Open(model, model.Size(), "embedded")
	if err != nil {
		t.Fatal(err)
	}
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		tensors = append(tensors, sameTensor(f, x))
	}
	var b bytes.Buffer
	kvs := append(f.KVs, gguf.KV{Key: "tokenizer.chat_template", Value: "{{ messages[-1].content }}"})
	if err := gguf.Write(&b, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.String())
}

// A file, a name of the Hub and its URLs run the same model, which is downloaded once.
func TestRunByName(t *testing.T) {
	run, _, downloads := onHub(t)
	talk := []string{"-p", "x := 1", "-st", "-n", "3", "--temp", "0", "--chat-template", "plain"}
	out, errs, code := run("pull", "go/pair-GGUF")
	if code != exitDone {
		t.Fatal(errs)
	}
	path := strings.TrimSpace(out)
	want, errs, code := run(append([]string{"run", path}, talk...)...)
	if code != exitDone || want == "" {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for _, name := range []string{"go/pair-GGUF", "go/pair-GGUF:Q8_0", "go/pair-GGUF:pair-Q8_0.gguf", "hf://go/pair-GGUF",
		"https://huggingface.co/go/pair-GGUF", "hf.co/go/pair-GGUF:Q8_0",
		"https://huggingface.co/go/pair-GGUF/resolve/main/pair-Q8_0.gguf?download=true"} {
		if got, errs, code := run(append([]string{"run", name}, talk...)...); code != exitDone || got != want {
			t.Errorf("%s: exit %d, %q, want %q: %s", name, code, got, want, errs)
		}
	}
	if *downloads != 1 {
		t.Errorf("%d downloads", *downloads)
	}
}

// Without a name it is the largest model of the cache that fits and converses; without any, the error says what to do.
func TestRunWithNothing(t *testing.T) {
	dir := t.TempDir()
	run := func(more ...string) (string, string, int) {
		var out, errs bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: environment("HF_HUB_CACHE=" + dir)}
		code := p.main(t.Context(), append([]string{"run", "-p", "x := 1", "-st", "-n", "2", "--temp", "0", "-c", "64"},
			more...))
		return out.String(), errs.String(), code
	}
	_, errs, code := run()
	if code != exitFailed || !strings.Contains(errs, "no model is here; spec run FILE") ||
		!strings.Contains(errs, smallModels[0]) || strings.Count(errs, "\n") != 1 {
		t.Errorf("an empty cache: exit %d, %s", code, errs)
	}
	at := func(repo string) string {
		return filepath.Join(dir, "models--"+strings.ReplaceAll(repo, "/", "--"), "snapshots", strings.Repeat("a", 40),
			"m.gguf")
	}
	small, err := os.ReadFile("../../testdata/go-draft.q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	write(t, at("none/without-template"), string(small))
	write(t, at("none/no-model"), "GGUF")
	if _, errs, code := run(); code != exitFailed ||
		!strings.Contains(errs, "no model here holds a conversation (spec run none/no-model says why); spec run FILE") {
		t.Errorf("nothing that converses: exit %d, %s", code, errs)
	}
	conversing(t, testdata.Draft(), at("go/small"))
	if out, errs, code := run(); code != exitDone || out == "" || !strings.HasPrefix(errs, "go/small, m.gguf (") {
		t.Errorf("one: exit %d, %q, %s", code, out, errs)
	}
	conversing(t, testdata.Target(), filepath.Join(filepath.Dir(at("go/large")), "tales-of-a-model.gguf")) // no part
	if _, errs, code := run(); code != exitDone || !strings.HasPrefix(errs, "go/large, tales-of-a-model.gguf (") ||
		!strings.Contains(errs, "the largest of 2 here") {
		t.Errorf("two: exit %d, %s", code, errs)
	}
	if _, errs, code := run("--memory", "5500K"); code != exitDone || !strings.HasPrefix(errs, "go/small, m.gguf (") {
		t.Errorf("of which one fits: exit %d, %s", code, errs)
	}
	if _, errs, code := run("--memory", "1MB"); code != exitFailed || !strings.Contains(errs, "none of the 2 models") {
		t.Errorf("none fits: exit %d, %s", code, errs)
	}
}

// What cannot converse is refused by its header, before the runtime is made that reads weights, and the error says what
// to do instead.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.gguf")
	write(t, bad, "no model")
	const template, target = "../../testdata/go-target.q8_0.gguf --chat-template plain",
		"../../testdata/go-target.q8_0.gguf"
	t5 := t5File(t, nil)
	for i := range 7 {
		write(t, filepath.Join(dir, "many", fmt.Sprintf("m-%05d-of-00003.gguf", i+1)), "")
		write(t, filepath.Join(dir, "many", fmt.Sprintf("x%d.gguf", i)), "")
	}
	write(t, filepath.Join(dir, "none", "readme.md"), "")
	for line, want := range map[string]string{
		target: "has no chat template, so how it was trained to converse is unknown; choose one with --chat-template (",
		"../../testdata/go-eagle.q8_0.gguf --chat-template plain": "(-md)",
		t5:                             "spec generate gives a prompt to its encoder",
		bad:                            "not a GGUF file",
		"nosuch.gguf":                  "no such file; OWNER/NAME[:QUANTIZATION]",
		"models/nosuch.gguf":           "no such file; OWNER/NAME[:QUANTIZATION]",
		"nosuch":                       "no such file; OWNER/NAME[:QUANTIZATION]",
		"https://example.com/a/b.gguf": "download the file, and give its path",
		"hf.co/a/b/tree/dev":           "the branch main",
		template + " -md nosuch":       "nosuch",
		dir + "/bda.gguf":              "no such file, did you mean bad.gguf?\n",
		dir:                            dir + ": a directory; name one of its files: bad.gguf\n",
		dir + "/many":                  "files: m-00001-of-00003.gguf, x0.gguf, x1.gguf, x2.gguf and 4 more\n",
		dir + "/none":                  "a directory without GGUF files",
		template + " -md " + dir:       "a directory; name one of its files: bad.gguf",
		template + " -md " + bad:       "not a GGUF file",
		target + " --chat-template no": "neither a file nor one of",
	} {
		var out, errs bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
			env: environment("SPEC_SIMD=nosuch HF_HUB_CACHE=" + dir)}
		code := p.main(t.Context(), append([]string{"run"}, strings.Fields(line)...))
		if code != exitFailed || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("run %s: exit %d, %s", line, code, errs.String())
		}
	}
}

// A person chooses by number; what is behind the line stays for the conversation.
func TestChooseOffer(t *testing.T) {
	list := []offer{{"a/b", 5e8}, {"c/d:Q4_K_M", 1050e6}}
	for in, want := range map[string]string{
		"\nhello": "a/b", "2\nhello": "c/d:Q4_K_M", "3\nx\n-1\n" + strings.Repeat("1", 200) + "\n1\nhello": "a/b",
		" 2 \nhello": "c/d:Q4_K_M",
	} {
		var errs bytes.Buffer
		r := strings.NewReader(in)
		got, err := chooseOffer(t.Context(), &program{stdin: r, stderr: &errs}, "why", list)
		if got != want || err != nil || r.Len() != len("hello") || !strings.Contains(errs.String(), "1.05 GB") {
			t.Errorf("%q: %q, %v, %d left: %s", in, got, err, r.Len(), errs.String())
		}
	}
	for _, in := range []string{"q\n", "", "3\n"} {
		if got, err := chooseOffer(t.Context(), &program{stdin: strings.NewReader(in), stderr: new(bytes.Buffer)}, "",
			list); !errors.Is(err, errInterrupted) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// The Hub is asked for the sizes; what it does not have, or does not fit, is not offered.
func TestOffered(t *testing.T) {
	sizes := map[string]int64{smallModels[0]: 7e8, smallModels[1]: 8e8, smallModels[3]: 3e9}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, bytes := range sizes {
			repo, quant, _ := strings.Cut(name, ":")
			switch {
			case r.URL.Path == "/api/models/"+repo+"/revision/main":
				fmt.Fprintf(w, `{"sha":%q,"siblings":[{"rfilename":"x-%s.gguf"}]}`, strings.Repeat("b", 40), quant)
			case strings.HasPrefix(r.URL.Path, "/"+repo+"/resolve/") && r.Method == http.MethodHead:
				w.Header().Set("ETag", `"`+strings.Repeat("c", 64)+`"`)
				w.Header().Set("X-Linked-Size", fmt.Sprint(bytes))
			default:
				continue
			}
			return
		}
		http.NotFound(w, r)
	}))
	defer s.Close()
	p := &program{env: environment("HF_ENDPOINT=" + s.URL)}
	c := newConverse()
	c.memory = 2e9
	got, err := c.offered(t.Context(), p)
	want := []offer{{smallModels[0], 7e8}, {smallModels[1], 8e8}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	c.memory = 1e8
	if got, err := c.offered(t.Context(), p); err == nil {
		t.Errorf("%v", got)
	}
	clear(sizes)
	if got, err := c.offered(t.Context(), p); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v, %v", got, err)
	}
}
