package lineedit

import (
	"sort"

	"github.com/specgo/spec/internal/cellwidth"
)

// Rows begin with two cells: the prompt in the first one, a mark at each further line of the text, else spaces. The
// last column stays free, so that no terminal wraps a row by itself and the cursor has its place behind a full row.
const (
	markLine = ". "
	markRow  = "  "
)

// A row is a part of the text that the terminal shows in one row.
type row struct {
	from, to int  // bytes of the text; a line's end is in no row
	line     bool // begins a line
}

// A layout cuts the text into rows, as far as asked, and keeps what an edit does not change.
type layout struct {
	width  int // of the terminal
	indent int // cells before the text
	rows   []row
	whole  bool // rows reach the end of the text
}

// changed says that the text is another one from a byte on.
func (l *layout) changed(at int) {
	keep := max(0, l.find(at)-1) // what follows may have room in the row before, or belong to its last character
	l.rows, l.whole = l.rows[:min(keep, len(l.rows))], false
}

// resize forgets rows of another width.
func (l *layout) resize(width, indent int) {
	if width != l.width || indent != l.indent {
		*l = layout{width: width, indent: indent}
	}
}

// find returns the last known row that begins at or before a byte, 0 if there is none.
func (l *layout) find(at int) int {
	return max(0, sort.Search(len(l.rows), func(i int) bool { return l.rows[i].from > at })-1)
}

// through makes the rows up to the one that holds a byte, and so many behind it.
func (l *layout) through(text []byte, at, more int) int {
	for !l.whole && (len(l.rows) == 0 || l.rows[len(l.rows)-1].to < at) {
		l.grow(text)
	}
	i := l.find(at)
	for !l.whole && len(l.rows) <= i+more {
		l.grow(text)
	}
	return l.find(at)
}

// grow makes one more row.
func (l *layout) grow(text []byte) {
	next := row{line: true}
	if n := len(l.rows); n > 0 {
		last := l.rows[n-1]
		next = row{from: last.to}
		if last.to < len(text) && text[last.to] == '\n' {
			next = row{from: last.to + 1, line: true}
		}
	}
	next.to = l.end(text, next.from)
	l.rows = append(l.rows, next)
	l.whole = next.to == len(text)
}

// end returns where a row ends.
func (l *layout) end(text []byte, from int) int {
	column, at := l.indent, from
	for at < len(text) && text[at] != '\n' {
		n := cellwidth.Cluster(text[at:])
		_, cells := shown(text[at:at+n], column)
		if column+cells > l.width-1 && at > from {
			break
		}
		column += cells
		at += n
	}
	return at
}

// column returns the cells before a byte of a row.
func (l *layout) column(text []byte, r row, at int) int {
	column := l.indent
	for i := r.from; i < at; {
		n := cellwidth.Cluster(text[i:])
		_, cells := shown(text[i:i+n], column)
		column += cells
		i += n
	}
	return column
}

// at returns the byte of a row that is nearest to a column from the left.
func (l *layout) at(text []byte, r row, want int) int {
	column, i := l.indent, r.from
	for i < r.to {
		n := cellwidth.Cluster(text[i:])
		_, cells := shown(text[i:i+n], column)
		if column += cells; column > want {
			break
		}
		i += n
	}
	return i
}
