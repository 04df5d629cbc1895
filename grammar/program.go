package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// Grammar is a compiled grammar, or one that is made of others and compiled when it is bound. It is immutable and
// safe for concurrent use.
type Grammar struct {
	code    []instruction
	start   int32      // first instruction
	lazies  []lazy     // of opLazy
	orders  []order    // of opMembers
	made    expression // of a grammar made of others, which has no code yet; nil: it has
	ignored []string   // of a schema

	// What it was compiled from, for vocabularies that cannot write all of it.
	bodies   []expression
	first    int
	json     bool // the texts are JSON's
	controls bool // it names control tokens
}

// instruction is one step of a thread.
type instruction struct {
	op     opcode
	lo, hi uint8 // opByte: the accepted bytes
	next   int32 // opByte, opSplit: the following instruction; opCall: the return address
	other  int32 // opSplit: the second choice; opCall: the callee's first instruction
}

type opcode uint8

const (
	opByte    opcode = iota // accepts one byte lo … hi
	opSplit                 // continues at next and at other
	opCall                  // pushes next, continues at other
	opReturn                // pops an address; with an empty stack the text is complete
	opLazy                  // becomes instructions when a text gets there: a string of lazies[other], then next
	opTerm                  // the same of a term of the machine
	opMembers               // the same of the members of orders[other], then next
	opHad                   // the same behind some of them, hads[other] of the machine
)

// expression is what a rule's body is made of.
type expression interface{}

type (
	literal  string       // these bytes
	class    []runeRange  // one character of these ranges, ascending and disjoint; empty: nothing matches
	sequence []expression // one after another; empty: the empty text
	choice   []expression // one of them; empty: nothing matches
	rule     int          // the text of a rule, by its index
	repeat   struct {     // x, least to most times; most < 0: any number
		x           expression
		least, most int
	}
)

type runeRange struct{ lo, hi rune }

// compiler turns rules into instructions. It stops when its budget has failed.
type compiler struct {
	*Budget
	bodies   []expression
	code     []instruction
	starts   []int32            // by rule
	calls    []int32            // opCall instructions whose other is still a rule's index
	included map[*Grammar]int32 // where other grammars begin
	lazies   []lazy
	orders   []order
	open     []int // of them those whose addresses are still rules
	controls bool  // a control token was named
}

// compile makes a grammar of rules; the text is rule first. Where the budget fails its error counts.
func compile(b *Budget, bodies []expression, first int) *Grammar {
	c := &compiler{Budget: b, bodies: bodies, starts: make([]int32, len(bodies)), included: map[*Grammar]int32{}}
	for i, body := range bodies {
		end := c.emit(instruction{op: opReturn})
		c.starts[i] = c.expression(body, end)
	}
	if b.err != nil {
		return nil
	}
	for _, i := range c.calls {
		c.code[i].other = c.starts[c.code[i].other]
	}
	for _, i := range c.open {
		c.orders[i] = c.orders[i].moved(func(rule int32) int32 { return c.starts[rule] })
	}
	return &Grammar{code: slices.Clip(c.code), start: c.starts[first], lazies: c.lazies, orders: c.orders,
		bodies: bodies, first: first, controls: c.controls}
}

// emit appends an instruction and returns its address.
func (c *compiler) emit(i instruction) int32 {
	if len(c.code) >= c.limits.Instructions {
		c.beyond("Instructions", c.limits.Instructions)
	}
	if !c.take(instructionBytes) {
		return 0
	}
	c.code = append(c.code, i)
	return int32(len(c.code) - 1)
}

// instructionBytes is what an instruction takes, with the room that a growing slice has.
const instructionBytes = 2 * 12

// expression emits x so that what follows is instruction next, and returns x's first instruction. Code is emitted
// from the end of a text to its beginning, so that every address is known when it is needed.
func (c *compiler) expression(x expression, next int32) int32 {
	if !c.spend(1) {
		return 0
	}
	switch x := x.(type) {
	case literal:
		c.controls = c.controls || strings.Contains(string(x), controlMark)
		for i := len(x) - 1; i >= 0 && c.err == nil; i-- {
			next = c.emit(instruction{op: opByte, lo: x[i], hi: x[i], next: next})
		}
		return next
	case class:
		return c.class(x, next)
	case sequence:
		for i := len(x) - 1; i >= 0 && c.err == nil; i-- {
			next = c.expression(x[i], next)
		}
		return next
	case choice:
		return c.choice(len(x), func(i int) int32 { return c.expression(x[i], next) })
	case rule:
		i := c.emit(instruction{op: opCall, next: next, other: int32(x)})
		c.calls = append(c.calls, i)
		return i
	case repeat:
		return c.repeat(x, next)
	case *Grammar:
		return c.include(x, next)
	case seek:
		return c.seek(x, next)
	case lazy:
		c.lazies = append(c.lazies, x)
		return c.emit(instruction{op: opLazy, next: next, other: int32(len(c.lazies) - 1)})
	case anyOrder:
		c.orders = append(c.orders, newOrder(x))
		c.open = append(c.open, len(c.orders)-1)
		return c.emit(instruction{op: opMembers, next: next, other: int32(len(c.orders) - 1)})
	}
	panic(fmt.Sprintf("grammar: expression %T", x)) // a bug of this package: sources are parsed to the types above
}

