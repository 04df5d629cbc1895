package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// twoSockets is what is predicted for: two sockets of 32 cores of an EPYC 9004 or 9005 by the maker's data sheets, with
// 12 channels of DDR5-4800 (38.4 GB/s) each and three links of 16 lanes of 32 Gbit/s between them (64 GB/s). A core
// makes 210 * 10^9 products per second: the half of what bench --limits gave for two cores of a Zen 5 on a loaded
// machine, which is no more than it can.
var twoSockets = Nodes{Count: 2, MemoryGBPS: 12 * 38.4, LinkGBPS: 3 * 64, IntegerGPS: 32 * 210}

// The prediction in docs/MEMORY.md is what the model says.
func TestNodesAreDocumented(t *testing.T) {
	const weights, bytes = 8e9, 4.5e9 // of 4.5 bits
	var b strings.Builder
	b.WriteString("| tokens in a pass | bound to nodes (`--numa distribute`) | not bound, weights in both nodes | " +
		"not bound, weights in one node | one socket alone |\n|---|---|---|---|---|\n")
	for _, tokens := range []int{1, 16, 64, 256} {
		fmt.Fprintf(&b, "| %d |", tokens)
		bound, spread, first, one := twoSockets, twoSockets, twoSockets, twoSockets
		bound.Bound, first.FirstByLoad, one.Count = true, true, 1
		for _, n := range []Nodes{bound, spread, first, one} {
			s, by := n.Pass(bytes, weights*float64(tokens))
			fmt.Fprintf(&b, " %.1f ms (%s) |", s*1e3, by)
		}
		b.WriteString("\n")
	}
	testkit.Printed(t, "docs/MEMORY.md", "a pass on two sockets", b.String())
}

func TestPassOfNodes(t *testing.T) {
	for name, c := range map[string]struct {
		n               Nodes
		bytes, products float64
		want            float64
		by              string
	}{
		"one node": {Nodes{Count: 1, MemoryGBPS: 100, IntegerGPS: 1000}, 50e9, 1e9, 0.5, "memory"},
		"one node, by load": {Nodes{Count: 1, MemoryGBPS: 100, LinkGBPS: 1, IntegerGPS: 1e3, FirstByLoad: true}, 50e9, 1, 0.5,
			"memory"},
		"arithmetic": {Nodes{Count: 2, MemoryGBPS: 100, LinkGBPS: 50, IntegerGPS: 1000}, 1e9, 4e12, 2, "integer"},
		"bound": {Nodes{Count: 2, MemoryGBPS: 100, LinkGBPS: 10, IntegerGPS: 1000, Bound: true}, 100e9, 1, 0.5,
			"memory"},
		"spread, a fast link": {Nodes{Count: 2, MemoryGBPS: 100, LinkGBPS: 60, IntegerGPS: 1000}, 120e9, 1, 0.6, "memory"},
		"spread, a slow link": {Nodes{Count: 2, MemoryGBPS: 100, LinkGBPS: 10, IntegerGPS: 1000}, 100e9, 1, 2.5, "link"},
		"four, spread":        {Nodes{Count: 4, MemoryGBPS: 100, LinkGBPS: 10, IntegerGPS: 1000}, 160e9, 1, 1, "link"},
		"in one node": {Nodes{Count: 2, MemoryGBPS: 100, LinkGBPS: 25, IntegerGPS: 1000, FirstByLoad: true}, 100e9, 1, 2,
			"link"},
	} {
		if got, by := c.n.Pass(c.bytes, c.products); math.Abs(got-c.want) > 1e-9 || by != c.by {
			t.Errorf("%s: %v by %s, want %v by %s", name, got, by, c.want, c.by)
		}
	}
}
