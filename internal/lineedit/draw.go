package lineedit

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/specgo/spec/internal/cellwidth"
)

// A frame is what the terminal shows: rows, and where the cursor is in them.
type frame struct {
	rows        []shownRow
	row, column int
}

type shownRow struct {
	text  string
	cells int
}

const mostChoices = 5 // rows of listed completions

// frame lays out the text for a terminal of a size. A text of more rows than fit is shown around the cursor, below a
// row that says how much there is. The work is bounded by the screen and by what the last edit changed.
func (e *editor) frame(prompt string, width, height int) frame {
	width, height = max(width, 8), max(height, 2)
	if e.searching != nil {
		prompt = "? "
	}
	e.layout.resize(width, cellwidth.Of(prompt))
	below := e.below(width)
	below = below[:min(len(below), height/2)]
	most := max(1, height-1-len(below))
	l := &e.layout
	at := l.through(e.text, e.at, most)
	var f frame
	if l.whole && len(l.rows) <= most {
		e.top = 0
	} else {
		shown := max(1, most-1)
		e.top = max(0, min(e.top, at), at-shown+1)
		if l.whole {
			e.top = max(0, min(e.top, len(l.rows)-shown))
		}
		if most > 1 {
			f.rows = append(f.rows, e.faint(fmt.Sprintf("[%d bytes, %d lines; rows %d to %d]", len(e.text),
				1+bytes.Count(e.text, []byte{'\n'}), e.top+1, min(e.top+shown, len(l.rows))), width))
		}
		most = shown
	}
	for i := e.top; i < min(e.top+most, len(l.rows)); i++ {
		if i == at {
			f.row, f.column = len(f.rows), l.column(e.text, l.rows[i], e.at)
		}
		f.rows = append(f.rows, e.row(i, prompt))
	}
	f.rows = append(f.rows, below...)
	return f
}

// row draws a row of the text.
func (e *editor) row(i int, prompt string) shownRow {
	l := &e.layout
	r := l.rows[i]
	var b strings.Builder
	switch {
	case i == 0:
		b.WriteString(prompt)
	case r.line && l.indent >= len(markLine):
		b.WriteString(strings.Repeat(" ", l.indent-len(markLine)) + e.Faint + markLine + e.Off)
	default:
		b.WriteString(strings.Repeat(" ", l.indent))
	}
	column := l.indent
	for at := r.from; at < r.to; {
		n := cellwidth.Cluster(e.text[at:])
		text, cells := shown(e.text[at:at+n], column)
		b.WriteString(text)
		column += cells
		at += n
	}
	return shownRow{b.String(), column}
}

// below are the rows below the text: what is searched, a note, completions.
func (e *editor) below(width int) (rows []shownRow) {
	if s := e.searching; s != nil {
		rows = append(rows, e.faint("search: "+string(s.text)+"_", width))
	}
	if e.note != "" {
		rows = append(rows, e.faint(e.note, width))
	}
	line := ""
	for i, c := range e.choices {
		if line != "" && cellwidth.Of(line)+cellwidth.Of(c)+3 > width {
			rows = append(rows, e.faint(line, width))
			line = ""
		}
		if len(rows) == mostChoices {
			rows[mostChoices-1] = e.faint(fmt.Sprintf("... and %d more", len(e.choices)-i), width)
			return rows
		}
		if line != "" {
			line += "  "
		}
		line += c
	}
	if line != "" {
		rows = append(rows, e.faint(line, width))
	}
	return rows
}

// faint is a row that is not of the text, cut to the width.
func (e *editor) faint(text string, width int) shownRow {
	var b strings.Builder
	cells := 0
	for t := []byte(text); len(t) > 0; {
		n := cellwidth.Cluster(t)
		c, w := shown(t[:n], cells)
		if cells+w > width-1 {
			break
		}
		b.WriteString(c)
		cells += w
		t = t[n:]
	}
	return shownRow{e.Faint + b.String() + e.Off, cells}
}

// A painter knows what is on the terminal and writes what changes it.
type painter struct {
	shown frame
	drawn bool // there is something
	width int
}

// paint returns what makes the terminal show a frame.
func (p *painter) paint(f frame) []byte {
	var b bytes.Buffer
	if !p.drawn {
		b.WriteString("\r\x1b[J")
		p.shown, p.drawn = frame{rows: []shownRow{{}}}, true
	}
	at := p.shown.row
	have := len(p.shown.rows)
	for i, r := range f.rows {
		if i < have && p.shown.rows[i] == r {
			continue
		}
		at = p.move(&b, at, i, &have)
		b.WriteString("\r" + r.text + "\x1b[K")
	}
	if have > len(f.rows) {
		at = p.move(&b, at, len(f.rows), &have)
		b.WriteString("\r\x1b[J")
	}
	p.move(&b, at, f.row, &have)
	b.WriteString("\r")
	if f.column > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", f.column)
	}
	p.shown = f
	return b.Bytes()
}

// move moves the cursor to another row; rows that are not there are made by line ends.
func (p *painter) move(b *bytes.Buffer, from, to int, have *int) int {
	if to < from {
		fmt.Fprintf(b, "\x1b[%dA", from-to)
	}
	if down := min(to, *have-1) - from; down > 0 {
		fmt.Fprintf(b, "\x1b[%dB", down)
	}
	for ; *have <= to; *have++ {
		b.WriteString("\r\n")
	}
	return to
}

// resize returns what clears the frame from a terminal whose width has changed. Terminals wrap rows that have become
// too long, so that the frame has more rows than it was drawn with.
func (p *painter) resize(width int) []byte {
	if !p.drawn || width == p.width {
		p.width = width
		return nil
	}
	p.width, p.drawn = width, false
	up := p.shown.column / max(1, width)
	for _, r := range p.shown.rows[:p.shown.row] {
		up += max(0, r.cells-1) / max(1, width)
		up++
	}
	if up == 0 {
		return []byte("\r")
	}
	return fmt.Appendf(nil, "\r\x1b[%dA", up)
}

// leave returns what moves the cursor behind the frame.
func (p *painter) leave() []byte {
	if !p.drawn {
		return nil
	}
	p.drawn = false
	if down := len(p.shown.rows) - 1 - p.shown.row; down > 0 {
		return fmt.Appendf(nil, "\x1b[%dB\r\n", down)
	}
	return []byte("\r\n")
}
