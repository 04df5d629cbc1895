package panels

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens a file for reads past the page cache (O_DIRECT). On file systems without them, reads go through
// the cache, which is told to forget them (POSIX_FADV_DONTNEED).
func openDirect(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		if f, err = os.Open(name); err == nil {
			return forgetful{f}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// forgetful is a file whose pages do not stay in the page cache.
type forgetful struct{ *os.File }

func (f forgetful) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	// advice: what is not taken only costs memory that can be reclaimed
	_ = unix.Fadvise(int(f.Fd()), off, int64(len(b)), unix.FADV_DONTNEED)
	return n, err
}
