//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly || solaris

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Size returns the width and height of a terminal in characters, 0 if f is not a terminal.
func Size(f *os.File) (width, height int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(w.Col), int(w.Row)
}

// isTerminal reports whether f has a window size, as every terminal has, though it may be 0.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// understands is true of every terminal.
func understands(f *os.File) bool { return isTerminal(f) }
