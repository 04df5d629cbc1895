package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// The functions of this file make grammars of grammars: of tool calls, whose marks are fixed and whose arguments
// follow a schema, and of texts that are free up to a mark. An error of a part is found by [Grammar.Bind].

// ControlToken is how a text for [Text], [Until] or [Without] spells a control token, which has no bytes: by its name
// in the vocabulary, such as <|message|>. The grammar then means that token, and never its name written out in other
// tokens.
func ControlToken(name string) string { return controlMark + name + controlMark }

// controlMark encloses the names of control tokens among a grammar's bytes. No UTF-8 text has this byte, and no other
// token with it is allowed.
const controlMark = "\xff"

// Text is the grammar of one fixed text.
func Text(s string) *Grammar { return made(literal(s)) }

// Sequence is one text of each grammar, one after the other.
func Sequence(parts ...*Grammar) *Grammar {
	s := make(sequence, len(parts))
	for i, g := range parts {
		s[i] = g
	}
	return made(s)
}

// Choice is a text of one of the grammars.
func Choice(parts ...*Grammar) *Grammar {
	c := make(choice, len(parts))
	for i, g := range parts {
		c[i] = g
	}
	return made(c)
}

// Repeat is least to most texts of a grammar; most < 0 is any number.
func Repeat(g *Grammar, least, most int) *Grammar {
	return made(repeat{g, least, most})
}

// Until is any text that ends with the first of the marks in it: the text up to the beginning of something, which
// sleeps until then. There must be a mark, and none may be empty. Bytes that are not UTF-8 are allowed too, and
// control tokens.
func Until(marks ...string) *Grammar { return made(seek{marks, false}) }

// Without is any text in which none of the marks occurs.
func Without(marks ...string) *Grammar { return made(seek{marks, true}) }

// made is a grammar that is compiled when it is bound: what is made of it again costs nothing before.
func made(x expression) *Grammar { return &Grammar{made: x} }

// compiled is g with its code, without what an alphabet cannot write.
func (g *Grammar) compiled(b *Budget, letters *alphabet) (*Grammar, error) {
	if g == nil {
		return nil, fmt.Errorf("%w: there is none", ErrGrammar)
	}
	r := newRestriction(b, letters)
	switch g = r.grammar(g); {
	case b.err != nil:
		return nil, b.err
	case g == nil && r.missing != "":
		return nil, fmt.Errorf("%w: the vocabulary cannot write it: no token has %.40q", ErrGrammar, r.missing)
	case g == nil:
		return nil, fmt.Errorf("%w: it allows no text at all", ErrGrammar)
	}
	return g, nil
}

// seek is the expression of Until and Without.
type seek struct {
	marks   []string
	without bool
}

// include emits a call of another grammar, whose code is there once.
func (c *compiler) include(g *Grammar, next int32) int32 {
	if g == nil {
		c.fail(fmt.Errorf("%w: a part is missing", ErrGrammar))
		return 0
	}
	c.controls = c.controls || g.controls
	start, ok := c.included[g]
	if !ok {
		if g.made != nil {
			end := c.emit(instruction{op: opReturn})
			start = c.expression(g.made, end)
		} else {
			offset, lazies := int32(len(c.code)), int32(len(c.lazies))
			c.lazies = append(c.lazies, g.lazies...)
			orders := int32(len(c.orders))
			for _, o := range g.orders {
				c.orders = append(c.orders, o.moved(func(at int32) int32 { return at + offset }))
			}
			for _, i := range g.code {
				i.next += offset
				switch i.op {
				case opSplit, opCall:
					i.other += offset
				case opLazy:
					i.other += lazies
				case opMembers:
					i.other += orders
				}
				c.emit(i)
			}
			start = offset + g.start
		}
		c.included[g] = start
	}
	return c.emit(instruction{op: opCall, next: next, other: start})
}

// maxMarks bounds the bytes of the marks of one Until: each is a state, which takes seekBytes while it is made.
const (
	maxMarks  = 1 << 10
	seekBytes = 1 << 11
)

// seek emits the automaton of Aho and Corasick (1975) over the marks, one split for each of its states, which leads
// to the ranges of bytes that go on to the same state.
func (c *compiler) seek(x seek, next int32) int32 {
	size := 0
	for _, m := range x.marks {
		size += len(m)
		c.controls = c.controls || strings.Contains(m, controlMark)
	}
	if len(x.marks) == 0 || slices.Contains(x.marks, "") || size > maxMarks {
		c.fail(fmt.Errorf("%w: %d marks of %d bytes in all: there must be one, none empty, of %d bytes at most",
			ErrGrammar, len(x.marks), size, maxMarks))
	}
	if !c.take(size * seekBytes) {
		return 0
	}
	type node struct {
		to     [256]int32
		fail   int32
		end    bool // a mark ends here
		inside bool // of a control token's name
	}
	nodes := []node{{}, {inside: true}} // 0 is the root; 0 in to: no edge yet. 1 is inside of a name that begins no mark
	mark := int(controlMark[0])
	for b := range 256 {
		if b != mark {
			nodes[1].to[b] = 1
		}
	}
	for _, m := range x.marks {
		at := int32(0)
		for _, b := range []byte(m) {
			if nodes[at].to[b] == 0 {
				nodes = append(nodes, node{inside: nodes[at].inside != (int(b) == mark)})
				nodes[at].to[b] = int32(len(nodes) - 1)
			}
			at = nodes[at].to[b]
		}
		nodes[at].end = true
	}
	var queue []int32
	for _, to := range nodes[0].to {
		if to != 0 {
			queue = append(queue, to)
		}
	}
	if to := nodes[0].to[mark]; to != 0 {
		nodes[to].fail = 1
	} else {
		nodes[0].to[mark] = 1
	}
	for i := 0; i < len(queue); i++ { // breadth first: a node's fail is complete before the node
		n := queue[i]
		nodes[n].end = nodes[n].end || nodes[nodes[n].fail].end
		for b := range 256 {
			if to := nodes[n].to[b]; to != 0 {
				nodes[to].fail = nodes[nodes[n].fail].to[b]
				queue = append(queue, to)
			} else {
				nodes[n].to[b] = nodes[nodes[n].fail].to[b]
			}
		}
	}
	at := make([]int32, len(nodes))
	for i := range nodes {
		at[i] = c.emit(instruction{op: opSplit})
	}
	for i := range nodes {
		if nodes[i].end || c.err != nil {
			continue // where a mark is complete the text goes on with what follows, or must not get
		}
		var ranges []instruction
		for b, to := range nodes[i].to {
			target := at[to]
			if nodes[to].end {
				if x.without {
					continue
				}
				target = next
			}
			if n := len(ranges); n > 0 && ranges[n-1].next == target && int(ranges[n-1].hi) == b-1 {
				ranges[n-1].hi = byte(b)
			} else {
				ranges = append(ranges, instruction{op: opByte, lo: byte(b), hi: byte(b), next: target})
			}
		}
		first := c.choice(len(ranges), func(i int) int32 { return c.emit(ranges[i]) })
		other := first
		if x.without && !nodes[i].inside {
			other = next // the text may end here
		}
		if c.err == nil {
			c.code[at[i]] = instruction{op: opSplit, next: first, other: other}
		}
	}
	return at[0]
}
