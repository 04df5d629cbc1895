// Package filelock marks files as being written, for other programs that ask. The marks keep nobody from reading or
// writing, and they are gone with the program that made them.
package filelock

import (
	"os"
	"path/filepath"
	"time"
)

// A temporary file that was written to so lately is taken for one that is being written: it may not be marked yet, or,
// on a system without marks, that is all that can be known.
const (
	justMade      = 2 * time.Second
	writtenLately = 10 * time.Minute
)

// Held reports whether a program is writing a temporary file, which marks it as soon as it has made it. modified is
// when it was last written to.
func Held(name string, modified time.Time) bool {
	age := time.Since(modified).Abs() // the clock may have been set back since
	if !Works {
		return age < writtenLately
	}
	if age < justMade {
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return Locked(f)
}

// Sweep deletes what killed programs have left in a folder: files by whose names they are temporary, and that are not
// held.
func Sweep(dir string, temporary func(name string) bool) {
	list, _ := os.ReadDir(dir) // an error is that of the file that comes next, too
	for _, e := range list {
		if !temporary(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && !Held(name, info.ModTime()) {
			_ = os.Remove(name)
		}
	}
}
