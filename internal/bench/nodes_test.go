package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// nodes is a machine of several memory nodes by what its parts do at most, for predictions: nothing of it is measured
// here.
type nodes struct {
	count       int
	memoryGBPS  float64 // 10^9 bytes per second that a node's memory is read with, by any cores
	linkGBPS    float64 // that go from a node to another one
	integerGPS  float64 // 10^9 products per second of a node's cores
	firstByLoad bool    // the weights lie in one node, as where one thread has loaded them
	bound       bool    // each node's cores read what lies in its memory, as with --numa
}

// pass is the least time, in seconds, of a pass that reads so many bytes of weights and makes so many products, of
// which each node's cores have an equal part, and what takes it: memory, link or integer. It is the bound of a Reach,
// of a machine of several nodes. Where cores are not bound, and the weights do not lie in one node, each node has an
// equal part of what each node's cores read.
func (n *nodes) pass(bytes, products float64) (seconds float64, by string) {
	count := float64(n.count)
	node, link := bytes/count, bytes/count/count // read from one memory, and from it over one link
	switch {
	case n.bound:
		link = 0
	case n.firstByLoad:
		node, link = bytes, bytes/count
	}
	if n.count == 1 {
		link = 0
	}
	for _, x := range []struct {
		by           string
		amount, giga float64
	}{{"memory", node, n.memoryGBPS}, {"link", link, n.linkGBPS}, {"integer", products / count, n.integerGPS}} {
		if s := x.amount / (x.giga * 1e9); s > seconds {
			seconds, by = s, x.by
		}
	}
	return seconds, by
}

// twoSockets is what is predicted for: two sockets of 32 cores of an EPYC 9004 or 9005 by the maker's data sheets, with
// 12 channels of DDR5-4800 (38.4 GB/s) each and three links of 16 lanes of 32 Gbit/s between them (64 GB/s). A core
// makes 210 * 10^9 products per second: the half of what bench --limits gave for two cores of a Zen 5 on a loaded
// machine, which is no more than it can.
var twoSockets = nodes{count: 2, memoryGBPS: 12 * 38.4, linkGBPS: 3 * 64, integerGPS: 32 * 210}

// The prediction in docs/MEMORY.md is what the model says.
func TestNodesAreDocumented(t *testing.T) {
	const weights, bytes = 8e9, 4.5e9 // of 4.5 bits
	var b strings.Builder
	b.WriteString("| tokens in a pass | bound to nodes (`--numa distribute`) | not bound, weights in both nodes | " +
		"not bound, weights in one node | one socket alone |\n|---|---|---|---|---|\n")
	for _, tokens := range []int{1, 16, 64, 256} {
		fmt.Fprintf(&b, "| %d |", tokens)
		bound, spread, first, one := twoSockets, twoSockets, twoSockets, twoSockets
		bound.bound, first.firstByLoad, one.count = true, true, 1
		for _, n := range []nodes{bound, spread, first, one} {
			s, by := n.pass(bytes, weights*float64(tokens))
			fmt.Fprintf(&b, " %.1f ms (%s) |", s*1e3, by)
		}
		b.WriteString("\n")
	}
	testkit.Printed(t, "docs/MEMORY.md", "a pass on two sockets", b.String())
}

func TestPassOfNodes(t *testing.T) {
	for name, c := range map[string]struct {
		n               nodes
		bytes, products float64
		want            float64
		by              string
	}{
		"one node": {nodes{count: 1, memoryGBPS: 100, integerGPS: 1000}, 50e9, 1e9, 0.5, "memory"},
		"one node, by load": {nodes{count: 1, memoryGBPS: 100, linkGBPS: 1, integerGPS: 1e3, firstByLoad: true}, 50e9, 1, 0.5,
			"memory"},
		"arithmetic": {nodes{count: 2, memoryGBPS: 100, linkGBPS: 50, integerGPS: 1000}, 1e9, 4e12, 2, "integer"},
		"bound": {nodes{count: 2, memoryGBPS: 100, linkGBPS: 10, integerGPS: 1000, bound: true}, 100e9, 1, 0.5,
			"memory"},
		"spread, a fast link": {nodes{count: 2, memoryGBPS: 100, linkGBPS: 60, integerGPS: 1000}, 120e9, 1, 0.6, "memory"},
		"spread, a slow link": {nodes{count: 2, memoryGBPS: 100, linkGBPS: 10, integerGPS: 1000}, 100e9, 1, 2.5, "link"},
		"four, spread":        {nodes{count: 4, memoryGBPS: 100, linkGBPS: 10, integerGPS: 1000}, 160e9, 1, 1, "link"},
		"in one node": {nodes{count: 2, memoryGBPS: 100, linkGBPS: 25, integerGPS: 1000, firstByLoad: true}, 100e9, 1, 2,
			"link"},
	} {
		if got, by := c.n.pass(c.bytes, c.products); math.Abs(got-c.want) > 1e-9 || by != c.by {
			t.Errorf("%s: %v by %s, want %v by %s", name, got, by, c.want, c.by)
		}
	}
}
