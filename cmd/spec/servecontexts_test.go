package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/testdata"
)

// modelFolder is a folder with the embedded target as m.gguf.
func modelFolder(t *testing.T) (dir, file string) {
	t.Helper()
	data, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file = filepath.Join(dir, "m.gguf")
	write(t, file, string(data))
	return dir, file
}

// The list of models tells the context of one that is not in memory, as requests for it will have it; /v1/models/NAME
// likewise.
func TestServeTellsContextsBeforeLoading(t *testing.T) {
	dir, _ := modelFolder(t)
	for flags, want := range map[string]string{"": `"context_length":1024,"max_model_len":1024`,
		"-c 100": `"context_length":100,`, "-c 5000": `"context_length":1024,`,
		"--override-kv llama.context_length=int:512": `"context_length":512,`} {
		url, stop := started(t, append(strings.Fields(flags), "--models-dir", dir, "--log-format", "off", "-t", "1")...)
		for _, path := range []string{"/v1/models", "/v1/models/m"} {
			if status, text := askAs(t, "", "GET", url+path, ""); status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s, %s: %d %s", flags, path, status, text)
			}
		}
		if status, text := askAs(t, "", "GET", url+"/api/ps", ""); status != 200 || strings.Contains(text, `"name"`) {
			t.Errorf("a model is in memory: %d %s", status, text)
		}
		if _, err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// A header is read once for each state of its file, and what is no model has no context.
func TestContextsAreReadOnce(t *testing.T) {
	_, file := modelFolder(t)
	at := time.Unix(1e9, 0)
	age := func(at time.Time) {
		t.Helper()
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	var c contexts
	age(at)
	if n := c.of(file, fileChanges{}); n != 1024 {
		t.Errorf("%d tokens", n)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Repeat("x", int(info.Size())))
	age(at)
	if n := c.of(file, fileChanges{}); n != 1024 {
		t.Errorf("of the same file: %d tokens", n)
	}
	age(at.Add(time.Second))
	if n := c.of(file, fileChanges{}); n != 0 {
		t.Errorf("of a file that is no model: %d tokens", n)
	}
	if n := c.of(filepath.Join(t.TempDir(), "none"), fileChanges{}); n != 0 || len(c.known) != 1 {
		t.Errorf("of no file: %d tokens, %d known", n, len(c.known))
	}
}
