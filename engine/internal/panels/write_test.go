package panels

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// fullDisk is a file that takes so many writes.
type fullDisk struct {
	*os.File
	room int
	err  error
}

func (f *fullDisk) WriteAt(b []byte, off int64) (int, error) {
	if f.room--; f.room < 0 {
		return 0, f.err
	}
	return f.File.WriteAt(b, off)
}

// TestFailedWriteLeavesNothing: neither a disk that is full after some writes nor a cancelled context leaves a file
// behind.
func TestFailedWriteLeavesNothing(t *testing.T) {
	m := newModel(t)
	full := errors.New("no space left on device")
	nothing := func(what string) {
		if left, _ := os.ReadDir(m.Dir); len(left) != 0 {
			t.Errorf("%s: %s was left", what, left[0].Name())
		}
	}
	for room := range 5 {
		w := writer{func(dir, pattern string) (output, error) {
			out, err := os.CreateTemp(dir, pattern)
			return &fullDisk{out, 9 * room, full}, err
		}}
		if err := w.write(context.Background(), m.rt, m.Options); !errors.Is(err, full) {
			t.Errorf("full disk: %v", err)
		}
		nothing("full disk")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (writer{createTemporary}).write(ctx, m.rt, m.Options); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	nothing("cancelled")
}

// Where the file's name is taken by what cannot be replaced, writing it is an error, and nothing temporary is left.
func TestFileThatCannotTakeItsNameIsAnError(t *testing.T) {
	m := newModel(t)
	name := filepath.Join(m.Dir, m.Identity.name)
	if err := os.MkdirAll(filepath.Join(name, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (writer{createTemporary}).write(t.Context(), m.rt, m.Options); err == nil {
		t.Error("it is said to be written")
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
