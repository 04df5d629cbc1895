//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || solaris || windows)

package terminal

import (
	"os"
	"runtime"
)

// Size returns 0: on this system the size of a terminal is not known.
func Size(*os.File) (width, height int) { return 0, 0 }

// isTerminal reports whether f is a character device. The null device is one too, which is harmless.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && runtime.GOOS != "wasip1"
}

// understands is true of every terminal.
func understands(f *os.File) bool { return isTerminal(f) }
