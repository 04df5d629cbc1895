package grammar

import "slices"

// anyOrder is the expression of members in any order: each listed one at most once, those that are required, and any
// number of others, with commas between them. Its instructions are made as a text gets there, for each set of members
// that a text has had: all sets would be too many.
type anyOrder struct {
	list  []property // whose bodies are rules
	comma rule
	other expression // a rule; nil: there are no others
}

// order is an anyOrder in a program: where its parts begin. As long as it is compiled these are rules.
type order struct {
	members      []orderedMember
	comma, other int32 // other -1: there are no others
}

type orderedMember struct {
	start    int32
	required bool
}

// newOrder is x with rules for addresses.
func newOrder(x anyOrder) order {
	o := order{members: make([]orderedMember, len(x.list)), comma: int32(x.comma), other: -1}
	for i, p := range x.list {
		o.members[i] = orderedMember{int32(p.body.(rule)), p.required}
	}
	if r, ok := x.other.(rule); ok {
		o.other = int32(r)
	}
	return o
}

// moved is o with other addresses.
func (o order) moved(to func(int32) int32) order {
	o.members = slices.Clone(o.members)
	for i := range o.members {
		o.members[i].start = to(o.members[i].start)
	}
	if o.comma = to(o.comma); o.other >= 0 {
		o.other = to(o.other)
	}
	return o
}

// had is where a text stands in an order: the members that it has had, a bit each.
type had struct {
	order int32
	set   string
	any   bool  // there was a member, listed or not
	next  int32 // the instruction behind the members
}

func (h had) has(i int) bool { return h.set[i/8]>>(i%8)&1 == 1 }

// with is h and member i; -1 is another one.
func (h had) with(i int) had {
	if h.any = true; i >= 0 {
		set := []byte(h.set)
		set[i/8] |= 1 << (i % 8)
		h.set = string(set)
	}
	return h
}

// expandMembers puts instructions in the place of an opMembers or opHad: a call of each member that a text has not had,
// then the place behind it; and the next instruction, if no required member is missing.
func (m *machine) expandMembers(at int32) bool {
	i, before, bytes := m.code[at], len(m.code), 0
	h := had{order: i.other, next: i.next}
	if i.op == opHad {
		h = m.hads[i.other]
	} else {
		h.set = string(make([]byte, (len(m.orders[i.other].members)+7)/8))
	}
	o := &m.orders[h.order]
	c := compiler{Budget: &m.work, code: m.code}
	var calls []int32
	call := func(start int32, after had) {
		to, ok := m.hadAt[after]
		if !ok {
			m.hads = append(m.hads, after)
			to = c.emit(instruction{op: opHad, other: int32(len(m.hads) - 1)})
			m.hadAt[after] = to
			bytes += hadBytes + 2*len(after.set)
		}
		calls = append(calls, c.emit(instruction{op: opCall, next: to, other: start}))
	}
	complete := true
	for n, x := range o.members {
		if !h.has(n) {
			complete = complete && !x.required
			call(x.start, h.with(n))
		}
	}
	if o.other >= 0 {
		call(o.other, h.with(-1))
	}
	first := c.choice(len(calls), func(i int) int32 { return calls[i] })
	if h.any {
		first = c.emit(instruction{op: opCall, next: first, other: o.comma})
	}
	if complete {
		first = c.emit(instruction{op: opSplit, next: first, other: h.next})
	}
	m.code = c.code
	if m.work.err != nil || !m.owe(instructionBytes*(len(m.code)-before)+bytes) {
		return false
	}
	m.code[at] = instruction{op: opSplit, next: first, other: first}
	return true
}

// hadBytes is what a had takes in memory, with its place in a map.
const hadBytes = 128

// anyOrder is x without members that have no text; false: a required one has none.
func (p *pruning) anyOrder(x anyOrder) (expression, bool) {
	var list []property
	var required []expression
	for _, m := range x.list {
		switch {
		case p.ends[m.body.(rule)]:
			list = append(list, m)
			if m.required {
				required = append(required, m.body)
			}
		case m.required:
			return nil, false
		}
	}
	if r, ok := x.other.(rule); ok && !p.ends[r] {
		x.other = nil
	}
	if x.list = list; p.ends[x.comma] {
		return x, true
	}
	switch len(required) { // one member at most
	case 0:
		one := choice{sequence{}}
		for _, m := range list {
			one = append(one, m.body)
		}
		if x.other != nil {
			one = append(one, x.other)
		}
		return one, true
	case 1:
		return required[0], true
	}
	return nil, false
}
