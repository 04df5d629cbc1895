package terminal

import (
	"strings"

	"github.com/specgo/spec/internal/cellwidth"
)

// Wrap breaks a text at spaces so that no line takes more than width cells, where its words allow.
// Paragraphs are separated by empty lines; line ends inside one are spaces. A line that begins with a
// space stays a line of its own; what does not fit is continued under its second column, where two
// spaces or more separate the columns.
func Wrap(text string, width int) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		line := ""
		for _, l := range strings.Split(paragraph, "\n") {
			if strings.HasPrefix(l, " ") {
				if line != "" {
					b.WriteString(Columns("", line, 0, width))
					line = ""
				}
				left, right := splitColumns(l)
				b.WriteString(Columns(left, right, cellwidth.Of(left), width))
				continue
			}
			line += l + " "
		}
		if line != "" {
			b.WriteString(Columns("", line, 0, width))
		}
	}
	return b.String()
}

// splitColumns cuts "  name   text" behind the spaces between the two.
func splitColumns(l string) (left, right string) {
	indent := len(l) - len(strings.TrimLeft(l, " "))
	at := strings.Index(l[indent:], "  ")
	if at < 0 {
		return l[:indent], l[indent:]
	}
	rest := l[indent+at:]
	gap := len(rest) - len(strings.TrimLeft(rest, " "))
	return l[:indent+at+gap], l[indent+at+gap:]
}

// Columns writes left and, from the given column on, text wrapped to width. A left that reaches into the
// column gets a line of its own. Where fewer than 8 cells are left behind the column, any left gets one, and the text
// is indented by 4.
func Columns(left, text string, column, width int) string {
	const least, indent = 8, 4
	narrow := width-column < least
	if narrow {
		column = min(column, indent)
	}
	var b strings.Builder
	line := left
	if n := cellwidth.Of(left); n > column || narrow && n > 0 {
		b.WriteString(strings.TrimRight(left, " ") + "\n")
		line = strings.Repeat(" ", column)
	} else {
		line += strings.Repeat(" ", column-n)
	}
	used := column
	empty := true // no word on this line yet
	for _, word := range strings.Fields(text) {
		n := cellwidth.Of(word)
		switch {
		case empty:
		case used+1+n > width:
			b.WriteString(line + "\n")
			line, used = strings.Repeat(" ", column), column
		default:
			line += " "
			used++
		}
		line += word
		used += n
		empty = false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
