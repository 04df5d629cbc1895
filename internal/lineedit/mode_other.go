//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package lineedit

import (
	"io"
	"os"
)

// A mode is how a terminal treats what is typed, which nothing changes here.
type mode struct{}

func openMode(*os.File) (*mode, error) { return nil, ErrNoTerminal }

func (*mode) set(state) error          { return nil }
func (*mode) read([]byte) (int, error) { return 0, io.EOF }
func (*mode) wake()                    {}

// stopProcess does nothing: here no key stops a process.
func stopProcess() {}
