package panels

import "cmp"

const (
	// readDepth is how many reads are under way at once. Disks need a few of them to reach their speed.
	readDepth = 6
	// ringShare bounds the memory for reads under way beside two matrices: a part of the weights, where that is less.
	ringShare = 8
)

// Residency says which matrices are in memory for good, and how much memory the others take turns in.
type Residency struct {
	Resident int64 // bytes of those that are in memory for good
	Buffers  int64 // bytes of memory for those that are read
	// bytes that a pass of one token reads from disk, at most; with experts that are kept, as if every one were as
	// likely
	PerPass int64
	Experts int // that are kept in memory of those that are read on demand; 0 without

	kept  []bool // by part
	ring  int64  // bytes of the ring; 0: no matrix goes through it
	units []unit // experts that are read on demand
	slot  int64  // bytes of memory for one
}

// unit is the matrices of an expert.
type unit []*weight

// Whole is the residency of a model that fits into memory.
func (m *Layout) Whole() *Residency {
	r := &Residency{Resident: m.Bytes(), kept: make([]bool, len(m.parts))}
	for i := range r.kept {
		r.kept[i] = true
	}
	return r
}

// Least is the least budget, where a token is sent to so many experts.
func (m *Layout) Least(experts int) int64 {
	every, units, slot := m.kinds()
	return min(m.ringFor(every, func(int) bool { return false }), m.sum(every)) + int64(leastSlots(units, experts))*slot
}

// Within decides what stays in memory within a budget, which is at least [Layout.Least]. What is kept of the matrices
// that every pass reads is spread evenly, so that the disk never waits long.
func (m *Layout) Within(budget int64, experts int) *Residency {
	every, units, slot := m.kinds()
	r := &Residency{kept: make([]bool, len(m.parts)), units: units, slot: slot}
	total := m.sum(every)
	least := int64(leastSlots(units, experts)) * slot
	if total+least <= budget {
		for _, i := range every {
			r.kept[i] = true
		}
		r.Resident = total
		if len(units) > 0 {
			r.Experts = int(min(int64(len(units)), (budget-total)/slot))
		}
	} else {
		r.Experts = leastSlots(units, experts)
		r.keep(m, every, budget-least)
	}
	r.Buffers = r.ring + int64(r.Experts)*slot
	for _, i := range every {
		if !r.kept[i] {
			r.PerPass += m.parts[i].bytes
		}
	}
	if n := len(units); n > r.Experts {
		layers := map[int]bool{}
		for _, u := range units {
			layers[u[0].Group] = true
		}
		r.PerPass += slot * int64(len(layers)*experts) * int64(n-r.Experts) / int64(n)
	}
	return r
}

// kinds are the matrices that every pass reads, and the experts with the bytes of the largest one. Matrices of which
// rows are looked up only belong to neither.
func (m *Layout) kinds() (every []int, units []unit, slot int64) {
	type name struct{ group, number int }
	known := map[name]int{}
	for i, p := range m.parts {
		switch {
		case p.Use == Rows:
		case p.Number < 0:
			every = append(every, i)
		default:
			at, ok := known[name{p.Group, p.Number}]
			if !ok {
				at = len(units)
				known[name{p.Group, p.Number}] = at
				units = append(units, nil)
			}
			units[at] = append(units[at], p)
			n := int64(0)
			for _, p := range units[at] {
				n += alignPage(p.bytes)
			}
			slot = max(slot, n)
		}
	}
	return every, units, slot
}

// sum is the bytes of parts, each in whole pages.
func (m *Layout) sum(parts []int) (n int64) {
	for _, i := range parts {
		n += alignPage(m.parts[i].bytes)
	}
	return n
}

// leastSlots is how many experts there must be room for: those of a token, and the next ones.
func leastSlots(units []unit, experts int) int { return min(len(units), max(2, 2*experts)) }

// ringFor is the size of a ring for those parts that are not kept: twice the largest one, and reads under way.
func (m *Layout) ringFor(every []int, kept func(i int) bool) int64 {
	largest, all := int64(0), int64(0)
	for _, i := range every {
		if !kept(i) {
			n := alignPage(m.parts[i].bytes)
			largest, all = max(largest, n), all+n
		}
	}
	return 2*largest + alignPage(min(readDepth*cmp.Or(m.piece, pieceBytes), all/ringShare))
}

// keep chooses which matrices stay in memory, within a budget that the ring must fit into too.
func (r *Residency) keep(m *Layout, every []int, budget int64) {
	kept := func(i int) bool { return r.kept[i] }
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
		r.kept[first] = true
		if used = size(first); used+m.ringFor(every, kept) > budget {
			r.kept[first], used = false, 0
		}
	}
	r.ring = m.ringFor(every, kept)
	rest := m.sum(every) - used
	spend := budget - r.ring - used
	due := 0.0
	for turn := range 2 { // first evenly, then whatever still fits
		for _, i := range every {
			if kept(i) {
				continue
			}
			n := size(i)
			due += float64(float64(n) * float64(spend) / float64(rest))
			if n <= budget-r.ring-used && (turn > 0 || due >= float64(n)) {
				r.kept[i] = true
				used += n
				due -= float64(n)
			}
		}
	}
	r.Resident = used
}
