//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly || solaris

package demo

import (
	"os"

	"golang.org/x/sys/unix"
)

// Size is the width and height of a terminal in characters, 0 if f is none.
func Size(f *os.File) (width, height int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(w.Col), int(w.Row)
}
