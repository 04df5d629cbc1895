package grammar

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
)

// machine runs a program over bytes. It is safe for concurrent use.
type machine struct {
	code   []instruction
	lazies []lazy
	parts  *restriction          // of lazies, with their terms; nil: there are none
	termAt map[instruction]int32 // where an opTerm is, by it
	readAt map[string]int32      // of lazies' characters, by how they are written: where one is read
	orders []order
	hads   []had // of opHad
	hadAt  map[had]int32
	limits Limits
	charge func(bytes int) bool // asks for memory; a negative number gives it back

	mu      sync.RWMutex
	work    Budget          // of the question that is answered
	stacks  []frame         // by stack; 0 is the empty one
	stackOf map[frame]int32 // stacks' inverse
	states  []state
	stateOf map[string]int32  // by its threads' bytes
	forced  map[int32][]int32 // kept answers, by state
	owed    int               // bytes that were not charged yet
	kept    int               // charged bytes that flush gives back: successors and forced tokens

	// The closure at work.
	after   []thread
	scratch []thread
	visited threadSet
	pending []thread
	key     []byte
}

// frame is a stack: a return address on top of another stack.
type frame struct{ address, below, depth int32 }

// thread is a position in the code with a stack.
type thread struct{ at, stack int32 }

// state is a set of threads that wait for a byte.
type state struct {
	threads []thread // ascending
	final   bool     // the text may end here
	next    *[256]int32
}

// Successors that are not states.
const (
	dead    = -1 // no text goes on so
	unknown = -2 // not computed yet
	full    = -3 // beyond a limit, which the error of work names: another time it may be known
)

// What parts of a machine take in memory, with their place in maps.
const (
	stackBytes      = 64
	stateBytes      = 160
	threadBytes     = 16 // in the state and in its key
	readBytes       = 64
	successorsBytes = 1 << 10
	owedBytes       = 1 << 14 // memory is asked for in such portions
)

// newMachine makes a machine and the state before the first byte; a negative one is no state.
func newMachine(ctx context.Context, g *Grammar, letters *alphabet, l Limits, charge func(bytes int) bool) (*machine,
	int32) {
	m := &machine{code: g.code, limits: l, charge: charge, stacks: []frame{{}},
		stackOf: map[frame]int32{}, stateOf: map[string]int32{}, forced: map[int32][]int32{}}
	m.work.renew(ctx, l)
	if len(g.lazies) > 0 || len(g.orders) > 0 {
		m.code, m.lazies = slices.Clone(m.code), g.lazies
		m.termAt, m.readAt = map[instruction]int32{}, map[string]int32{}
		m.orders, m.hadAt = g.orders, map[had]int32{}
		m.parts = newRestriction(&m.work, letters)
	}
	if !m.owe(len(g.code)*instructionBytes/2 + owedBytes) {
		return m, full
	}
	return m, m.close([]thread{{g.start, 0}})
}

// begin starts the answer to a question. The caller holds mu for writing.
func (m *machine) begin(ctx context.Context) { m.work.renew(ctx, m.limits) }

// owe counts memory. What can be computed again is given up before it is refused.
func (m *machine) owe(bytes int) bool {
	if m.owed += bytes; m.owed < owedBytes {
		return true
	}
	if !m.charge(m.owed) {
		m.flush()
		if !m.charge(m.owed) {
			return m.work.beyond("Memory", m.limits.Memory)
		}
	}
	m.owed = 0
	return true
}

// flush gives up what can be computed again.
func (m *machine) flush() {
	for i := range m.states {
		m.states[i].next = nil
	}
	clear(m.forced)
	m.charge(-m.kept)
	m.kept = 0
}

