package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/specgo/spec/gguf"
)

// readHeader reads a file's metadata.
func readHeader(tb testing.TB, file []byte, name string) *gguf.File {
	tb.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), name)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// openBytes loads the model of a file.
func openBytes(tb testing.TB, rt *Runtime, file []byte, name string, o Options) (*Model, error) {
	tb.Helper()
	o.Name = name
	m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), o)
	if err == nil {
		tb.Cleanup(m.Close)
	}
	return m, err
}
