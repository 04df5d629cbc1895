package charts

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// width of every chart, in its own units: about the pixels of a phone, so that text of size 12 can
// be read there.
const width = 420.0

// Colors is the number of colors; color c is class fC or sC of the style, modulo this.
const Colors = 8

// canvas collects the elements of one SVG.
type canvas struct{ b strings.Builder }

// done closes the picture; label says what it shows to those who cannot see it.
func (c *canvas) done(height float64, label string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"%s\">\n%s</svg>\n",
		num(width), num(height), html.EscapeString(label), c.b.String())
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class, num(x1), num(y1), num(x2), num(y2))
}

func (c *canvas) rect(class string, x, y, w, h, r float64, tip string) {
	fmt.Fprintf(&c.b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"%s\">%s</rect>\n",
		class, num(x), num(y), num(max(0, w)), num(h), num(r), title(tip))
}

func (c *canvas) dot(class string, x, y, r float64, tip string) {
	fmt.Fprintf(&c.b, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\">%s</circle>\n", class, num(x), num(y), num(r), title(tip))
}

// text writes s; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&c.b, "<text class=\"%s\" text-anchor=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", class, anchor, num(x), num(y), html.EscapeString(s))
}

func (c *canvas) path(class string, points []point, closed bool) {
	var d strings.Builder
	for i, p := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		d.WriteString(letter + num(p.x) + " " + num(p.y))
	}
	if closed {
		d.WriteString("Z")
	}
	fmt.Fprintf(&c.b, "<path class=\"%s\" d=\"%s\"/>\n", class, d.String())
}

type point struct{ x, y float64 }

func title(tip string) string {
	if tip == "" {
		return ""
	}
	return "<title>" + html.EscapeString(tip) + "</title>"
}

// num writes a coordinate: at most two decimals, and nothing that XML readers stumble over.
func num(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
}

func fill(color int) string   { return fmt.Sprint("f", color%Colors) }
func stroke(color int) string { return fmt.Sprint("s", color%Colors) }

// scale maps values to coordinates.
type scale struct{ from, to, start, end float64 }

func (s scale) at(x float64) float64 {
	if s.to == s.from {
		return s.start
	}
	return s.start + (x-s.from)/(s.to-s.from)*(s.end-s.start)
}

// ticks are about n round numbers that cover 0 or low up to high; the last is at least high.
func ticks(low, high float64, n int) (list []float64) {
	if !(high > low) {
		high = low + 1
	}
	raw := (high - low) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step*m >= raw {
			step *= m
			break
		}
	}
	for i := math.Floor(low / step); ; i++ {
		list = append(list, i*step)
		if i*step >= high {
			return list
		}
	}
}

// label writes a value as an axis shows it.
func label(x float64) string { return strconv.FormatFloat(math.Round(x*1e4)/1e4, 'f', -1, 64) }

// legend writes names with their colors from the top left and returns the height it took.
func (c *canvas) legend(entries []entry) float64 {
	x, y := 0.0, 10.0
	for _, e := range entries {
		w := 24 + textWidth(e.name)
		if x > 0 && x+w > width {
			x, y = 0, y+18
		}
		class := "stroke " + stroke(e.color)
		if e.dashed {
			class += " dash"
		}
		if e.spot {
			c.dot(fill(e.color), x+7, y-4, 4.5, "")
		} else {
			c.line(class, x+1, y-4, x+14, y-4)
		}
		c.text("", "start", x+19, y, e.name)
		x += w + 10
	}
	if len(entries) == 0 {
		return 0
	}
	return y + 8
}

type entry struct {
	name         string
	color        int
	dashed, spot bool
}

// textWidth estimates the width of a text of size 12.
func textWidth(s string) float64 { return 6.5 * float64(len([]rune(s))) }
