package charts

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed reads all of text as XML, strictly.
func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v\n%.400s", name, err, text)
		}
	}
}

func figures() map[string]string {
	nan := math.NaN()
	return map[string]string{
		"bars": (&Bars{Unit: "x", Base: 1, Label: `a "quoted" <label>`, Groups: []Group{
			{"model", []Bar{{Name: "auto & co", Value: 2, Low: 1.5, High: 2.5, Tip: "<b>"}, {Name: "none"}}},
		}}).SVG(),
		"no bars": (&Bars{}).SVG(),
		"lines": (&Lines{X: "x", Y: "y", Base: 1, Curves: []Curve{
			{Name: "a", Points: []Point{{X: 0, Y: 1, Low: 0.5, High: 2}, {X: 1, Y: 2, Low: 1, High: 3}}},
			{Name: "b", Color: 9, Dashed: true, Points: []Point{{X: 0.5, Y: nan}}},
		}}).SVG(),
		"spots":     (&Lines{Curves: []Curve{{Name: "a", Spots: true, Points: []Point{{X: 5, Y: 1}}}, {Name: "b", Spots: true, Points: []Point{{X: 7, Y: 1}}}}}).SVG(),
		"uneven":    (&Lines{Wide: true, Curves: []Curve{{Name: "a", Points: []Point{{X: 0, Y: 1}, {X: 5, Y: 1}}}}}).SVG(),
		"no lines":  (&Lines{}).SVG(),
		"boxes":     (&Boxes{Unit: " ms", X: "time", Boxes: []Box{{"plain", 0, []float64{3, 1, 2}}, {"none", 1, nil}}}).SVG(),
		"one value": (&Boxes{Boxes: []Box{{"plain", 0, []float64{3}}}}).SVG(),
		"no boxes":  (&Boxes{}).SVG(),
	}
}

func TestFiguresAreWellFormed(t *testing.T) {
	for name, svg := range figures() {
		wellFormed(t, name, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: a coordinate is not a number", name)
		}
	}
}

// The page needs nothing from elsewhere and runs no script.
func TestPageStandsAlone(t *testing.T) {
	p := Page{
		Title: "A & B", Lead: "<script>alert(1)</script>", Tiles: []Tile{{"1x", "so & so"}}, Command: "spec compare <x>", Notes: []string{"&"},
		Table: Table{Title: "T", Head: []string{"a", "b"}, Rows: [][]string{{"<", ">"}}, Left: 1},
	}
	for _, svg := range figures() {
		p.Sections = append(p.Sections, Section{"S", "s", []Figure{{"f", svg}}})
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	_, body, _ := strings.Cut(page, "</style>")
	wellFormed(t, "page", "<html><head>"+body)
	for _, bad := range []string{"<script", "src=", "href=", "url(", "@import", "http://", "https://"} {
		if strings.Contains(strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, ""), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		n         int
	}{{0, 1, 4}, {0, 3.7, 4}, {2, 9.8, 5}, {0.4016, 0.4853, 5}, {0, 0, 4}, {0, 1e6, 4}} {
		list := ticks(c.low, c.high, c.n, false)
		if len(list) < 2 || len(list) > 2*c.n+2 || list[0] > c.low || list[len(list)-1] < c.high {
			t.Errorf("ticks from %v to %v: %v", c.low, c.high, list)
		}
	}
}
