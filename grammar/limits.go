package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// ErrGrammar is wrapped by every error about a grammar's or a schema's source. The message says where.
var ErrGrammar = errors.New("grammar")

// ErrLimit is wrapped by errors about one of the [Limits], of a source or of a text under it. The message names the
// field and its value.
var ErrLimit = fmt.Errorf("%w: limit exceeded", ErrGrammar)

// Limits bound what sources and the texts under them may cost. A field that is 0 has its default, see
// docs/LIMITS.md. What exceeds one is refused with an error that wraps [ErrLimit].
type Limits struct {
	Steps        int // of one compilation, and of one mask: instructions, comparisons, nodes of the vocabulary's trie
	Bytes        int // that one compilation reads and makes: its source, rules and program
	Memory       int // bytes that all grammars of a vocabulary keep: programs, states, masks
	Rules        int // of a grammar; a part of a schema that is referred to is a rule
	Alternatives int // of one choice, enum, anyOf or oneOf
	Repetitions  int // of one {m,n}, minLength, maxItems and their like
	Nesting      int // of parentheses or repetition marks in each other, and of a schema's levels
	References   int // $refs that lead to one another in front of a schema
	Digits       int // of a number in a schema, with its exponent written out
	Instructions int // of a program
	Threads      int // places of the program that a text stands at, or has passed, between two bytes
	Depth        int // rules inside of each other that a text is in: its nesting
}

// withDefaults fills in what is 0.
func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Steps, 16 << 20}, {&l.Bytes, 64 << 20}, {&l.Memory, 48 << 20}, {&l.Rules, 1 << 16}, {&l.Alternatives, 1 << 14},
		{&l.Repetitions, 1 << 16}, {&l.Nesting, 256}, {&l.References, 32}, {&l.Digits, 512}, {&l.Instructions, 1 << 20},
		{&l.Threads, 1 << 16}, {&l.Depth, 1 << 12},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}

// DefaultLimits are what the zero value of [Limits] stands for.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

// exceeded is the error of a limit.
func exceeded(limit string, most int) error {
	return fmt.Errorf("%w: %s, at most %d", ErrLimit, limit, most)
}

// Budget is what one piece of work may still cost: steps and bytes, counted against [Limits], and the context that
// ends it. It yields the processor after each short slice of steps, so that passes of a model are not held up. Parts
// of the work share one: several schemas of a request, what is made of them, and binding it. A Budget belongs to one
// goroutine.
type Budget struct {
	ctx    context.Context
	limits Limits
	slice  int // steps left until ctx is looked at
	steps  int // left behind the slice
	bytes  int // left
	err    error
}

// sliceSteps is how many steps are taken between two looks at the context: about 0.1 ms.
const sliceSteps = 1 << 12

// NewBudget gives all that the limits allow.
func NewBudget(ctx context.Context, l Limits) *Budget {
	b := &Budget{}
	b.renew(ctx, l.withDefaults())
	return b
}

// renew makes b whole again. The limits are complete.
func (b *Budget) renew(ctx context.Context, l Limits) {
	slice := min(sliceSteps, l.Steps)
	*b = Budget{ctx: ctx, limits: l, slice: slice, steps: l.Steps - slice, bytes: l.Bytes}
}

// readSteps is how many bytes that are read count as a step.
const readSteps = 64

// Read counts n bytes that are read beside a grammar's own source, such as parts of a schema that are looked up. The
// error wraps [ErrLimit], or is the context's. A nil budget has no end.
func (b *Budget) Read(n int) error {
	if b == nil {
		return nil
	}
	b.take(n)
	b.spend(n / readSteps)
	return b.err
}

// orDefault is b; for nil the default limits without an end.
func (b *Budget) orDefault() *Budget {
	if b == nil {
		return NewBudget(context.Background(), Limits{})
	}
	return b
}

// spend counts n steps. False: they are not left, or the context has ended, or the budget failed before; err says
// which.
func (b *Budget) spend(n int) bool {
	b.slice -= n
	return b.slice >= 0 || b.next()
}

// next begins a slice of steps.
func (b *Budget) next() bool {
	if b.err != nil {
		b.slice = -1
		return false
	}
	if err := b.ctx.Err(); err != nil {
		return b.fail(err)
	}
	runtime.Gosched()
	more := min(sliceSteps-b.slice, b.steps)
	b.slice, b.steps = b.slice+more, b.steps-more
	if b.slice < 0 {
		return b.beyond("Steps", b.limits.Steps)
	}
	return true
}

// take counts n bytes and a step.
func (b *Budget) take(n int) bool {
	if b.bytes -= n; b.bytes < 0 {
		return b.beyond("Bytes", b.limits.Bytes)
	}
	return b.spend(1)
}

// beyond ends the budget with the error of a limit.
func (b *Budget) beyond(limit string, most int) bool {
	if b.err != nil {
		return false
	}
	return b.fail(exceeded(limit, most))
}

// fail ends the budget; the first error counts.
func (b *Budget) fail(err error) bool {
	if b.err == nil {
		b.err = err
	}
	b.slice = -1
	return false
}
