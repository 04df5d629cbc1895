package charts

import (
	"fmt"
	"math"
)

// Bars are horizontal bars in groups, each with its value at its end.
type Bars struct {
	Label  string // for those who cannot see it
	Unit   string // after each value
	Base   float64
	Groups []Group
}

// Group is a heading with its bars.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one value; Low and High, where they differ, are drawn as a whisker.
type Bar struct {
	Name             string
	Value, Low, High float64
	Color            int
	Tip              string
}

// SVG draws the bars.
func (b *Bars) SVG() string {
	const left, right, thick, step, head = 118.0, 50.0, 15.0, 21.0, 24.0
	var c canvas
	high := b.Base
	for _, g := range b.Groups {
		for _, x := range g.Bars {
			high = max(high, x.Value, x.High)
		}
	}
	marks := ticks(0, high*1.001, 4, false)
	s := scale{0, max(high*1.02, marks[len(marks)-2]), left, width - right}
	height := 4.0
	for _, g := range b.Groups {
		if g.Name != "" {
			height += head
		}
		height += step * float64(len(g.Bars))
	}
	for _, m := range marks {
		if m > s.to {
			continue
		}
		c.line("grid", s.at(m), 0, s.at(m), height)
		c.text("soft", "middle", s.at(m), height+15, label(m)+b.Unit)
	}
	if b.Base > 0 {
		c.line("base", s.at(b.Base), 0, s.at(b.Base), height)
	}
	y := 4.0
	for _, g := range b.Groups {
		if g.Name != "" {
			c.text("strong halo", "start", 0, y+15, g.Name)
			y += head
		}
		for _, x := range g.Bars {
			c.text("", "end", left-8, y+12, x.Name)
			c.rect(fill(x.Color), left, y, s.at(x.Value)-left, thick, 3, x.Tip)
			end := s.at(x.Value)
			if x.High > x.Low {
				mid := y + thick/2
				c.line("whisker", s.at(x.Low), mid, s.at(x.High), mid)
				c.line("whisker", s.at(x.Low), mid-3, s.at(x.Low), mid+3)
				c.line("whisker", s.at(x.High), mid-3, s.at(x.High), mid+3)
				end = max(end, s.at(x.High))
			}
			c.text("strong halo", "start", end+5, y+12, value(x.Value)+b.Unit)
			y += step
		}
	}
	return c.done(height+22, b.Label)
}

// value writes two decimals of values below 10, one below 100.
func value(x float64) string {
	switch {
	case math.Abs(x) < 10:
		return fmt.Sprintf("%.2f", x)
	case math.Abs(x) < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
