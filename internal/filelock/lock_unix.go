//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// Works reports whether this system has such locks.
const Works = true

// Lock marks an open file as this program's until unlock, its end, or the closing of the file. It is an error if
// another open file of the same name has the mark.
func Lock(f *os.File) (unlock func(), err error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	return func() { unix.Flock(int(f.Fd()), unix.LOCK_UN) }, nil
}

// Locked reports whether a file is marked through another open file. While it asks, Lock fails elsewhere.
func Locked(f *os.File) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return false
}
