package grammar

import "context"

// bodies is what free strings have in common in all schemas: how a JSON string goes on behind its opening quote, and
// which tokens stay in it. It is made once for a vocabulary. Where a text is in such a string, only the tokens with
// a closing quote must be looked for.
type bodies struct {
	next    [][256]int32 // by state of the string, 0 behind the opening quote: the state after a byte, dead or closed
	mask    []uint64     // the tokens that stay in the string, from state 0
	closing *trie        // the tokens that go through the closing quote
}

// closed is the successor behind the closing quote.
const closed = -4

// maxBodyStates bounds the states of a free string: between characters, in an escape, in a character of several bytes.
const maxBodyStates = 64

// newBodies follows the string of a schema that says nothing else about it. nil: it has too many states.
func newBodies(text [][]byte) *bodies {
	g, err := ParseSchema(nil, []byte(`{"type":"string"}`), SchemaOptions{})
	if err != nil {
		return nil
	}
	m, start := newMachine(context.Background(), g, nil, DefaultLimits(), func(int) bool { return true })
	if start < 0 {
		return nil
	}
	x := &bodies{mask: make([]uint64, (len(text)+63)/64)}
	states := []int32{m.step(start, '"')}
	number := map[int32]int32{states[0]: 0}
	for at := 0; at < len(states); at++ {
		var row [256]int32
		for b := range row {
			switch to := m.step(states[at], byte(b)); {
			case to == dead:
				row[b] = dead
			case to < 0 || len(states) > maxBodyStates:
				return nil
			case m.states[to].final:
				row[b] = closed
			default:
				n, ok := number[to]
				if !ok {
					n = int32(len(states))
					number[to], states = n, append(states, to)
				}
				row[b] = n
			}
		}
		x.next = append(x.next, row)
	}
	through := make([][]byte, len(text))
	for id, t := range text {
		if len(t) == 0 || len(t) > maxTokenBytes {
			continue
		}
		at := int32(0)
		for _, b := range t {
			if at = x.next[at][b]; at < 0 {
				break
			}
		}
		switch {
		case at >= 0:
			x.mask[id/64] |= 1 << (id % 64)
		case at == closed:
			through[id] = t
		}
	}
	x.closing = newTrie(through)
	return x
}

// holds reports whether a state is in a free string: it goes on with the same bytes, to states that do so too. The
// caller holds m.mu for writing; where a limit is reached m.work says so, and nothing is known.
func (x *bodies) holds(m *machine, state int32) bool {
	var at [maxBodyStates + 1]int32 // the machine's states, by the string's
	for i := range at {
		at[i] = unknown
	}
	at[0] = state
	for q := range x.next { // a state's number is found before its row is read
		from := at[q]
		if m.states[from].final || !m.work.spend(1) {
			return false
		}
		for b, want := range x.next[q] {
			to := int32(unknown)
			if next := m.states[from].next; next != nil {
				to = next[b]
			}
			if to == unknown {
				to = m.step(from, byte(b))
			}
			switch {
			case to == full, (to == dead) != (want == dead):
				return false
			case want < 0:
			case at[want] == unknown:
				at[want] = to
			case at[want] != to:
				return false
			}
		}
	}
	return true
}
