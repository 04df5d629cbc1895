//go:build !unix

package lookup

import (
	"io"
	"os"
)

// view reads a file into memory.
func view(f *os.File, size int64) (data []byte, release func() error, err error) {
	data = make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, size), data)
	return data, func() error { return nil }, err
}