// close follows all instructions that read nothing and returns the state of the threads that remain.
func (m *machine) close(from []thread) int32 {
	m.visited.clear()
	m.scratch = m.scratch[:0]
	final := false
	m.pending = append(m.pending[:0], from...)
	for len(m.pending) > 0 {
		t := m.pending[len(m.pending)-1]
		m.pending = m.pending[:len(m.pending)-1]
		if !m.visited.add(t) {
			continue
		}
		if m.visited.n > m.limits.Threads {
			m.work.beyond("Threads", m.limits.Threads)
		}
		if !m.work.spend(1) {
			return full
		}
		if m.code[t.at].op >= opLazy && !m.expand(t.at) {
			return full
		}
		switch i := &m.code[t.at]; i.op {
		case opByte:
			if i.lo <= i.hi {
				m.scratch = append(m.scratch, t)
			}
		case opSplit:
			m.pending = append(m.pending, thread{i.next, t.stack}, thread{i.other, t.stack})
		case opCall:
			stack := t.stack
			if m.code[i.next].op != opReturn { // a call in tail position returns where its caller does
				if stack = m.push(i.next, stack); stack == full {
					return full
				}
			}
			m.pending = append(m.pending, thread{i.other, stack})
		case opReturn:
			if t.stack == 0 {
				final = true
			} else {
				m.pending = append(m.pending, thread{m.stacks[t.stack].address, m.stacks[t.stack].below})
			}
		}
	}
	if len(m.scratch) == 0 && !final {
		return dead
	}
	return m.intern(final)
}

// expand puts instructions in the place of one that becomes some. Those of an opLazy or opTerm are of a term: a call of
// what reads each first character, then the term that follows; and the next instruction, if the string may end.
func (m *machine) expand(at int32) bool {
	if m.code[at].op >= opMembers {
		return m.expandMembers(at)
	}
	i, before, bytes := m.code[at], len(m.code), 0
	x := term(i.other)
	if i.op == opLazy && m.lazies[i.other].raw {
		i.lo = 1
	}
	terms := m.parts.quoted
	if i.lo == 1 {
		terms = m.parts.terms
	}
	made := len(terms.nodes)
	if i.op == opLazy {
		x = terms.of(m.lazies[i.other].x)
	}
	written := &pruning{restriction: m.parts, json: i.lo == 0}
	c := compiler{Budget: &m.work, code: m.code}
	var alternatives []int32
	for _, a := range terms.follow(x) {
		if !terms.live(a.to) {
			continue
		}
		m.key = appendClass(append(m.key[:0], i.lo), a.class)
		read, known := m.readAt[string(m.key)]
		if !known {
			text, can := expression(a.class), true
			if i.lo == 0 {
				text = jsonClass(a.class)
			}
			if !m.parts.letters.all() {
				text, can = written.without(text)
			}
			if read = dead; can {
				read = c.expression(text, c.emit(instruction{op: opReturn}))
			}
			if m.work.err != nil {
				return false
			}
			m.readAt[string(m.key)] = read
			bytes += readBytes + 2*len(m.key)
		}
		if read == dead {
			continue
		}
		follows := instruction{op: opTerm, lo: i.lo, next: i.next, other: int32(a.to)}
		next, ok := m.termAt[follows]
		if a.to == emptyText {
			next, ok = i.next, true
		}
		if !ok {
			next = c.emit(follows)
			m.termAt[follows] = next
		}
		alternatives = append(alternatives, c.emit(instruction{op: opCall, next: next, other: read}))
	}
	if terms.nullable(x) {
		alternatives = append(alternatives, i.next)
	}
	first := c.choice(len(alternatives), func(i int) int32 { return alternatives[i] })
	m.code = c.code
	bytes += instructionBytes*(len(m.code)-before) + termBytes*(len(terms.nodes)-made)
	if m.work.err != nil || !m.owe(bytes) {
		return false
	}
	m.code[at] = instruction{op: opSplit, next: first, other: first}
	return true
}

// appendClass writes a class as a key.
func appendClass(b []byte, x class) []byte {
	for _, r := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.lo))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.hi))
	}
	return b
}

