// Package markdown shows Markdown on a terminal while it is written: bold, headings, lists, code with colors, tables.
package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

// Colors and other attributes of a terminal.
const (
	off     = "\x1b[0m"
	bold    = "\x1b[1m"
	faint   = "\x1b[2m"
	italic  = "\x1b[3m"
	code    = "\x1b[36m"
	keyword = "\x1b[35m"
	quoted  = "\x1b[32m"
	comment = faint
	number  = "\x1b[33m"
)

// longestTable is the most bytes of a table that wait for its last row, by which its columns are as wide as they are.
const longestTable = 64 << 10

// A Writer makes styled text of Markdown that comes in pieces. What is held back is as little as decides how it looks:
// a mark, a word of code, the rows of a table. The zero value is ready.
type Writer struct {
	held    string // of the line under way
	inLine  bool   // some of the line was written
	bold    bool
	italic  bool
	span    bool // of code
	heading bool
	fence   string // the mark that ends the code block; "" outside
	lexer   lexer
	table   []string
	size    int  // bytes of the table
	last    rune // what was written last of the line; 0: nothing
}

// Write returns what a piece shows.
func (w *Writer) Write(piece string) string {
	var b strings.Builder
	for {
		line, rest, ended := strings.Cut(piece, "\n")
		w.held += line
		if !ended {
			break
		}
		w.line(&b)
		piece = rest
	}
	w.part(&b)
	return b.String()
}

// End returns what was held back. The text has ended.
func (w *Writer) End() string {
	var b strings.Builder
	if w.held != "" && w.inTable() {
		w.table = append(w.table, w.held)
		w.held = ""
	}
	w.flush(&b)
	if w.held != "" {
		w.begin(&b)
		w.inline(&b, w.held, true)
	}
	w.style(&b, false)
	*w = Writer{}
	return b.String()
}

// line writes a line that is complete.
func (w *Writer) line(b *strings.Builder) {
	text := w.held
	w.held = ""
	if !w.inLine {
		if w.fence == "" && strings.HasPrefix(strings.TrimSpace(text), "|") && w.size < longestTable {
			w.table = append(w.table, text)
			w.size += len(text)
			return
		}
		w.flush(b) // before a block of code begins, whose rules are others
		if w.toggle(text) {
			b.WriteString(faint + text + off + "\n")
			return
		}
		w.held = text
		w.begin(b)
		text, w.held = w.held, ""
	}
	w.inline(b, text, true)
	w.style(b, false)
	w.bold, w.italic, w.span, w.heading, w.inLine, w.last = false, false, false, false, false, 0
	b.WriteByte('\n')
}

// toggle reports whether a line begins or ends a block of code. What ends one is at least as long as what began it, so
// that a block can hold others; a line with backquotes behind its first ones is text.
func (w *Writer) toggle(line string) bool {
	text := strings.TrimSpace(line)
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(text, c)
		mark := text[:len(text)-len(rest)]
		switch {
		case len(mark) < 3:
		case w.fence == "" && (c == "~" || !strings.Contains(rest, c)):
			w.fence, w.lexer = mark, lexer{language: languageOf(strings.TrimSpace(rest))}
			return true
		case w.fence != "" && rest == "" && strings.HasPrefix(mark, w.fence):
			w.fence = ""
			return true
		}
	}
	return false
}

func (w *Writer) inTable() bool {
	return w.fence == "" && !w.inLine && strings.HasPrefix(strings.TrimSpace(w.held), "|")
}

// part writes as much of an incomplete line as is decided.
func (w *Writer) part(b *strings.Builder) {
	if !w.inLine {
		begin := strings.TrimLeftFunc(w.held, unicode.IsSpace) // as lines are looked at
		if begin == "" || strings.Trim(begin, "`~#-*|+0123456789.") == "" || strings.HasPrefix(begin, "|") ||
			strings.HasPrefix(begin, "```") || strings.HasPrefix(begin, "~~~") {
			return // it may be a mark, or belong to a table
		}
		w.flush(b)
		w.begin(b)
	}
	w.held = w.inline(b, w.held, false)
}

// begin takes the mark off the beginning of a line.
func (w *Writer) begin(b *strings.Builder) {
	w.inLine = true
	if w.fence != "" {
		w.lexer.line()
		return
	}
	indent := len(w.held) - len(strings.TrimLeft(w.held, " "))
	text := w.held[indent:]
	level := len(text) - len(strings.TrimLeft(text, "#"))
	if level > 0 && level <= 6 && strings.HasPrefix(text[level:], " ") {
		w.heading = true
		w.held = text[level+1:]
		w.style(b, true)
		return
	}
	for _, mark := range []string{"- ", "* ", "+ "} {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			b.WriteString(w.held[:indent] + "• ")
			w.held = rest
		}
	}
}

