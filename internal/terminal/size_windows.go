package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// Size returns the width and height of a console in characters, 0 if f is not a console or one that does not
// understand control sequences.
func Size(f *os.File) (width, height int) {
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return 0, 0
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil ||
		windows.GetConsoleScreenBufferInfo(h, &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

// understands asks a console to read control sequences, which a program has to do itself.
func understands(f *os.File) bool {
	width, _ := Size(f)
	return width > 0
}

// isTerminal reports whether f is a console.
func isTerminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
