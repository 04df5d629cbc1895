package tensor

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// placements are the values of Options.NUMA, in llama.cpp's words.
var placements = []string{"distribute", "isolate", "numactl"}

// Placements lists the values of Options.NUMA beside "".
func Placements() []string { return slices.Clone(placements) }

// placement says on which memory node each thread runs. The threads of a node have consecutive numbers. The panels of
// a matrix are cut in the same proportions: a part of each node is packed by threads of that node, which therefore
// get its pages from their own memory (Linux gives a page where it is written first), and multiplied by them.
type placement struct {
	first []int // [nodes+1] the first thread of each node; behind the last one their number
	// The CPUs of each node, and those that the process was started with. nil: threads run where the system wants.
	cpus    [][]int
	started []int
	system  affinity
}

// affinity sets the CPUs that the calling thread may run on.
type affinity interface{ set(cpus []int) error }

// unplaced is the placement of threads that run where the system wants.
func unplaced(threads int) placement { return placement{first: []int{0, threads}} }

func (p *placement) threads() int { return p.first[len(p.first)-1] }
func (p *placement) nodes() int   { return len(p.first) - 1 }
func (p *placement) binds() bool  { return p.cpus != nil }

// node is that of a thread.
func (p *placement) node(thread int) int {
	k := 0
	for thread >= p.first[k+1] {
		k++
	}
	return k
}

// part is a node's part of n panels, all of them together the panels in order.
func (p *placement) part(node, n int) (from, to int) {
	if p.nodes() == 1 {
		return 0, n
	}
	return n * p.first[node] / p.threads(), n * p.first[node+1] / p.threads()
}

// neighbor is the thread whose work a thread does after that of i others: its own, that of the other threads of its
// node, and then that of other nodes.
func (p *placement) neighbor(thread, i int) int {
	k := p.node(thread)
	from, n := p.first[k], p.first[k+1]-p.first[k]
	if i < n {
		return from + (thread-from+i)%n
	}
	return (from + i) % p.threads()
}

// enter binds the calling goroutine to a thread of the system on the CPUs of a worker's node, until leave.
func (p *placement) enter(worker int) error {
	if !p.binds() {
		return nil
	}
	runtime.LockOSThread()
	return p.system.set(p.cpus[p.node(worker)])
}

// leave gives the thread back as it was.
func (p *placement) leave() {
	if p.binds() && p.system.set(p.started) == nil {
		runtime.UnlockOSThread() // else it ends with its goroutine: others would have it on this node's CPUs alone
	}
}

// checkPlacement checks Options.NUMA.
func checkPlacement(mode string) error {
	if mode != "" && !slices.Contains(placements, mode) {
		return fmt.Errorf("%q: %w (there are %s)", mode, ErrNUMA, strings.Join(placements, ", "))
	}
	return nil
}
