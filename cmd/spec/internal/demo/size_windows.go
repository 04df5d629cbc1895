package demo

import (
	"os"

	"golang.org/x/sys/windows"
)

// Size is the width and height of a console in characters, 0 if f is none or one that does not
// understand control sequences.
func Size(f *os.File) (width, height int) {
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return 0, 0
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil || windows.GetConsoleScreenBufferInfo(h, &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}
