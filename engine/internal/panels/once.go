package panels

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// onceFile reads a file from beginning to end that is not in the system's cache: past it, which takes the processors
// less time than filling it, unless the disk turns out to be slow. Then the cache costs nothing, and the file is there
// the next time.
type onceFile struct {
	File   // past the cache
	cached *os.File
	begun  time.Time
	read   atomic.Int64 // bytes
	slow   atomic.Bool
}

// openOnce is a file, given open, for reading all of it once.
func openOnce(f *os.File, size int64) File {
	if inCache(f, size) {
		return f
	}
	direct, err := openDirect(f.Name())
	if err != nil {
		return f
	}
	if _, ok := direct.(*os.File); !ok { // it goes through the cache
		direct.Close()
		return f
	}
	return &onceFile{File: direct, cached: f, begun: time.Now()}
}

func (f *onceFile) ReadAt(b []byte, off int64) (int, error) {
	if f.slow.Load() {
		return f.cached.ReadAt(b, off)
	}
	n, err := f.File.ReadAt(b, off)
	if slowDisk(f.read.Add(int64(n)), time.Since(f.begun)) {
		f.slow.Store(true)
	}
	return n, err
}

func (f *onceFile) Close() error { return errors.Join(f.File.Close(), f.cached.Close()) }

// slowDisk reports whether a disk that has given so many bytes is slower than two processors fill the cache.
func slowDisk(bytes int64, took time.Duration) bool {
	const enough, perSecond = 16 * pieceBytes, 1.5e9
	return bytes >= enough && float64(bytes) < perSecond*took.Seconds()
}
