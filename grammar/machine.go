package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// ErrLimit: a text drove the machine beyond its limits, for instance by nesting brackets without end.
var ErrLimit = fmt.Errorf("%w: limit reached", ErrGrammar)

// Limits of a running machine.
const (
	maxStates  = 1 << 18 // distinct states; each has up to 1 KiB of successors
	maxStacks  = 1 << 20 // distinct stacks
	maxThreads = 1 << 14 // threads of one state; ambiguous grammars need many
	maxDepth   = 1 << 12 // return addresses of one stack: nesting of the text
)

// machine runs a grammar over bytes. It is safe for concurrent use.
type machine struct {
	code []instruction

	mu       sync.RWMutex
	stacks   []frame         // by stack; 0 is the empty one
	stackOf  map[frame]int32 // stacks' inverse
	states   []state
	stateOf  map[string]int32 // by its threads' bytes
	scratch  []thread
	visited  map[thread]struct{}
	pending  []thread
	key      []byte
	overflow bool // a limit was reached in the closure at work
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
	full    = -3 // beyond the machine's limits
)

func newMachine(g *Grammar) (*machine, int32) {
	m := &machine{code: g.code, stacks: []frame{{}}, stackOf: map[frame]int32{}, stateOf: map[string]int32{}, visited: map[thread]struct{}{}}
	return m, m.close([]thread{{g.start, 0}})
}

// close follows all instructions that read nothing and returns the state of the threads that remain.
func (m *machine) close(from []thread) int32 {
	clear(m.visited)
	m.overflow = false
	m.scratch = m.scratch[:0]
	final := false
	m.pending = append(m.pending[:0], from...)
	add := func(at, stack int32) { m.pending = append(m.pending, thread{at, stack}) }
	for len(m.pending) > 0 {
		t := m.pending[len(m.pending)-1]
		m.pending = m.pending[:len(m.pending)-1]
		if _, ok := m.visited[t]; ok {
			continue
		}
		m.visited[t] = struct{}{}
		if len(m.visited) > 4*maxThreads {
			m.overflow = true
		}
		if m.overflow {
			return full
		}
		switch i := &m.code[t.at]; i.op {
		case opByte:
			if i.lo <= i.hi {
				m.scratch = append(m.scratch, t)
			}
		case opSplit:
			add(i.next, t.stack)
			add(i.other, t.stack)
		case opCall:
			stack := t.stack
			if m.code[i.next].op != opReturn { // a call in tail position returns where its caller does
				stack = m.push(i.next, stack)
			}
			add(i.other, stack)
		case opReturn:
			if t.stack == 0 {
				final = true
			} else {
				add(m.stacks[t.stack].address, m.stacks[t.stack].below)
			}
		}
	}
	if len(m.scratch) == 0 && !final {
		return dead
	}
	if len(m.scratch) > maxThreads {
		return full
	}
	return m.intern(final)
}

func (m *machine) push(address, below int32) int32 {
	f := frame{address, below, m.stacks[below].depth + 1}
	if i, ok := m.stackOf[f]; ok {
		return i
	}
	if len(m.stacks) >= maxStacks || f.depth > maxDepth {
		m.overflow = true
		return 0
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
	if len(m.states) >= maxStates {
		return full
	}
	m.states = append(m.states, state{threads: slices.Clone(m.scratch), final: final})
	i := int32(len(m.states) - 1)
	m.stateOf[string(m.key)] = i
	return i
}

// step is the state after byte b: a state, dead or full. The caller holds mu for writing.
func (m *machine) step(at int32, b byte) int32 {
	s := &m.states[at]
	if s.next == nil {
		s.next = new([256]int32)
		for i := range s.next {
			s.next[i] = unknown
		}
	}
	table := s.next
	if table[b] != unknown {
		return table[b]
	}
	var after []thread
	for _, t := range s.threads {
		if i := &m.code[t.at]; i.lo <= b && b <= i.hi {
			after = append(after, thread{i.next, t.stack})
		}
	}
	to := int32(dead)
	if len(after) > 0 {
		to = m.close(after)
	}
	table[b] = to // s may have moved
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
