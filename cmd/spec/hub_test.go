package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/testdata"
)

// hubServer has the embedded draft model, and says how often its content was asked for.
func hubServer(t *testing.T) (url string, downloads *int) {
	t.Helper()
	content, err := io.ReadAll(testdata.Draft())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	downloads = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/api/models/go/pair-GGUF/revision/main":
			fmt.Fprintf(w, `{"sha":%q,"siblings":[{"rfilename":"pair-Q8_0.gguf"},{"rfilename":"README.md"}]}`, commit)
		case r.URL.Path == "/go/pair-GGUF/resolve/"+commit+"/pair-Q8_0.gguf":
			if r.Method == http.MethodGet {
				*downloads++
			}
			w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, downloads
}

// onHub runs commands against a hubServer.
func onHub(t *testing.T) (run func(args ...string) (stdout, stderr string, code int), dir string, downloads *int) {
	t.Helper()
	url, downloads := hubServer(t)
	dir = t.TempDir()
	return func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		env := map[string]string{"HF_ENDPOINT": url, "HF_TOKEN": "token", "HF_HUB_CACHE": dir}
		p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: func(k string) string { return env[k] }}
		code := p.main(t.Context(), args)
		return out.String(), errs.String(), code
	}, dir, downloads
}

func TestHub(t *testing.T) {
	run, dir, downloads := onHub(t)
	if out, errs, code := run("list"); code != exitDone || out != "no models in "+dir+"\n" {
		t.Errorf("list: exit %d, %q, %s", code, out, errs)
	}
	out, errs, code := run("pull", "go/pair-GGUF")
	path := strings.TrimSuffix(out, "\n")
	if code != exitDone || *downloads != 1 || !strings.HasPrefix(path, dir) || filepath.Base(path) != "pair-Q8_0.gguf" {
		t.Fatalf("pull: exit %d, %d downloads, %q, %s", code, *downloads, out, errs)
	}
	if out, _, code := run("list"); code != exitDone ||
		!strings.Contains(out, "go/pair-GGUF  pair-Q8_0.gguf  1.6 MB  01234567") {
		t.Errorf("list: exit %d, %q", code, out)
	}
	type entry struct{ Repo, File, Path string }
	j := decode[struct {
		Schema int
		Models []entry
	}](t, func() string { out, _, _ := run("list", "--json"); return out }())
	if j.Schema != 1 || len(j.Models) != 1 || j.Models[0] != (entry{"go/pair-GGUF", "pair-Q8_0.gguf", path}) {
		t.Errorf("%+v", j)
	}
	// -hf and -hfd take it from the cache.
	want, _, _ := run("generate", "-m", path, "-p", ring, "-n", "4", "--temp", "0")
	got, errs, code := run("generate", "-hf", "go/pair-GGUF:q8_0", "-hfd", "go/pair-GGUF", "-p", ring,
		"-n", "4", "--temp", "0")
	if code != exitDone || got != want || want == "" || *downloads != 1 {
		t.Errorf("-hf: exit %d, %q, want %q, %d downloads, %s", code, got, want, *downloads, errs)
	}
	// It counts in --memory as a file of -md does.
	limited := func(more ...string) (errs string) {
		_, errs, _ = run(append([]string{"generate", "-m", "../../testdata/go-target.q8_0.gguf", "-p", ring, "--memory",
			"1M"}, more...)...)
		return errs
	}
	if got, want := limited("-hfd", "go/pair-GGUF"), limited("-md", path); got != want ||
		!strings.Contains(want, "the least is") || want == limited() {
		t.Errorf("-hfd: %s, -md: %s", got, want)
	}
	if out, errs, code := run("rm", "go/pair-GGUF:Q4_0"); code != exitFailed || out != "" ||
		!strings.Contains(errs, "not in the cache") {
		t.Errorf("rm: exit %d, %q, %q", code, out, errs)
	}
	if out, errs, code := run("rm", "go/pair-GGUF"); code != exitDone ||
		!strings.Contains(out, "removed go/pair-GGUF pair-Q8_0.gguf") {
		t.Errorf("rm: exit %d, %q, %q", code, out, errs)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// -hf downloads what is not there.
	if got, errs, code := run("generate", "-hf", "go/pair-GGUF", "-p",
		ring, "-n", "4", "--temp", "0"); code != exitDone || got != want || *downloads != 2 {
		t.Errorf("-hf: exit %d, %q, want %q, %d downloads, %s", code, got, want, *downloads, errs)
	}
}

// Whether a model of the Hub has a block that drafts shows when it is here: it is not refused before.
func TestHubModelThatMayDraft(t *testing.T) {
	run, _, downloads := onHub(t)
	for _, args := range [][]string{
		{"generate", "-hf", "go/pair-GGUF", "--drafter", "mtp"}, {"run", "go/pair-GGUF", "--drafter", "tree"},
	} {
		_, errs, code := run(append(args, "-p", "x", "-n", "1")...)
		if code != exitUsage || !strings.Contains(errs, args[len(args)-1]+" needs a ") || *downloads != 1 {
			t.Errorf("%q: exit %d, %d downloads, %s", args, code, *downloads, errs)
		}
	}
}

func TestHubUsage(t *testing.T) {
	run, dir, _ := onHub(t)
	for args, says := range map[string]string{
		"pull": "OWNER/NAME", "rm": "OWNER/NAME", "pull a": "OWNER/NAME", "pull a/b c/d": "one model",
		"pull ../b": "OWNER/NAME", "pull a/b:": "OWNER/NAME", "generate -hf x": "OWNER/NAME",
	} {
		if out, errs, code := run(strings.Fields(args)...); code != exitUsage || out != "" ||
			!strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	for args, says := range map[string]string{
		"pull nobody/nothing": "not found", "pull go/pair-GGUF:Q4_K_M": "pair-Q8_0.gguf",
		"generate -hf nobody/nothing -p x": "nobody/nothing",
	} {
		if out, errs, code := run(strings.Fields(args)...); code != exitFailed || out != "" ||
			!strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Without a connection to the Hub the error says what can be done; an answer that there is no such model does not.
func TestHubUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // an address at which nobody listens
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + l.Addr().String()
	l.Close()
	for _, line := range []string{"pull go/pair-GGUF", "run go/pair-GGUF", "generate -hf go/pair-GGUF"} {
		var errs bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs,
			env: environment("HF_ENDPOINT=" + endpoint + " HF_HUB_CACHE=" + t.TempDir())}
		code := p.main(t.Context(), strings.Fields(line))
		if text := errs.String(); code != exitFailed || !strings.Contains(text, endpoint) || strings.Count(text, "\n") != 1 ||
			!strings.Contains(text, "spec list shows the models that are here") {
			t.Errorf("%s: exit %d, %s", line, code, text)
		}
	}
	run, _, _ := onHub(t)
	if _, errs, code := run("pull", "go/none"); code != exitFailed || strings.Contains(errs, "spec list") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
