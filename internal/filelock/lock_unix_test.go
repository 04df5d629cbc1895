//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filelock

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the file system has no marks nobody has one: what Lock is asked for goes on. A mark of another is an error.
func TestFileSystemsWithoutMarks(t *testing.T) {
	for err, want := range map[error]bool{unix.ENOSYS: true, unix.EOPNOTSUPP: true, unix.ENOLCK: true,
		unix.EWOULDBLOCK: false, unix.EBADF: false, nil: false} {
		if unmarkable(err) != want || unmarkable(os.NewSyscallError("flock", err)) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}
