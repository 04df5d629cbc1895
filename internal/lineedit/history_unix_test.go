//go:build unix

package lineedit

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A named pipe is no history: opening it would wait for a writer.
func TestPipesAreNoHistories(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if h, err := OpenHistory(path); err == nil || h.Add("typed") != nil {
		t.Error(err)
	}
}
