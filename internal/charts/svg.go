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
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" role=\"img\" "+
		"aria-label=\"%s\">\n%s</svg>\n",
		num(width), num(height), html.EscapeString(label), c.b.String())
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, "<line class=\"%s\" x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"/>\n", class, num(x1), num(y1), num(x2),
		num(y2))
}

func (c *canvas) rect(class string, x, y, w, h, r float64, tip string) {
	fmt.Fprintf(&c.b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"%s\">%s</rect>\n",
		class, num(x), num(y), num(max(0, w)), num(h), num(r), title(tip))
}

func (c *canvas) dot(class string, x, y, r float64, tip string) {
	fmt.Fprintf(&c.b, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"%s\">%s</circle>\n", class, num(x), num(y), num(r),
		title(tip))
}

// marker draws the shape of a color: shape and color say the same, so that a chart can be read without colors.
func (c *canvas) marker(color int, x, y, r float64, tip string) {
	class := fill(color)
	turned := func(corners int, first float64) {
		var list []point
		for i := range corners {
			a := first + 2*math.Pi*float64(i)/float64(corners)
			list = append(list, point{x + 1.2*float64(r*math.Cos(a)), y + 1.2*float64(r*math.Sin(a))})
		}
		c.shape(class, list, tip)
	}
	switch color % Colors {
	case 0:
		c.rect(class, x-1.3*r, y-0.5*r, 2.6*r, r, 0, tip)
	case 1:
		c.rect(class, x-r*0.9, y-r*0.9, 1.8*r, 1.8*r, 0, tip)
	case 2:
		turned(3, -math.Pi/2)
	case 3:
		turned(4, 0)
	case 5:
		turned(3, math.Pi/2)
	case 6:
		turned(6, 0)
	case 7: // a cross
		a, b := 1.2*r, 0.4*r
		c.shape(class, []point{{x - a, y - b}, {x - b, y - b}, {x - b, y - a}, {x + b, y - a}, {x + b, y - b}, {x + a, y - b},
			{x + a, y + b}, {x + b, y + b}, {x + b, y + a}, {x - b, y + a}, {x - b, y + b}, {x - a, y + b}}, tip)
	default:
		c.dot(class, x, y, r, tip)
	}
}

// shape fills a polygon.
func (c *canvas) shape(class string, corners []point, tip string) {
	fmt.Fprintf(&c.b, "<path class=\"%s\" d=\"%s\">%s</path>\n", class, outline(corners, true), title(tip))
}

// text writes s; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&c.b, "<text class=\"%s\" text-anchor=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", class, anchor, num(x),
		num(y), html.EscapeString(s))
}

func (c *canvas) path(class string, points []point, closed bool) {
	fmt.Fprintf(&c.b, "<path class=\"%s\" d=\"%s\"/>\n", class, outline(points, closed))
}

func outline(points []point, closed bool) string {
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
	return d.String()
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
// Of whole values the steps are whole. What is no finite number, or more than an axis can tell apart, is as if it were
// not there.
func ticks(low, high float64, n int, whole bool) (list []float64) {
	const most, part, smallest = 1e300, 1e-9, 1e-300 // i below must count, whatever the values
	if math.IsNaN(low) || math.IsInf(low, 0) {
		low = 0
	}
	low = min(max(low, -most), most)
	if least := max(part*math.Abs(low), smallest); !(high > low) || high-low < least || math.IsInf(high, 0) {
		high = low + max(1, least)
	}
	high = min(high, 2*most)
	raw := (high - low) / float64(n)
	if whole {
		raw = max(1, raw)
	}
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step*m >= raw && (!whole || step*m == math.Trunc(step*m)) {
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

// isWhole reports whether all values are integers.
func isWhole(values ...float64) bool {
	for _, v := range values {
		if v != math.Trunc(v) {
			return false
		}
	}
	return true
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
		if !e.spot {
			c.line(class, x+1, y-4, x+14, y-4)
		}
		if !e.dashed {
			c.marker(e.color, x+7.5, y-4, 4, "")
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
