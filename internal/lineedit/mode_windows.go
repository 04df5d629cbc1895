package lineedit

import (
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/windows"
)

// A mode is how the console treats what is typed.
type mode struct {
	console windows.Handle
	found   uint32
	alarm   windows.Handle
	half    uint16 // the first half of a character
}

func openMode(in *os.File) (*mode, error) {
	m := &mode{console: windows.Handle(in.Fd())}
	if windows.GetConsoleMode(m.console, &m.found) != nil {
		return nil, ErrNoTerminal
	}
	var err error
	m.alarm, err = windows.CreateEvent(nil, 0, 0, nil)
	return m, err
}

// set changes the console. ctrl-c is a signal between two texts.
func (m *mode) set(s state) error {
	to := m.found
	if s != asFound {
		to &^= windows.ENABLE_LINE_INPUT | windows.ENABLE_ECHO_INPUT
		to |= windows.ENABLE_VIRTUAL_TERMINAL_INPUT
	}
	if s == reading {
		to &^= windows.ENABLE_PROCESSED_INPUT
	}
	return windows.SetConsoleMode(m.console, to)
}

// read reads what was typed, or nothing after a wake. The console gives halves of characters beyond 16 bits.
func (m *mode) read(buf []byte) (int, error) {
	which, err := windows.WaitForMultipleObjects([]windows.Handle{m.alarm, m.console}, false, windows.INFINITE)
	if err != nil || which == windows.WAIT_OBJECT_0 {
		return 0, err
	}
	wide := make([]uint16, len(buf)/utf8.UTFMax)
	var n uint32
	if err := windows.ReadConsole(m.console, &wide[0], uint32(len(wide)), &n, nil); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	all := wide[:n]
	if m.half != 0 {
		all = append([]uint16{m.half}, all...)
		m.half = 0
	}
	if last := all[len(all)-1]; last >= 0xd800 && last < 0xdc00 {
		m.half, all = last, all[:len(all)-1]
	}
	return copy(buf, string(utf16.Decode(all))), nil
}

// wake ends a read, or the next one.
func (m *mode) wake() { windows.SetEvent(m.alarm) }

// stopProcess does nothing: here no key stops a process.
func stopProcess() {}
