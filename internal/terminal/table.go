package terminal

import (
	"strings"

	"github.com/specgo/spec/internal/cellwidth"
)

// Column is a column of a [Table].
type Column struct {
	Head string
	Left bool // aligned to the left; numbers go to the right
	Drop int  // columns of the greatest Drop are left out first where the table is too wide; 0 stays
}

// Table is rows of text in columns.
type Table struct {
	Columns []Column
	Rows    [][]string // each as long as Columns
}

// String formats the table with two spaces between its columns, its head first. Columns that do not fit
// into width are left out, those of the greatest Drop first; dropped names their heads.
func (t *Table) String(width int) (text string, dropped []string) {
	sizes := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		sizes[i] = cellwidth.Of(c.Head)
		for _, row := range t.Rows {
			sizes[i] = max(sizes[i], cellwidth.Of(row[i]))
		}
	}
	shown := make([]bool, len(t.Columns))
	total := -columnGap
	for i := range shown {
		shown[i] = true
		total += sizes[i] + columnGap
	}
	for total > width {
		last := -1
		for i, c := range t.Columns {
			if shown[i] && c.Drop > 0 && (last < 0 || c.Drop > t.Columns[last].Drop) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		shown[last] = false
		total -= sizes[last] + columnGap
	}
	var b strings.Builder
	line := func(cell func(i int) string) {
		var l strings.Builder
		for i, c := range t.Columns {
			if !shown[i] {
				continue
			}
			text := cell(i)
			space := strings.Repeat(" ", sizes[i]-cellwidth.Of(text))
			if c.Left {
				text += space
			} else {
				text = space + text
			}
			if l.Len() > 0 {
				l.WriteString(strings.Repeat(" ", columnGap))
			}
			l.WriteString(text)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	line(func(i int) string { return t.Columns[i].Head })
	for _, row := range t.Rows {
		line(func(i int) string { return row[i] })
	}
	for i, c := range t.Columns {
		if !shown[i] {
			dropped = append(dropped, c.Head)
		}
	}
	return b.String(), dropped
}

const columnGap = 2 // spaces between columns

// EscapeCell is a text as a cell of a Markdown table shows it.
func EscapeCell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// Markdown formats the table with all its columns.
func (t *Table) Markdown() string {
	var heads, rules []string
	for _, c := range t.Columns {
		heads = append(heads, c.Head)
		rules = append(rules, map[bool]string{true: "---", false: "---:"}[c.Left])
	}
	var b strings.Builder
	b.WriteString("| " + strings.Join(heads, " | ") + " |\n| " + strings.Join(rules, " | ") + " |\n")
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, cell := range row {
			b.WriteString(" " + EscapeCell(cell) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
