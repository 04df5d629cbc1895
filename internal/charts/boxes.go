package charts

import (
	"math"
	"slices"

	"github.com/specgo/spec/internal/units"
)

// Boxes show distributions, one a row: every value a spot, the middle half as a box, the median as
// a line.
type Boxes struct {
	Label string
	X     string
	Unit  string
	Boxes []Box
}

// Box is one distribution.
type Box struct {
	Name   string
	Color  int
	Values []float64
}

// SVG draws the boxes.
func (b *Boxes) SVG() string {
	const left, right, row, gap = 118.0, 14.0, 34.0, 20.0
	var c canvas
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range b.Boxes {
		for _, v := range x.Values {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return c.done(20, b.Label)
	}
	marks := ticks(low, high, 5, false)
	s := scale{marks[0], marks[len(marks)-1], left, width - right}
	height := (row+gap)*float64(len(b.Boxes)) + 6
	for _, m := range marks {
		c.line("grid", s.at(m), 0, s.at(m), height)
		c.text("soft", "middle", s.at(m), height+15, label(m)+b.Unit)
	}
	for i, x := range b.Boxes {
		y := 16 + (row+gap)*float64(i)
		sorted := slices.Sorted(slices.Values(x.Values))
		c.text("", "end", left-8, y+row/2+4, x.Name)
		if len(sorted) == 0 {
			continue
		}
		at := func(q float64) float64 { return sorted[int(math.Round(q*float64(len(sorted)-1)))] }
		for j, v := range x.Values { // spread over the row's height, always the same way
			c.dot(fill(x.Color)+" faint", s.at(v), y+row*float64(j*7%16+1)/17, 1.8, "")
		}
		c.rect(fill(x.Color)+" band", s.at(at(0.25)), y+2, s.at(at(0.75))-s.at(at(0.25)), row-4, 3, "")
		c.line("stroke "+stroke(x.Color), s.at(at(0.5)), y+1, s.at(at(0.5)), y+row-1)
		c.text("strong halo", "middle", s.at(at(0.5)), y-3, units.Number(at(0.5), 4)+b.Unit)
	}
	c.text("soft", "middle", (left+width-right)/2, height+31, b.X)
	return c.done(height+36, b.Label)
}
