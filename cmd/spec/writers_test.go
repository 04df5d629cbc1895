package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// generate fails where its text would be lost: standard output closed, or full. The null device is fine.
func TestGenerateNeedsItsOutput(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a shell and /dev/full")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for redirect, want := range map[string]struct {
		code int
		text string
	}{
		">&-":                                    {exitFailed, "standard output is closed"},
		"--json >&-":                             {exitFailed, "standard output is closed"},
		">/dev/full":                             {exitFailed, "no space left"},
		"--json >/dev/full":                      {exitFailed, "no space left"},
		">/dev/null":                             {exitDone, "3 tokens"},
		"1<>/dev/null 0<&1":                      {exitDone, "3 tokens"}, // as a service
		">/dev/null 2>&1":                        {exitDone, ""},
		"--receipt " + dir + "/receipt.json >&-": {exitDone, "3 tokens"},
		"| head -c 0":                            {exitDone, ""}, // the status is head's
	} {
		cmd := exec.Command("sh", "-c", shellQuote(self)+" generate -n 3 --temp 0 -p 'func main' "+redirect)
		cmd.Env = append(os.Environ(), asCommand+"=1", "LLAMA_ARG_THREADS=1")
		var stdout, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), &stdout, &stderr
		launch(t, cmd)
		code := finish(t, cmd, &stderr)
		if code != want.code || !strings.Contains(stderr.String(), want.text) ||
			code == exitFailed && strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, want %d; %q", redirect, code, want.code, &stderr)
		}
	}
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A command's output is never its input, under whatever name: the input stays as it is.
func TestTheInputIsNoOutput(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	data, err := os.ReadFile(draftFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "folder/model.safetensors"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o777), os.WriteFile(at(name), data, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(os.Symlink("a", at("link")), os.Link(at("a"), at("hard")), os.Symlink(".", at("here")))
	if err != nil {
		t.Skip(err) // no links here
	}
	for _, line := range []string{
		"quantize a a q4_0", "quantize a link q4_0", "quantize link a q4_0", "quantize a hard q4_0", "quantize hard a q4_0",
		"quantize a ./here/a q4_0", "quantize a here/link q4_0",
		"generate -m a -n 1 --receipt a", "generate -m a -n 1 --receipt hard", "generate -m a -n 1 --trace a",
		"generate -m a -n 1 --trace link", "generate -md link -n 1 --trace a",
		"generate -f a -n 1 --trace a", "generate -f link -n 1 --receipt a", "generate -p x --grammar-file a --trace hard",
		"generate -p x --draft-from a --receipt a", "compare -m a --html hard", "bench -m a --cpuprofile a",
		"lookup build -o link a",
	} {
		args := strings.Fields(line)
		for i, arg := range args {
			if _, err := os.Lstat(at(arg)); err == nil {
				args[i] = at(arg)
			}
		}
		_, stderr, code := spec(t, "", args...)
		if code != exitFailed || !strings.Contains(stderr, "it would be destroyed") {
			t.Errorf("%s: exit %d, %q", line, code, stderr)
		}
		if now, err := os.ReadFile(at("a")); err != nil || !bytes.Equal(now, data) {
			t.Fatalf("%s: the input has changed: %v", line, err)
		}
	}
	if list := files(t, dir); !slices.Equal(list, []string{"a", "folder/model.safetensors", "hard", "here", "link"}) {
		t.Errorf("left behind: %q", list)
	}
	done(t, "", "quantize", at("a"), at("other"), "q4_0")
}

// files are the paths of all files below a folder.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			list = append(list, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// fullOutput takes nothing.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What a command tells on standard output is not lost without its exit code: of a model that was downloaded or deleted,
// of an index that is intact, and of answers.
func TestReportsThatCannotBeWritten(t *testing.T) {
	url, _ := hubServer(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("requests"), `{"custom_id": "a", "method": "POST", "url": "/v1/completions", `+
		`"body": {"prompt": "x", "max_tokens": 1}}`)
	write(t, at("text"), strings.Repeat("func main() {}\n", 9))
	done(t, "", "lookup", "build", "-o", at("index"), at("text"))
	env := map[string]string{"HF_ENDPOINT": url, "HF_TOKEN": "token", "HF_HUB_CACHE": at("hub"), "SPEC_CACHE": dir,
		"LLAMA_ARG_THREADS": "1"}
	for _, line := range []string{
		"pull go/pair-GGUF", "rm go/pair-GGUF", "lookup check " + at("index"),
		"batch -i " + at("requests") + " -o " + at("answers"),
	} {
		var errs bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: fullOutput{}, stderr: &errs,
			env: func(k string) string { return env[k] }}
		if code := p.main(t.Context(), strings.Fields(line)); code != exitFailed ||
			!strings.HasSuffix(errs.String(), "no space left on device\n") {
			t.Errorf("spec %s: exit %d, %s", line, code, &errs)
		}
	}
}

// A writer whose device is full fails with one line that says so, and leaves the device and its folder as they were.
func TestFullDevices(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{
		"quantize " + draftFile + " FULL q4_0", "generate -n 2 --receipt FULL",
		"generate -n 2 --trace FULL -md " + draftFile, "generate -n 2 --learned FULL --schedule auto -md " + draftFile,
		"tokenize -p x", "generate -n 2 --json", "inspect",
	} {
		args := strings.Fields(strings.ReplaceAll(line, "FULL", full))
		cmd, _, stderr := start(t, nil, args...)
		if !strings.Contains(line, "FULL") {
			device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer device.Close()
			cmd.Stdout = device
		}
		launch(t, cmd)
		if code := finish(t, cmd, stderr); code != exitFailed ||
			!strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%s: exit %d, %q", line, code, stderr)
		}
		if list := files(t, dir); !slices.Equal(list, []string{"full"}) {
			t.Fatalf("%s: left behind: %q", line, list)
		}
	}
	if info, err := os.Stat(full); err != nil || info.Mode().IsRegular() {
		t.Error(fmt.Sprint(info, err))
	}
}
