package charts

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
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
		"spots": (&Lines{Curves: []Curve{{Name: "a", Spots: true, Points: []Point{{X: 5, Y: 1}}},
			{Name: "b", Spots: true, Points: []Point{{X: 7, Y: 1}}}}}).SVG(),
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
		Title: "A & B", Lead: "<script>alert(1)</script>", Tiles: []Tile{{"1x", "so & so"}},
		Command: "spec compare <x>", Notes: []string{"&"},
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

var update = flag.Bool("update", false, "write testdata anew")

// A chart of its own is what it was, to the byte: look at it before writing it anew.
func TestStandaloneGolden(t *testing.T) {
	for name, svg := range map[string]string{
		"lines": (&Lines{Label: "Speedup by draft length", X: "tokens in a draft", Y: "speedup", YUnit: "x",
			Base: 1, Curves: []Curve{
				{Name: "AVX-512", Color: 1, Points: []Point{
					{X: 1, Y: 1.5, Low: 1.25, High: 1.75}, {X: 3, Y: 2, Low: 1.75, High: 2.25}}},
				{Name: "AVX2", Color: 2, Points: []Point{{X: 1, Y: 1.25}, {X: 3, Y: 1}}},
				{Name: "formula", Dashed: true, Points: []Point{{X: 1, Y: 1.625}, {X: 3, Y: 2.5}}},
			}}).SVG(),
		"stacks": (&Stacks{Label: "Where the time goes", Unit: " ms", X: "milliseconds",
			Parts: []string{"reading", "drafting"},
			Bars:  []Stack{{"plain", []float64{20, 0}, ""}, {"model", []float64{8, 2}, " (2.0x)"}}}).SVG(),
	} {
		got, err := Standalone(svg, "A heading that is so long that it takes two lines, at this width", "A note.")
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, name, got)
		file := "testdata/" + name + ".svg"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s differs from %s: %v", name, file, err)
		}
	}
	if _, err := Standalone("<svg>", "no box"); err == nil {
		t.Error("a chart without a box")
	}
}

// No two colors have the same marker, so that curves can be told apart without seeing colors.
func TestMarkers(t *testing.T) {
	class := regexp.MustCompile(`class="[^"]*"`)
	seen := map[string]int{}
	for color := range Colors {
		var c canvas
		c.marker(color, 10, 10, 4, "")
		shape := class.ReplaceAllString(c.b.String(), "")
		if other, ok := seen[shape]; ok {
			t.Errorf("colors %d and %d have the same marker", other, color)
		}
		seen[shape] = color
	}
}

// Integers have integer marks.
func TestWholeTicks(t *testing.T) {
	for _, high := range []float64{1, 2, 3, 5, 7, 11, 30, 99, 1234} {
		for _, m := range ticks(0, high, 4, true) {
			if m != math.Trunc(m) {
				t.Errorf("up to %v: %v", high, m)
			}
		}
	}
	if list := ticks(0, 3, 6, false); isWhole(list...) {
		t.Errorf("up to 3: %v", list)
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

// The marks of values that are no finite numbers, or that no axis can tell apart, are some, and finite.
func TestTicksOfAnything(t *testing.T) {
	odd := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, 1, -3, math.MaxFloat64, -math.MaxFloat64, 1e18, 1e18 + 128,
		math.SmallestNonzeroFloat64}
	for _, low := range odd {
		for _, high := range odd {
			list := ticks(low, high, 5, false)
			for _, m := range list {
				if math.IsNaN(m) || math.IsInf(m, 0) {
					t.Errorf("ticks from %v to %v: %v", low, high, list)
				}
			}
			if len(list) < 2 || len(list) > 12 {
				t.Errorf("ticks from %v to %v: %v", low, high, list)
			}
		}
	}
	for _, v := range odd {
		boxes := Boxes{Boxes: []Box{{Name: "x", Values: []float64{v, 1}}, {Name: "y", Values: []float64{v}}}}
		if svg := boxes.SVG(); !strings.HasSuffix(strings.TrimSpace(svg), "</svg>") {
			t.Errorf("%v: %s", v, svg)
		}
	}
}

// Every color of a figure stands there without a variable first: renderers that know none (librsvg) paint black
// otherwise. Each variable that is used has a light and a dark color.
func TestColorsWithoutVariables(t *testing.T) {
	light, dark, _ := strings.Cut(standaloneStyle, "@media")
	defined := regexp.MustCompile(`--(\w+): #[0-9a-f]{6};`)
	use := regexp.MustCompile(`([a-z]+): (#[0-9a-f]{6}); ([a-z]+): var\(--(\w+)\);`)
	uses := use.FindAllStringSubmatch(standaloneStyle, -1)
	if all := strings.Count(standaloneStyle, "var("); len(uses) != all || all < 20 {
		t.Errorf("%d of %d uses of variables have a color before them", len(uses), all)
	}
	for _, m := range uses {
		if m[1] != m[3] || !strings.Contains(light, "--"+m[4]+": "+m[2]+";") {
			t.Errorf("%s: not the variable's light color", m[0])
		}
		if !strings.Contains(dark, "--"+m[4]+": #") {
			t.Errorf("--%s has no dark color", m[4])
		}
	}
	if len(defined.FindAllString(light, -1)) < 10 {
		t.Error("no palette")
	}
}
