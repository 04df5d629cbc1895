//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package batch

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other programs from writing the same file until unlock, or the end of this one.
func lock(f *os.File) (unlock func(), err error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	return func() { unix.Flock(int(f.Fd()), unix.LOCK_UN) }, nil
}
