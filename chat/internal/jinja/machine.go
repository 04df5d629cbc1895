package jinja

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Limits bound the work of one rendering. Zero fields have the defaults. An error that wraps [ErrLimit] names the one
// that was reached.
type Limits struct {
	// Steps are expressions and statements evaluated, items gone through, each 128 bytes that are compared or
	// searched, and each 4 bytes that are read character by character; default 5 million.
	Steps int
	// Bytes are those of all texts and lists made on the way, whether or not they are still there; default 64 MiB.
	// With the origins of its bytes a text takes twice its length in memory.
	Bytes int
	// Depth is that of nested evaluation; default 4000.
	Depth int
	// Output is the bytes of the rendered text; default 16 MiB.
	Output int
}

// DefaultLimits are what the zero value of [Limits] stands for.
func DefaultLimits() Limits {
	return Limits{Steps: 5_000_000, Bytes: 64 << 20, Depth: 4000, Output: 16 << 20}
}

const (
	stepReads = 128     // bytes that a step compares or searches
	stepChars = 4       // bytes that a step reads character by character
	stepsAway = 1 << 12 // steps between two looks at whether the rendering was cancelled
)

// Context is what a template sees.
type Context struct {
	Vars   *Dict            // variables by name, nil for none
	Clock  func() time.Time // for strftime_now; nil: the function is not there
	Limits Limits
}

// Render evaluates the template. Errors wrap [ErrRaised], [ErrRuntime], [ErrLimit] or, where ctx has ended, its error,
// and are of type *[Error].
func (t *Template) Render(ctx context.Context, c Context) (Text, error) {
	return t.render(ctx, c, &machine{})
}

func (t *Template) render(ctx context.Context, c Context, m *machine) (text Text, err error) {
	defer catch(&err)
	*m = machine{ctx: ctx, limits: c.Limits, clock: c.Clock, filters: filterTable, tests: testTable}
	d := DefaultLimits()
	for _, l := range []struct {
		value    *int
		standard int
	}{
		{&m.limits.Steps, d.Steps}, {&m.limits.Bytes, d.Bytes},
		{&m.limits.Depth, d.Depth}, {&m.limits.Output, d.Output},
	} {
		if *l.value <= 0 {
			*l.value = l.standard
		}
	}
	globals := &scope{vars: map[string]Value{}}
	for name, f := range globalTable {
		globals.vars[name] = &function{name: name, call: f}
	}
	if c.Clock == nil {
		delete(globals.vars, "strftime_now")
	}
	if c.Vars != nil {
		for i, k := range c.Vars.keys {
			if k, ok := k.(Text); ok {
				globals.vars[k.s] = c.Vars.values[i]
			}
		}
	}
	m.top = m.begin(&scope{vars: map[string]Value{}, up: globals}, t.unset)
	m.unset = t.unset
	out := m.builder()
	out.most = m.limits.Output
	m.alive()
	m.run(t.body, m.top, out)
	return out.done(), nil
}

// machine is the state of one rendering.
type machine struct {
	ctx                context.Context
	limits             Limits
	line               int
	steps, depth, made int
	clock              func() time.Time
	top                *scope
	unset              []string // of top
	filters            map[string]filterFunc
	tests              map[string]testFunc
}

// scope holds the variables of the template, of one pass through a loop, of
// one call of a macro and so on.
type scope struct {
	vars map[string]Value
	up   *scope
}

func (sc *scope) inner() *scope { return &scope{up: sc} }

func (sc *scope) set(name string, v Value) {
	if sc.vars == nil {
		sc.vars = make(map[string]Value, 2)
	}
	sc.vars[name] = v
}

