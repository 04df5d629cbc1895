//go:build unix

package lookup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// An index of private texts is as private as the umask says, and a link to an index stays a link.
func TestIndexesHonorTheUmask(t *testing.T) {
	dir := t.TempDir()
	text, index, link := filepath.Join(dir, "text"), filepath.Join(dir, "index"), filepath.Join(dir, "link")
	if err := os.WriteFile(text, []byte("some words, and some more words"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(index, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("index", link); err != nil {
		t.Fatal(err)
	}
	o := Options{Vocab: 256, Threads: 1, Encode: func(text string) (ids []int32) {
		for _, b := range []byte(text) {
			ids = append(ids, int32(b))
		}
		return ids
	}}
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	for range 2 { // the second time a link to nothing
		if err := Build(t.Context(), link, []string{text}, o); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%v, %v", info, err)
		}
		if info, err := os.Stat(index); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%v, %v", info, err)
		}
		if err := os.Remove(index); err != nil {
			t.Fatal(err)
		}
	}
}

// A named pipe is no index: opening it would wait for a writer.
func TestPipesAreNoIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrNoIndex) {
		t.Error(err)
	}
}
