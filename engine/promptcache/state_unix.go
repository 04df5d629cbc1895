//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package promptcache

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// identify adds what the system says beyond size and time.
func (s *fileState) identify(fs.FileInfo) {
	var st unix.Stat_t
	if unix.Stat(s.Path, &st) == nil {
		s.Inode, s.Device, s.Changed = uint64(st.Ino), uint64(st.Dev), unix.TimespecToNsec(st.Ctim)
	}
}
