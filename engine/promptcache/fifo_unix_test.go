//go:build unix

package promptcache

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A named pipe is no file of a prompt: opening it would wait for a writer.
func TestPipesAreNoFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := OpenFile(path); !errors.Is(err, ErrNotCache) {
		t.Error(err)
	}
}
