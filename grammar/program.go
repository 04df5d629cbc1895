package grammar

import (
	"errors"
	"fmt"
	"slices"
)

// ErrGrammar is wrapped by every error about a grammar's or a schema's source. The message says where.
var ErrGrammar = errors.New("grammar")

// Limits of a compiled grammar. They bound memory and time on hostile sources; real schemas stay far below.
const (
	maxInstructions = 1 << 20 // 12 bytes each
	maxRepeat       = 1 << 16 // of one {m,n}; the product with the repeated part is bounded by maxInstructions
	maxNesting      = 256     // parentheses of a source and levels of a schema
)

// Grammar is a compiled grammar. It is immutable and safe for concurrent use.
type Grammar struct {
	code  []instruction
	start int32 // first instruction
	err   error // of a grammar that was made of others: Bind returns it
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
	opByte   opcode = iota // accepts one byte lo … hi
	opSplit                // continues at next and at other
	opCall                 // pushes next, continues at other
	opReturn               // pops an address; with an empty stack the text is complete
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

// compiler turns rules into instructions.
type compiler struct {
	names  []string // of rules, for errors
	bodies []expression
	code   []instruction
	starts []int32 // by rule
	calls  []int32 // opCall instructions whose other is still a rule's index

	included map[*Grammar]int32 // where the code of other grammars begins
	err      error
}

// compile makes a grammar of rules; the text is rule first.
func compile(names []string, bodies []expression, first int) (*Grammar, error) {
	if err := leftRecursion(names, bodies); err != nil {
		return nil, err
	}
	c := &compiler{names: names, bodies: bodies, starts: make([]int32, len(bodies))}
	for i, b := range bodies {
		end := c.emit(instruction{op: opReturn})
		c.starts[i] = c.expression(b, end)
	}
	if c.err != nil {
		return nil, c.err
	}
	for _, i := range c.calls {
		c.code[i].other = c.starts[c.code[i].other]
	}
	return &Grammar{code: c.code, start: c.starts[first]}, nil
}

func (c *compiler) emit(i instruction) int32 {
	if len(c.code) >= maxInstructions {
		if c.err == nil {
			c.err = fmt.Errorf("%w: it compiles to more than %d instructions; lower the bounds of its repetitions", ErrGrammar, maxInstructions)
		}
		return 0
	}
	c.code = append(c.code, i)
	return int32(len(c.code) - 1)
}

// expression emits x so that what follows is instruction next, and returns x's first instruction. Code is emitted from the end
// of a text to its beginning, so that every address is known when it is needed.
func (c *compiler) expression(x expression, next int32) int32 {
	if c.err != nil {
		return 0
	}
	switch x := x.(type) {
	case literal:
		for i := len(x) - 1; i >= 0; i-- {
			next = c.emit(instruction{op: opByte, lo: x[i], hi: x[i], next: next})
		}
		return next
	case class:
		return c.class(x, next)
	case sequence:
		for _, part := range slices.Backward(x) {
			next = c.expression(part, next)
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
	}
	panic(fmt.Sprintf("grammar: expression %T", x)) // a bug of this package: sources are parsed to the types above
}

// choice emits n alternatives. With none it is an instruction that accepts nothing.
func (c *compiler) choice(n int, alternative func(i int) int32) int32 {
	if n == 0 {
		return c.emit(instruction{op: opByte, lo: 1, hi: 0})
	}
	first := alternative(n - 1)
	for i := n - 2; i >= 0; i-- {
		a := alternative(i)
		first = c.emit(instruction{op: opSplit, next: a, other: first})
	}
	return first
}

func (c *compiler) repeat(x repeat, next int32) int32 {
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

// leftRecursion refuses rules that can reach themselves without reading a byte: the machine would push return addresses for ever.
func leftRecursion(names []string, bodies []expression) error {
	nullable := make([]bool, len(bodies))
	var empty func(x expression) bool
	empty = func(x expression) bool {
		switch x := x.(type) {
		case literal:
			return x == ""
		case sequence:
			for _, part := range x {
				if !empty(part) {
					return false
				}
			}
			return true
		case choice:
			return slices.ContainsFunc(x, empty)
		case rule:
			return nullable[x]
		case repeat:
			return x.least == 0 || empty(x.x)
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for i, b := range bodies {
			if !nullable[i] && empty(b) {
				nullable[i], changed = true, true
			}
		}
	}
	// first[i] lists the rules that rule i may call before it reads a byte.
	first := make([][]int, len(bodies))
	for i, b := range bodies {
		var visit func(x expression) bool // reports whether what follows x may be reached without reading a byte
		visit = func(x expression) bool {
			switch x := x.(type) {
			case sequence:
				for _, part := range x {
					if !visit(part) {
						return false
					}
				}
			case choice:
				for _, part := range x {
					visit(part)
				}
			case rule:
				first[i] = append(first[i], int(x))
			case repeat:
				visit(x.x)
			}
			return empty(x)
		}
		visit(b)
	}
	const unseen, open, done = 0, 1, 2
	mark := make([]uint8, len(bodies))
	type frame struct{ rule, at int }
	for root := range bodies {
		if mark[root] != unseen {
			continue
		}
		stack := []frame{{root, 0}} // not the goroutine's: a hostile source may chain a million rules
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
				return fmt.Errorf("%w: rule %q is left-recursive: it calls itself before it reads a character", ErrGrammar, names[to])
			case unseen:
				mark[to] = open
				stack = append(stack, frame{to, 0})
			}
		}
	}
	return nil
}
