package engine

import (
	"context"
	"fmt"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

const (
	// streamRows is the rows of a pass of a model whose weights are read from disk, where the memory suffices: every pass reads them once.
	streamRows = 1024
	// scratchShare is the part of the memory that the activations of more than passRows rows may take.
	scratchShare = 16
	// readDepth is how many reads are under way at once. Disks need a few of them to reach their speed.
	readDepth = 6
	// ringShare bounds the memory for reads under way beside two matrices: a part of the weights, where that is less.
	ringShare = 8
)

// MemoryPlan says where the weights of a model are under a limit ([Options].Memory).
type MemoryPlan struct {
	Limit    int64 // 0: none
	Weights  int64 // bytes of all weights, packed
	Resident int64 // bytes that are in memory for good
	Buffers  int64 // bytes of memory for weights that are read, the activations of a pass included
	PerPass  int64 // bytes that a pass of one token reads from disk, at most; with experts that are kept, as if every one were as likely
	Rows     int   // most tokens that go through the layers together
	Experts  int   // that are kept in memory of those that are read on demand; 0 without

	Least int64 // the least limit that suffices
}

// Streams reports whether weights are read from disk in every pass.
func (p MemoryPlan) Streams() bool { return p.PerPass > 0 }

// PlanMemory says where a model's weights would be under o.Memory. It reads the header and vectors of the file.
func PlanMemory(f *gguf.File, o Options) (*MemoryPlan, error) {
	l, m, err := newModel(context.Background(), nil, f, o)
	if err != nil {
		return nil, err
	}
	list, err := mapPanels(l, m)
	if err != nil {
		return nil, err
	}
	a, err := list.arrange(o.Memory, f.Name)
	if a == nil {
		return nil, err
	}
	return &a.MemoryPlan, err
}

// arrangement is a MemoryPlan with its parts.
type arrangement struct {
	MemoryPlan
	resident []bool  // by part
	ring     int64   // bytes of the ring; 0: no matrix goes through it
	units    [][]int // experts that are read on demand: their parts
	slots    int     // of experts
	slot     int64   // bytes of one
}

// all is the bytes of all weights.
func (m *panelMap) all() int64 {
	n := m.vectors
	for i := range m.parts {
		n += alignPage(m.parts[i].bytes)
	}
	return n
}

// arrange decides what stays in memory. Under a limit that does not suffice it returns an error that names the least one; the arrangement
// has that too. What is kept of the matrices that every pass reads is spread evenly, so that the disk never waits long.
func (m *panelMap) arrange(limit int64, name string) (*arrangement, error) {
	a := &arrangement{resident: make([]bool, len(m.parts))}
	a.Limit, a.Weights, a.Rows = limit, m.all(), passRows
	fixed := m.vectors + passRows*m.scratch
	if limit == 0 || a.Weights+passRows*m.scratch <= limit {
		for i := range a.resident {
			a.resident[i] = true
		}
		a.Resident, a.Buffers, a.Least = a.Weights, passRows*m.scratch, m.least()
		return a, nil
	}
	a.Least = m.least()
	if limit < a.Least {
		return a, fmt.Errorf("%s: %d MB of memory are not enough to read its weights from disk: %d MB are needed: %w",
			name, limit>>20, a.Least>>20+1, tensor.ErrMemory)
	}
	for rows := streamRows; rows > passRows; rows -= passRows {
		if more := int64(rows-passRows) * m.scratch; int64(rows)*m.scratch <= limit/scratchShare && limit-more >= a.Least {
			a.Rows, fixed = rows, fixed+more
			break
		}
	}
	budget := limit - fixed
	every, units, slot := m.kinds()
	a.units, a.slot = units, slot
	total := m.sum(every)
	least := int64(m.leastSlots(units)) * slot
	if total+least <= budget {
		for _, i := range every {
			a.resident[i] = true
		}
		a.Resident = m.vectors + total
		if len(units) > 0 {
			a.slots = int(min(int64(len(units)), (budget-total)/slot))
		}
	} else {
		a.slots = m.leastSlots(units)
		a.keep(m, every, budget-least)
	}
	a.Buffers = fixed - m.vectors + a.ring + int64(a.slots)*slot
	for _, i := range every {
		if !a.resident[i] {
			a.PerPass += m.parts[i].bytes
		}
	}
	if n := len(units); n > a.slots {
		layers := map[int]bool{}
		for _, u := range units {
			block, _ := blockIndex(m.parts[u[0]].name)
			layers[block] = true
		}
		a.PerPass += slot * int64(len(layers)*m.used) * int64(n-a.slots) / int64(n)
	}
	a.Experts = a.slots
	return a, nil
}

// kinds are the matrices that every pass reads, and the experts with the bytes of the largest one. Matrices of which rows are looked up
// only belong to neither.
func (m *panelMap) kinds() (every []int, units [][]int, slot int64) {
	type expert struct{ block, number int }
	known := map[expert]int{}
	for i := range m.parts {
		p := &m.parts[i]
		switch block, _ := blockIndex(p.name); {
		case p.rowsOnly:
		case p.stacked < 0:
			every = append(every, i)
		default:
			at, ok := known[expert{block, p.stacked}]
			if !ok {
				at = len(units)
				known[expert{block, p.stacked}] = at
				units = append(units, nil)
			}
			units[at] = append(units[at], i)
			slot = max(slot, m.sum(units[at]))
		}
	}
	return every, units, slot
}

// sum is the bytes of parts, each in whole pages.
func (m *panelMap) sum(parts []int) (n int64) {
	for _, i := range parts {
		n += alignPage(m.parts[i].bytes)
	}
	return n
}

// leastSlots is how many experts there must be room for: those of a token, and the next ones.
func (m *panelMap) leastSlots(units [][]int) int { return min(len(units), max(2, 2*m.used)) }

// least is the least limit.
func (m *panelMap) least() int64 {
	every, units, slot := m.kinds()
	ring := m.ringFor(every, func(int) bool { return false })
	return m.vectors + passRows*m.scratch + min(ring, m.sum(every)) + int64(m.leastSlots(units))*slot
}

// ringFor is the size of a ring for those parts that are not kept: twice the largest one, and reads under way.
func (m *panelMap) ringFor(every []int, kept func(i int) bool) int64 {
	largest, all := int64(0), int64(0)
	for _, i := range every {
		if !kept(i) {
			n := alignPage(m.parts[i].bytes)
			largest, all = max(largest, n), all+n
		}
	}
	return 2*largest + alignPage(min(readDepth*panelPiece, all/ringShare))
}

// keep chooses which matrices stay in memory, within a budget that the ring must fit into too.
func (a *arrangement) keep(m *panelMap, every []int, budget int64) {
	kept := func(i int) bool { return a.resident[i] }
	size := func(i int) int64 { return alignPage(m.parts[i].bytes) }
	used := int64(0)
	// A single large one, as an output matrix is, would make the ring large.
	first, second := -1, -1
	for _, i := range every {
		switch {
		case first < 0 || size(i) > size(first):
			first, second = i, first
		case second < 0 || size(i) > size(second):
			second = i
		}
	}
	if second >= 0 && size(first) > 2*size(second) {
		a.resident[first] = true
		if used = size(first); used+m.ringFor(every, kept) > budget {
			a.resident[first], used = false, 0
		}
	}
	a.ring = m.ringFor(every, kept)
	rest := m.sum(every) - used
	spend := budget - a.ring - used
	due := 0.0
	for turn := range 2 { // first evenly, then whatever still fits
		for _, i := range every {
			if kept(i) {
				continue
			}
			n := size(i)
			due += float64(float64(n) * float64(spend) / float64(rest))
			if n <= budget-a.ring-used && (turn > 0 || due >= float64(n)) {
				a.resident[i] = true
				used += n
				due -= float64(n)
			}
		}
	}
	a.Resident = m.vectors + used
}
