//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package panels

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// hold marks a temporary file as being written, until it is closed or the process ends.
func hold(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// held reports whether a process is writing a temporary file.
func held(name string, modified time.Time) bool {
	if time.Since(modified) < justMade { // made, and not yet marked
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}
