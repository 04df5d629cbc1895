package charts

import (
	"fmt"
	"html"
	"strings"
)

// Standalone makes a file of a chart: with its own style, which follows the reader's light or dark setting, a card
// behind it, a heading and lines of notes. It is meant for the width of a README: 640 pixels, and readable at 400.
func Standalone(svg, heading string, notes ...string) (string, error) {
	const margin, shown = 14.0, 640.0
	var w, h float64
	box := ""
	if _, rest, ok := strings.Cut(svg, `viewBox="`); ok {
		box, _, _ = strings.Cut(rest, `"`)
	}
	if _, err := fmt.Sscanf(box, "0 0 %g %g", &w, &h); err != nil {
		return "", fmt.Errorf("a chart with the box %q: %w", box, err)
	}
	var c canvas
	full := w + 2*margin
	y := margin + 10
	for _, line := range broken(heading, full-2*margin, 7.6) {
		c.text("heading", "start", margin, y, line)
		y += 18
	}
	y += 2
	inner := strings.Replace(svg, "<svg ", fmt.Sprintf(
		"<svg x=%q y=%q width=%q height=%q ", num(margin), num(y), num(w), num(h)), 1)
	c.b.WriteString(inner)
	y += h + 14
	for _, note := range notes {
		for _, line := range broken(note, full-2*margin, 5.5) {
			c.text("small", "start", margin, y, line)
			y += 13.5
		}
	}
	height := y + margin - 12
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %s %s\" "+
		"role=\"img\" aria-label=\"%s\">\n<style>\n%s</style>\n"+
		"<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"%s\" height=\"%s\" rx=\"10\"/>\n%s</svg>\n",
		num(shown), num(shown*height/full), num(full), num(height), html.EscapeString(heading), standaloneStyle, num(full-1),
		num(height-1), c.b.String()), nil
}

// standaloneStyle is the style of a figure that no page surrounds.
var standaloneStyle = explicit(figureSource + "svg { font: 12px system-ui, -apple-system, \"Segoe UI\", Roboto, " +
	"\"Noto Sans\", sans-serif; }\n.card { fill: var(--card); stroke: var(--line); }\n")

// broken breaks a text into lines of at most the given width; letter is the mean width of a letter.
func broken(text string, most, letter float64) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && letter*float64(len([]rune(line))+1+len([]rune(word))) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
