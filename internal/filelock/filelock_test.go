package filelock

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file is marked once, until its mark is taken back or the file that has it is closed.
func TestLock(t *testing.T) {
	if !Works {
		t.Skip("files cannot be locked here")
	}
	name := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	for i, release := range []func(func()){func(unlock func()) { unlock() }, func(func()) { first.Close() }} {
		unlock, err := Lock(first)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(second); err == nil || !Locked(second) {
			t.Errorf("%d: a file is marked twice: %v", i, err)
		}
		release(unlock)
		if Locked(second) {
			t.Errorf("%d: the mark stays", i)
		}
	}
	if _, err := Lock(second); err != nil {
		t.Error(err)
	}
}

// A file that nobody marks is held as long as it may not be marked yet, or where there are no marks, be written: by its
// age, also where the clock has been set back since.
func TestUnmarkedFileIsHeldByItsAge(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute, time.Hour, -time.Hour, -1 << 62} {
		want := age.Abs() < justMade || !Works && age.Abs() < writtenLately
		if got := Held(name, time.Now().Add(-age)); got != want {
			t.Errorf("%v old: %t", age, got)
		}
	}
}
