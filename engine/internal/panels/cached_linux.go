package panels

import (
	"os"

	"golang.org/x/sys/unix"
)

// inCache reports whether most of a file is in the page cache, or that is not known: Linux says it from 6.5 on, to a
// file's owner.
func inCache(f *os.File, size int64) bool {
	var stat unix.Cachestat_t
	if unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(size)}, &stat, 0) != nil {
		return true
	}
	return stat.Cache*uint64(os.Getpagesize()) >= uint64(size)/10*9
}
