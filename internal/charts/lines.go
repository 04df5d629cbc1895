package charts

import (
	"fmt"
	"math"
	"slices"
)

// Lines are curves over a common axis, some with bands for their spread, or spots without a curve.
type Lines struct {
	Label  string
	X, Y   string // what the axes show
	XUnit  string
	YUnit  string
	Base   float64 // a dashed level; 0: none
	Wide   bool    // X marks at the points of the first curve, evenly spaced: for values that lie unevenly
	Curves []Curve
}

// Curve is one line.
type Curve struct {
	Name   string
	Color  int
	Dashed bool
	Spots  bool // no line: spots with their name beside them
	Points []Point
}

// Point is a value, with its spread where Low and High differ.
type Point struct {
	X, Y, Low, High float64
	Tip             string
}

// SVG draws the curves.
func (l *Lines) SVG() string {
	const left, right, body = 38.0, 12.0, 200.0
	var c canvas
	var entries []entry
	var xs []float64
	highY, whole := l.Base, true // Y are integers
	for i := range l.Curves {
		v := &l.Curves[i]
		v.Points = slices.DeleteFunc(slices.Clone(v.Points),
			func(p Point) bool { return math.IsNaN(p.Y) || math.IsInf(p.Y, 0) })
		entries = append(entries, entry{v.Name, v.Color, v.Dashed, v.Spots})
		for _, p := range v.Points {
			highY, whole = max(highY, p.Y, p.High), whole && isWhole(p.Y)
			if !slices.Contains(xs, p.X) {
				xs = append(xs, p.X)
			}
		}
	}
	if len(xs) == 0 {
		return c.done(20, l.Label)
	}
	slices.Sort(xs)
	if len(entries) == 1 {
		entries = nil
	}
	top := c.legend(entries) + 28
	c.text("soft", "start", 0, top-13, l.Y)

	marksY := ticks(0, highY, 4, whole)
	sy := scale{0, marksY[len(marksY)-1], top + body, top}
	for _, m := range marksY {
		c.line("grid", left, sy.at(m), width-right, sy.at(m))
		c.text("soft", "end", left-6, sy.at(m)+4, label(m)+l.YUnit)
	}
	sx := scale{xs[0], xs[len(xs)-1], left + 6, width - right - 6}
	spots := !slices.ContainsFunc(l.Curves, func(v Curve) bool { return !v.Spots })
	marksX := xs
	if spots { // both axes are counts
		marksX = ticks(0, xs[len(xs)-1]*1.02, 5, isWhole(xs...))
		sx.from, sx.to = 0, marksX[len(marksX)-1]
	}
	place := sx.at
	if l.Wide {
		step := (sx.end - sx.start) / float64(max(1, len(xs)-1))
		place = func(x float64) float64 { return sx.start + step*float64(slices.Index(xs, x)) }
	}
	last := -100.0
	if !l.Wide && !spots {
		marksX = ticks(xs[0], xs[len(xs)-1], 6, isWhole(xs...))
		if len(xs) <= 12 {
			marksX = xs
		}
	}
	for _, m := range marksX {
		if x := place(m); m >= sx.from && m <= sx.to && x-last > 22 {
			c.text("soft", "middle", x, top+body+16, label(m)+l.XUnit)
			last = x
		}
	}
	c.text("soft", "middle", (left+width-right)/2, top+body+32, l.X)
	c.line("axis", left, top+body, width-right, top+body)
	if l.Base > 0 {
		c.line("base", left, sy.at(l.Base), width-right, sy.at(l.Base))
	}
	for _, v := range l.Curves {
		v.band(&c, place, sy)
	}
	for _, v := range l.Curves {
		v.draw(&c, place, sy, l)
	}
	return c.done(top+body+38, l.Label)
}

func (v *Curve) band(c *canvas, x func(float64) float64, y scale) {
	var area []point
	for _, p := range v.Points {
		if p.High > p.Low {
			area = append(area, point{x(p.X), y.at(p.High)})
		}
	}
	for _, p := range slices.Backward(v.Points) {
		if p.High > p.Low {
			area = append(area, point{x(p.X), y.at(p.Low)})
		}
	}
	if len(area) > 2 && !v.Spots {
		c.path("band "+fill(v.Color), area, true)
	}
}

func (v *Curve) draw(c *canvas, x func(float64) float64, y scale, l *Lines) {
	var points []point
	for _, p := range v.Points {
		points = append(points, point{x(p.X), y.at(p.Y)})
	}
	class := "stroke " + stroke(v.Color)
	if v.Dashed {
		class += " dash"
	}
	if !v.Spots && len(points) > 1 {
		c.path(class, points, false)
	}
	size := 3.6
	if v.Spots {
		size = 6
	}
	for i, p := range v.Points {
		tip := p.Tip
		if tip == "" {
			tip = fmt.Sprintf("%s: %.2f%s at %s%s", v.Name, p.Y, l.YUnit, label(p.X), l.XUnit)
		}
		if v.Dashed {
			c.dot(fill(v.Color), points[i].x, points[i].y, 1.6, tip)
			continue
		}
		c.marker(v.Color, points[i].x, points[i].y, size, tip)
	}
}