func (sc *scope) get(name string) (Value, bool) {
	for ; sc != nil; sc = sc.up {
		if v, ok := sc.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// longestError is the most bytes of an error's text, which may quote a value.
const longestError = 4096

// fail stops the rendering.
func (m *machine) fail(kind error, format string, a ...any) {
	panic(&Error{Line: m.line, Text: clip(fmt.Sprintf(format, a...), longestError), Kind: kind})
}

// clip cuts a long text for an error.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// step counts n units of work.
func (m *machine) step(n int) {
	if n < 0 || n > m.limits.Steps-m.steps {
		m.fail(ErrLimit, "more than %d steps", m.limits.Steps)
	}
	before := m.steps
	if m.steps += n; m.steps/stepsAway != before/stepsAway {
		m.alive()
	}
}

// alive stops the rendering if it was cancelled.
func (m *machine) alive() {
	if err := m.ctx.Err(); err != nil {
		m.fail(err, "cancelled")
	}
}

const (
	valueBytes = 32 // an item of a list, with a number that stands in it
	textBytes  = 64 // an item that is a part of a text
	listBytes  = 64 // a list, a function, an iterator, besides its items
	entryBytes = 4 * valueBytes
	scopeBytes = 512 // the variables that a macro or loop keeps
)

// spend counts n bytes made, before they are.
func (m *machine) spend(n int) {
	if n < 0 || n > m.limits.Bytes-m.made {
		m.fail(ErrLimit, "more than %d bytes of texts and lists", m.limits.Bytes)
	}
	m.made += n
}

// read counts the work of comparing, searching or copying n bytes.
func (m *machine) read(n int) { m.step(n / stepReads) }

// chars counts the work of going through n bytes character by character.
func (m *machine) chars(n int) { m.step(n / stepChars) }

// operands counts the work of reading what a filter, a test or a method is given: no call goes uncounted, whatever it
// does with its texts.
func (m *machine) operands(v Value, a args) {
	m.step(1 + len(a.pos) + len(a.values))
	texts := func(v Value) {
		if t, ok := v.(Text); ok {
			m.read(len(t.s))
		}
	}
	texts(v)
	for _, v := range a.pos {
		texts(v)
	}
	for _, v := range a.values {
		texts(v)
	}
}

func (m *machine) enter() {
	if m.depth++; m.depth > m.limits.Depth {
		m.fail(ErrLimit, "evaluation nested more than %d deep", m.limits.Depth)
	}
}

// eval evaluates an expression.
func (m *machine) eval(x expr, sc *scope) Value {
	m.step(1)
	m.enter()
	v := x.eval(m, sc)
	m.depth--
	return v
}

// run executes statements.
func (m *machine) run(body []stmt, sc *scope, out *builder) flow {
	m.enter()
	defer func() { m.depth-- }()
	for _, s := range body {
		m.step(1)
		if how := s.exec(m, sc, out); how != next {
			return how
		}
	}
	return next
}

// capture executes statements and returns what they print, and how they ended.
func (m *machine) capture(body []stmt, sc *scope) (Text, flow) {
	b := m.builder()
	how := m.run(body, sc, b)
	return b.done(), how
}

// iterate returns what Python would iterate over, and whether it would.
func (m *machine) iterate(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case undefined:
		return nil, true
	case Text:
		return m.runes(v), true
	case *List:
		return v.Items, true
	case *Dict:
		return v.keys, true
	case *view:
		return v.items, true
	case *generator:
		v.fill(m)
		items := v.items
		v.items = nil
		return items, true
	}
	return nil, false
}

// fill makes the items. It is a level of nesting: they may be made of another generator's, or of the same one's.
func (g *generator) fill(m *machine) {
	if g.make != nil {
		m.enter()
		g.items, g.make = g.make(), nil
		m.depth--
	}
}

// items is iterate, or an error.
func (m *machine) items(v Value, where string) []Value {
	out, ok := m.iterate(v)
	if !ok {
		m.fail(ErrRuntime, "%s: %s cannot be iterated over", where, typeName(v))
	}
	m.step(len(out))
	return out
}

// list makes a list of items that were made for it.
func (m *machine) list(items []Value) *List {
	m.spend(listBytes + len(items)*valueBytes)
	return &List{Items: items, own: true}
}

// function makes a function of a value.
func (m *machine) function(name string, call func(m *machine, a args) Value) *function {
	m.spend(listBytes)
	return &function{name: name, call: call}
}

// generator makes an iterator over items that are there already.
func (m *machine) generator(items []Value) *generator {
	m.spend(listBytes)
	return &generator{items: items}
}

// bind arranges arguments by parameter names; a name that ends in ? may be
// left out and is then nil.
func (m *machine) bind(f string, a args, params ...string) []Value {
	out := make([]Value, len(params))
	if len(a.pos) > len(params) {
		m.fail(ErrRuntime, "%s: %d arguments, at most %d expected", f, len(a.pos), len(params))
	}
	copy(out, a.pos)
	m.step(len(a.names))
	for i, name := range a.names {
		found := false
		for k, p := range params {
			if p == name || p == name+"?" {
				if out[k] != nil {
					m.fail(ErrRuntime, "%s: the argument %q twice", f, name)
				}
				out[k], found = a.values[i], true
			}
		}
		if !found {
			m.fail(ErrRuntime, "%s: unexpected argument %q", f, name)
		}
	}
	for k, p := range params {
		if out[k] == nil && p[len(p)-1] != '?' {
			m.fail(ErrRuntime, "%s: the argument %q is missing", f, p)
		}
	}
	return out
}

// str, integer and flag read one argument.
func (m *machine) str(f string, v Value) Text {
	t, ok := v.(Text)
	if !ok {
		m.fail(ErrRuntime, "%s: a string is needed, not %s", f, typeName(v))
	}
	return t
}

func (m *machine) integer(f string, v Value) int {
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		m.fail(ErrRuntime, "%s: an integer is needed, not %s", f, typeName(v))
	}
	const bound = 1 << 40 // sums of such integers do not overflow
	return int(min(max(i, -bound), bound))
}

func (m *machine) flag(v Value) bool { return v != nil && truth(v) }