// style writes the attributes of what follows.
func (w *Writer) style(b *strings.Builder, set bool) {
	b.WriteString(off)
	if !set {
		return
	}
	for _, s := range []struct {
		on   bool
		text string
	}{{w.heading || w.bold, bold}, {w.italic, italic}, {w.span, code}} {
		if s.on {
			b.WriteString(s.text)
		}
	}
}

// inline writes text of a line and returns what is not decided yet; whole says that nothing follows in the line.
func (w *Writer) inline(b *strings.Builder, text string, whole bool) string {
	if w.fence != "" {
		return w.lexer.write(b, text, whole)
	}
	for text != "" {
		at := strings.IndexAny(text, "*`")
		if at < 0 {
			w.text(b, text)
			return ""
		}
		w.text(b, text[:at])
		text = text[at:]
		n := len(text) - len(strings.TrimLeft(text, text[:1]))
		if n == len(text) && !whole {
			return text
		}
		w.mark(b, text[:n], text[n:])
		text = text[n:]
	}
	return ""
}

// text writes what has the style of the moment.
func (w *Writer) text(b *strings.Builder, text string) {
	if text != "" {
		b.WriteString(text)
		w.last, _ = utf8.DecodeLastRuneInString(text)
	}
}

// mark writes asterisks or backquotes, or changes the style where they mean that.
func (w *Writer) mark(b *strings.Builder, mark, after string) {
	opens := after != "" && after[0] != ' '
	closes := w.last != ' '
	switch {
	case mark == "`":
		w.span = !w.span
	case w.span || mark[0] == '`':
		w.text(b, mark)
		return
	case mark == "**" && (w.bold && closes || !w.bold && opens):
		w.bold = !w.bold
	case mark == "*" && (w.italic && closes || !w.italic && opens):
		w.italic = !w.italic
	case mark == "***" && (w.bold || opens):
		w.bold = !w.bold
		w.italic = w.bold
	default:
		w.text(b, mark)
		return
	}
	w.style(b, true)
}

// flush writes the table that has ended.
func (w *Writer) flush(b *strings.Builder) {
	var rows [][]string
	var sizes []int
	for _, line := range w.table {
		cells := cellsOf(line)
		for i, c := range cells {
			if i == len(sizes) {
				sizes = append(sizes, 0)
			}
			if !rule(cells) {
				sizes[i] = max(sizes[i], cellwidth.Of(plain(c)))
			}
		}
		rows = append(rows, cells)
	}
	for i, cells := range rows {
		if rule(cells) {
			for j, n := range sizes {
				b.WriteString(faint + strings.Repeat("─", n) + off + gap(j, sizes))
			}
			b.WriteByte('\n')
			continue
		}
		for j, c := range cells {
			w.heading = i == 0
			w.style(b, true)
			w.inline(b, c, true)
			w.bold, w.italic, w.span, w.heading, w.last = false, false, false, false, 0
			w.style(b, false)
			if j < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", sizes[j]-cellwidth.Of(plain(c))) + gap(j, sizes))
			}
		}
		b.WriteByte('\n')
	}
	w.table, w.size = nil, 0
}

// cellsOf are the texts between the bars of a row. A bar behind a backslash is one of a text.
func cellsOf(row string) (cells []string) {
	row = strings.TrimPrefix(strings.TrimSpace(row), "|")
	start := 0
	for i := range len(row) + 1 {
		last := i == len(row)
		if last && start == i && i > 0 || !last && (row[i] != '|' || i > 0 && row[i-1] == '\\') {
			continue
		}
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(row[start:i]), `\|`, "|"))
		start = i + 1
	}
	return cells
}

func gap(i int, sizes []int) string {
	if i < len(sizes)-1 {
		return "  "
	}
	return ""
}

// plain is a text without its marks.
func plain(text string) string {
	var w Writer
	var b strings.Builder
	w.inline(&b, text, true)
	out := b.String()
	for _, s := range []string{off, bold, italic, code} {
		out = strings.ReplaceAll(out, s, "")
	}
	return out
}

// rule reports whether a row of a table is the line below its head.
func rule(cells []string) bool {
	for _, c := range cells {
		if c == "" || strings.Trim(c, "-: ") != "" {
			return false
		}
	}
	return true
}
