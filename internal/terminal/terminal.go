// Package terminal holds what the command needs to write for people: the width of a terminal, text
// wrapped to it, tables that drop columns, a progress bar, and strings from outside made safe to show.
package terminal

import "os"

// DefaultWidth is the width in characters of text that is not written to a terminal.
const DefaultWidth = 80

// Is reports whether w is a terminal.
func Is(w any) bool {
	file, ok := w.(*os.File)
	return ok && isTerminal(file)
}

// Styles reports whether w is a terminal that understands control sequences, as colors are. A console of Windows
// understands them from then on.
func Styles(w any) bool {
	file, ok := w.(*os.File)
	return ok && understands(file)
}

// Width returns the width in characters of the terminal that w is, DefaultWidth if it is none.
func Width(w any) int {
	if file, ok := w.(*os.File); ok {
		if width, _ := Size(file); width > 0 {
			return width
		}
	}
	return DefaultWidth
}

// SameFile reports whether two writers are the same open file: a shared pipe, log file or terminal,
// where what one writes appears right behind what the other wrote.
func SameFile(a, b any) bool {
	f, ok1 := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok1 || !ok2 {
		return false
	}
	x, err1 := f.Stat()
	y, err2 := g.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
