package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/specgo/spec/internal/bench"
)

// Point is a measured time.
type Point struct {
	N       int     // sequences of a pass, or tokens of a prompt
	Seconds float64 // of the pass, or of each of the tokens
}

// Costs are the seconds of a machine's passes. N ascends in both lists, and each has an element at least.
type Costs struct {
	Rows    []Point // passes of one token of each of N sequences
	Prompts []Point // tokens of a prompt of N
	// Position is what each earlier position of a sequence adds to the pass that computes a token of it.
	Position float64
}

// Read takes the costs from the rows of "spec bench": batches of sequences, prefill, and decoding at an empty context
// and at a long one.
func Read(rows []bench.Row) (c Costs, err error) {
	var empty, deep bench.Row
	for i, r := range rows {
		if r.Tokens < 1 || r.Context < 0 || !(r.PassSeconds > 0) || math.IsInf(r.PassSeconds, 1) {
			return c, fmt.Errorf("rows[%d]: %q of %d tokens at %d in %v seconds cannot be", i, r.Kind, r.Tokens, r.Context,
				r.PassSeconds)
		}
		switch {
		case r.Kind == "batch":
			c.Rows = append(c.Rows, Point{r.Tokens, r.PassSeconds})
		case r.Kind == "prefill":
			c.Prompts = append(c.Prompts, Point{r.Tokens, r.PassSeconds / float64(r.Tokens)})
		case r.Kind == "decode" && r.Context == 0:
			empty = r
		case r.Kind == "decode" && r.Context > deep.Context:
			deep = r
		}
	}
	switch {
	case len(c.Rows) == 0:
		return c, errors.New("no row of kind batch: spec bench --batch measures them")
	case len(c.Prompts) == 0:
		return c, errors.New("no row of kind prefill: spec bench -p measures them")
	}
	if deep.Context > 0 && empty.Tokens > 0 {
		c.Position = max(0, deep.PassSeconds-empty.PassSeconds) / float64(deep.Context)
	}
	for _, list := range [][]Point{c.Rows, c.Prompts} {
		slices.SortFunc(list, func(a, b Point) int { return cmp.Compare(a.N, b.N) })
	}
	for _, list := range []*[]Point{&c.Rows, &c.Prompts} {
		*list = slices.CompactFunc(*list, func(a, b Point) bool { return a.N == b.N })
	}
	for i := range c.Rows[1:] { // a pass of more sequences takes no less, but for what else the machine did
		c.Rows[i+1].Seconds = max(c.Rows[i+1].Seconds, c.Rows[i].Seconds)
	}
	return c, nil
}

// Most is the most sequences of a pass that was measured.
func (c *Costs) Most() int { return c.Rows[len(c.Rows)-1].N }

// Pass is the seconds of a pass with one token of each of so many sequences, which have so many earlier positions
// together, without prompts; 0 for no sequence.
func (c *Costs) Pass(rows, positions int) float64 {
	if rows == 0 {
		return 0
	}
	return between(c.Rows, rows) + float64(c.Position*float64(positions))
}

// Prompt is the seconds of each token of a prompt of n tokens.
func (c *Costs) Prompt(n int) float64 { return between(c.Prompts, n) }

// between interpolates linearly. Beyond the ends the times are those of the ends.
func between(list []Point, n int) float64 {
	i, found := slices.BinarySearchFunc(list, n, func(p Point, n int) int { return cmp.Compare(p.N, n) })
	switch {
	case found || i == 0:
		return list[i].Seconds
	case i == len(list):
		return list[i-1].Seconds
	}
	a, b := list[i-1], list[i]
	return a.Seconds + float64((b.Seconds-a.Seconds)*float64(n-a.N)/float64(b.N-a.N))
}
