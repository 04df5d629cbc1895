package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part of a name that no schema has is told.
func TestNoSuchSchema(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "schemas.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	if _, err := w.Write([]byte(`{"name":"a","schema":true,"tests":[]}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, 0, "b", false); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error(err)
	}
}
