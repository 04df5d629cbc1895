package charts

import "fmt"

// Stacks are horizontal bars that are made of parts, the same parts in each, with the sum at the end.
type Stacks struct {
	Label string // for those who cannot see it
	Unit  string // after the sums and on the axis
	X     string // what the axis shows
	Parts []string
	Bars  []Stack
}

// Stack is one bar.
type Stack struct {
	Name   string
	Values []float64 // one of each part
	Note   string    // after the sum
}

// partColors are the hues of the parts: with the hatches below they can be told apart without color.
var partColors = []int{1, 2, 4, 0, 3, 5}

// SVG draws the bars.
func (s *Stacks) SVG() string {
	const left, right, thick, step = 118.0, 74.0, 18.0, 30.0
	var c canvas
	high := 0.0
	for _, bar := range s.Bars {
		sum := 0.0
		for _, v := range bar.Values {
			sum += v
		}
		high = max(high, sum)
	}
	x := 0.0
	top := 10.0
	for i, name := range s.Parts {
		if w := 26 + textWidth(name); x > 0 && x+w > width {
			x, top = 0, top+20
		}
		c.part(i, x, top-9, 16, 11, "")
		c.text("", "start", x+21, top, name)
		x += 36 + textWidth(name)
	}
	top += 14
	marks := ticks(0, high*1.001, 4, false)
	at := scale{0, max(high*1.02, marks[len(marks)-2]), left, width - right}
	bottom := top + step*float64(len(s.Bars))
	for _, m := range marks {
		if m <= at.to {
			c.line("grid", at.at(m), top, at.at(m), bottom)
			c.text("soft", "middle", at.at(m), bottom+15, label(m))
		}
	}
	y := top + 6
	for _, bar := range s.Bars {
		c.text("", "end", left-8, y+13, bar.Name)
		sum := 0.0
		for i, v := range bar.Values {
			c.part(i, at.at(sum), y, at.at(sum+v)-at.at(sum), thick,
				fmt.Sprintf("%s, %s: %.1f%s", bar.Name, s.Parts[i], v, s.Unit))
			sum += v
		}
		c.text("strong halo", "start", at.at(sum)+5, y+13, fmt.Sprintf("%.1f%s%s", sum, s.Unit, bar.Note))
		y += step
	}
	c.text("soft", "middle", (left+width-right)/2, bottom+31, s.X)
	return c.done(bottom+36, s.Label)
}

// part draws a piece in the hue and hatch of part i.
func (c *canvas) part(i int, x, y, w, h float64, tip string) {
	c.rect(fill(partColors[i%len(partColors)]), x, y, w, h, 0, tip)
	switch i % 4 {
	case 1:
		for dx := 3.0; dx < w; dx += 5 {
			c.line("hatch", x+dx, y, x+dx, y+h)
		}
	case 2:
		for dy := 3.0; dy < h; dy += 4 {
			c.line("hatch", x, y+dy, x+w, y+dy)
		}
	case 3:
		for dx := 3.0; dx < w-1; dx += 5 {
			for dy := 3.0; dy < h-1; dy += 5 {
				c.dot("spot", x+dx, y+dy, 1.1, "")
			}
		}
	}
}