// choice emits n alternatives. With none it is an instruction that accepts nothing.
func (c *compiler) choice(n int, alternative func(i int) int32) int32 {
	if n == 0 {
		return c.emit(instruction{op: opByte, lo: 1, hi: 0})
	}
	first := alternative(n - 1)
	for i := n - 2; i >= 0 && c.err == nil; i-- {
		a := alternative(i)
		first = c.emit(instruction{op: opSplit, next: a, other: first})
	}
	return first
}

func (c *compiler) repeat(x repeat, next int32) int32 {
	if x.least < 0 || x.most >= 0 && x.most < x.least {
		c.fail(fmt.Errorf("%w: %d to %d repetitions", ErrGrammar, x.least, x.most))
	}
	first := next
	if x.most < 0 { // any number: a split that leads into x and back
		loop := c.emit(instruction{op: opSplit, other: next})
		if c.err != nil {
			return 0
		}
		body := c.expression(x.x, loop)
		c.code[loop].next = body
		first = loop
	} else {
		for i := x.least; i < x.most && c.err == nil; i++ { // (x (x (x)?)?)?
			body := c.expression(x.x, first)
			first = c.emit(instruction{op: opSplit, next: body, other: next})
		}
	}
	for i := 0; i < x.least && c.err == nil; i++ {
		before := len(c.code)
		first = c.expression(x.x, first)
		if len(c.code) == before { // x is the empty text: once is as good as often
			break
		}
	}
	return first
}

// leftRecursion refuses rules that can reach themselves without reading a byte: the machine would push return
// addresses for ever. It takes time in proportion to the rules.
func leftRecursion(b *Budget, name func(rule int) string, bodies []expression) error {
	nullable := nullableRules(b, bodies)
	// first[i] lists the rules that rule i may call before it reads a byte.
	first := make([][]int, len(bodies))
	for i, body := range bodies {
		var visit func(x expression) bool // reports whether what follows x may be reached without reading a byte
		visit = func(x expression) bool {
			if !b.spend(1) {
				return false
			}
			switch x := x.(type) {
			case literal:
				return x == ""
			case sequence:
				for _, part := range x {
					if !visit(part) {
						return false
					}
				}
				return true
			case choice:
				empty := false
				for _, part := range x {
					empty = visit(part) || empty
				}
				return empty
			case rule:
				first[i] = append(first[i], int(x))
				return nullable[x]
			case repeat:
				return visit(x.x) || x.least == 0
			case anyOrder:
				empty := true
				for _, p := range x.list {
					empty = empty && !p.required
					visit(p.body)
				}
				if x.other != nil {
					visit(x.other)
				}
				return empty
			}
			return false
		}
		visit(body)
	}
	if b.err != nil {
		return b.err
	}
	const unseen, open, done = 0, 1, 2
	mark := make([]uint8, len(bodies))
	type frame struct{ rule, at int }
	for root := range bodies {
		if mark[root] != unseen {
			continue
		}
		stack := []frame{{root, 0}} // not the goroutine's: a hostile source may chain all its rules
		mark[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.at == len(first[f.rule]) {
				mark[f.rule] = done
				stack = stack[:len(stack)-1]
				continue
			}
			to := first[f.rule][f.at]
			f.at++
			switch mark[to] {
			case open:
				return fmt.Errorf("%w: rule %.60q is left-recursive: it calls itself before it reads a character",
					ErrGrammar, name(to))
			case unseen:
				mark[to] = open
				stack = append(stack, frame{to, 0})
			}
		}
	}
	return nil
}

// nullableRules tells which rules have the empty text. Each part of a rule waits for as many of its own parts as it
// needs to be empty (a choice for one, a sequence for all), and tells the part around it; so every part is visited
// once.
func nullableRules(b *Budget, bodies []expression) []bool {
	type part struct {
		around int // the part around it; ^rule for a whole rule
		needs  int // parts that must still be found empty
	}
	var parts []part
	var empty []int                        // parts that are, and have not told it yet
	mentions := make([][]int, len(bodies)) // by rule
	var add func(x expression, around int)
	add = func(x expression, around int) {
		if !b.take(32) {
			return
		}
		at := len(parts)
		parts = append(parts, part{around, 1})
		inside := func(list []expression) {
			for _, x := range list {
				add(x, at)
			}
		}
		switch x := x.(type) {
		case literal:
			if x == "" {
				empty = append(empty, at)
			}
		case sequence:
			if parts[at].needs = len(x); len(x) == 0 {
				empty = append(empty, at)
			}
			inside(x)
		case choice:
			inside(x)
		case rule:
			mentions[x] = append(mentions[x], at)
		case repeat:
			if x.least == 0 {
				empty = append(empty, at)
				break
			}
			add(x.x, at)
		case anyOrder:
			if !slices.ContainsFunc(x.list, func(p property) bool { return p.required }) {
				empty = append(empty, at)
			}
		}
	}
	for i, body := range bodies {
		add(body, ^i)
	}
	nullable := make([]bool, len(bodies))
	for len(empty) > 0 && b.spend(1) {
		around := parts[empty[len(empty)-1]].around
		empty = empty[:len(empty)-1]
		if around < 0 {
			nullable[^around] = true
			empty = append(empty, mentions[^around]...)
		} else if parts[around].needs--; parts[around].needs == 0 {
			empty = append(empty, around)
		}
	}
	return nullable
}
