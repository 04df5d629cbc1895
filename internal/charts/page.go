// Package charts draws a page of figures as one HTML file that needs no other: no scripts, no
// fonts, no pictures from elsewhere. Figures are SVG with the page's colors, so that they follow
// the reader's light or dark setting, and are narrow enough for a phone.
package charts

import (
	_ "embed" // for the style
	"fmt"
	"html"
	"io"
	"strings"
)

// Page is what a reader sees, from the top. All texts are plain.
type Page struct {
	Title    string
	Lead     string // one paragraph
	Tiles    []Tile
	Sections []Section
	Table    Table
	Command  string   // how to make the page again
	Notes    []string // small print, a paragraph each
}

// A Tile is one large figure with its meaning.
type Tile struct{ Figure, Label string }

// A Section is a heading, a sentence and figures.
type Section struct {
	Title, Text string
	Figures     []Figure
}

// A Figure is a chart with its caption.
type Figure struct{ Caption, SVG string }

// A Table has columns aligned to the right but for the first Left ones.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Left  int
}

//go:embed style.css
var pageStyle string

//go:embed figure.css
var figureSource string

// figureStyle is of pages and of figures that stand alone.
var figureStyle = explicit(figureSource)

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	var b strings.Builder
	text := html.EscapeString
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"+
		"<meta name=\"viewport\" content=\"width=device-width, "+
		"initial-scale=1\"/>\n<title>%s</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<main>\n", text(p.Title),
		figureStyle, pageStyle)
	fmt.Fprintf(&b, "<header>\n<h1>%s</h1>\n<p>%s</p>\n</header>\n", text(p.Title), text(p.Lead))
	if len(p.Tiles) > 0 {
		b.WriteString("<div class=\"tiles\">\n")
		for _, t := range p.Tiles {
			fmt.Fprintf(&b, "<div class=\"tile\"><b>%s</b><span>%s</span></div>\n", text(t.Figure), text(t.Label))
		}
		b.WriteString("</div>\n")
	}
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "<section>\n<h2>%s</h2>\n<p>%s</p>\n<div class=\"figures\">\n", text(s.Title), text(s.Text))
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "<figure>\n<figcaption>%s</figcaption>\n%s</figure>\n", text(f.Caption), f.SVG)
		}
		b.WriteString("</div>\n</section>\n")
	}
	p.Table.write(&b)
	if p.Command != "" || len(p.Notes) > 0 {
		b.WriteString("<footer>\n")
		if p.Command != "" {
			fmt.Fprintf(&b, "<pre>%s</pre>\n", text(p.Command))
		}
		for _, n := range p.Notes {
			fmt.Fprintf(&b, "<p>%s</p>\n", text(n))
		}
		b.WriteString("</footer>\n")
	}
	b.WriteString("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) write(b *strings.Builder) {
	if len(t.Rows) == 0 {
		return
	}
	line := func(tag string, cells []string) {
		b.WriteString("<tr>")
		for i, c := range cells {
			class := ""
			if i < t.Left {
				class = " class=\"l\""
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", tag, class, html.EscapeString(c), tag)
		}
		b.WriteString("</tr>\n")
	}
	fmt.Fprintf(b, "<section>\n<h2>%s</h2>\n<div class=\"wide\">\n<table>\n<thead>\n", html.EscapeString(t.Title))
	line("th", t.Head)
	b.WriteString("</thead>\n<tbody>\n")
	for _, row := range t.Rows {
		line("td", row)
	}
	b.WriteString("</tbody>\n</table>\n</div>\n</section>\n")
}
