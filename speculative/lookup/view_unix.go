//go:build unix

package lookup

import (
	"os"

	"golang.org/x/sys/unix"
)

// view maps a file into memory.
func view(f *os.File, size int64) (data []byte, release func() error, err error) {
	if data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
