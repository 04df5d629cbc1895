//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Works reports whether this system has such locks.
const Works = true

// Lock marks an open file as this program's until unlock, its end, or the closing of the file. It is an error if
// another open file of the same name has the mark. On a file system without marks nothing is marked, without an error.
func Lock(f *os.File) (unlock func(), err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if unmarkable(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { unix.Flock(int(f.Fd()), unix.LOCK_UN) }, nil
}

// unmarkable reports whether an error is that of a file system without marks: of networks, as Lustre is mounted by
// default, or NFS without its service for locks.
func unmarkable(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.ENOLCK)
}

// Locked reports whether a file is marked through another open file; also where that cannot be known. While it asks,
// Lock fails elsewhere.
func Locked(f *os.File) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return true
	}
	unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return false
}