// push is a stack with an address on top of another one.
func (m *machine) push(address, below int32) int32 {
	f := frame{address, below, m.stacks[below].depth + 1}
	if i, ok := m.stackOf[f]; ok {
		return i
	}
	if int(f.depth) > m.limits.Depth {
		m.work.beyond("Depth", m.limits.Depth)
		return full
	}
	if !m.owe(stackBytes) {
		return full
	}
	m.stacks = append(m.stacks, f)
	m.stackOf[f] = int32(len(m.stacks) - 1)
	return int32(len(m.stacks) - 1)
}

// intern gives the state of m.scratch its number.
func (m *machine) intern(final bool) int32 {
	slices.SortFunc(m.scratch, func(a, b thread) int {
		if a.at != b.at {
			return int(a.at) - int(b.at)
		}
		return int(a.stack) - int(b.stack)
	})
	m.key = m.key[:0]
	if final {
		m.key = append(m.key, 1)
	}
	for _, t := range m.scratch {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(t.at))
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(t.stack))
	}
	if i, ok := m.stateOf[string(m.key)]; ok {
		return i
	}
	if !m.owe(stateBytes + threadBytes*len(m.scratch)) {
		return full
	}
	m.states = append(m.states, state{threads: slices.Clone(m.scratch), final: final})
	i := int32(len(m.states) - 1)
	m.stateOf[string(m.key)] = i
	return i
}

// step is the state after byte b: a state, dead or full. The caller holds mu for writing.
func (m *machine) step(at int32, b byte) int32 {
	if table := m.states[at].next; table != nil && table[b] != unknown {
		return table[b]
	}
	threads := m.states[at].threads
	if !m.work.spend(1 + len(threads)/4) {
		return full
	}
	m.after = m.after[:0]
	for _, t := range threads {
		if i := &m.code[t.at]; i.lo <= b && b <= i.hi {
			m.after = append(m.after, thread{i.next, t.stack})
		}
	}
	to := m.close(m.after)
	if to == full {
		return full
	}
	if m.states[at].next == nil { // also if the memory of the new state was that of the successors
		if !m.owe(successorsBytes) {
			return full
		}
		m.kept += successorsBytes
		table := new([256]int32)
		for i := range table {
			table[i] = unknown
		}
		m.states[at].next = table
	}
	m.states[at].next[b] = to
	return to
}

// only is the byte that every thread of a state waits for, if the text must go on with it.
func (m *machine) only(at int32) (b byte, ok bool) {
	s := &m.states[at]
	if s.final || len(s.threads) == 0 {
		return 0, false
	}
	b = m.code[s.threads[0].at].lo
	for _, t := range s.threads {
		if i := &m.code[t.at]; i.lo != b || i.hi != b {
			return 0, false
		}
	}
	return b, true
}

// threadSet is a set that is emptied at once, however large it was.
type threadSet struct {
	slots []threadSlot // a power of 2 of them, at most half of them taken
	round uint32
	n     int
}

type threadSlot struct {
	thread
	round uint32 // in which the slot was taken
}

func (s *threadSet) clear() {
	if s.round++; s.round == 0 {
		clear(s.slots)
		s.round = 1
	}
	s.n = 0
}

// add reports whether t is new.
func (s *threadSet) add(t thread) bool {
	if 2*s.n >= len(s.slots) {
		old := s.slots
		s.slots = make([]threadSlot, max(64, 2*len(old)))
		s.n = 0
		for _, o := range old {
			if o.round == s.round {
				s.add(o.thread)
			}
		}
	}
	mask := len(s.slots) - 1
	i := int((uint64(uint32(t.at))<<32|uint64(uint32(t.stack)))*0x9E3779B97F4A7C15>>32) & mask
	for ; s.slots[i].round == s.round; i = (i + 1) & mask {
		if s.slots[i].thread == t {
			return false
		}
	}
	s.slots[i] = threadSlot{t, s.round}
	s.n++
	return true
}
