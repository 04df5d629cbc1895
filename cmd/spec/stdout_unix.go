//go:build unix

package main

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// closed reports whether standard output was closed when the program was started. Go's runtime opens the null device in
// its place, for reading and writing, so that this is all there is to see; what a shell opens is for writing alone. A
// parent that opens it so (Node.js, daemon(3)) does it for another stream too, which tells the two apart; Python's
// subprocess.DEVNULL for standard output alone looks the same.
func closed(stdout *os.File) bool {
	null, err := os.Stat(os.DevNull)
	if err != nil || stdout.Fd() != 1 {
		return false
	}
	both := func(f *os.File) bool {
		info, err := f.Stat()
		if err != nil || !os.SameFile(info, null) {
			return false
		}
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
	}
	return both(stdout) && !slices.ContainsFunc([]*os.File{os.Stdin, os.Stderr}, both)
}
