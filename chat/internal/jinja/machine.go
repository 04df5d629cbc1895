package jinja

import (
	"fmt"
	"time"
)

// Limits bound the work of one rendering. Zero fields have the defaults.
type Limits struct {
	Steps int // expressions and statements evaluated, and items gone through; default 5 million
	Depth int // of nested evaluation; default 4000
	Bytes int // of all strings and lists made on the way, and of the output; default 512 MiB
}

const (
	defaultSteps = 5_000_000
	defaultDepth = 4000
	defaultBytes = 512 << 20
)

// Context is what a template sees.
type Context struct {
	Vars   *Dict            // variables by name, nil for none
	Clock  func() time.Time // for strftime_now; nil: the function is not there
	Limits Limits
}

// Render evaluates the template. Errors wrap [ErrRaised], [ErrRuntime] or
// [ErrLimit] and are of type *[Error].
func (t *Template) Render(c Context) (text Text, err error) {
	defer catch(&err)
	m := &machine{limits: c.Limits, clock: c.Clock, filters: filterTable, tests: testTable}
	for _, l := range []struct {
		value    *int
		standard int
	}{{&m.limits.Steps, defaultSteps}, {&m.limits.Depth, defaultDepth}, {&m.limits.Bytes, defaultBytes}} {
		if *l.value <= 0 {
			*l.value = l.standard
		}
	}
	globals := &scope{vars: map[string]Value{}}
	for name, f := range globalTable {
		globals.vars[name] = &function{name, f}
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
	m.top = &scope{vars: map[string]Value{}, up: globals}
	var out builder
	m.run(t.body, m.top, &out)
	return out.done(), nil
}

// machine is the state of one rendering.
type machine struct {
	limits             Limits
	line               int
	steps, depth, made int
	clock              func() time.Time
	top                *scope
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

// fail stops the rendering.
func (m *machine) fail(kind error, format string, a ...any) {
	panic(&Error{Line: m.line, Text: fmt.Sprintf(format, a...), Kind: kind})
}

// step counts n units of work.
func (m *machine) step(n int) {
	if m.steps += n; m.steps > m.limits.Steps || m.steps < 0 {
		m.fail(ErrLimit, "more than %d steps", m.limits.Steps)
	}
}

// valueBytes is what a list's item counts for.
const valueBytes = 16

// spend counts n bytes made; before a large allocation it is called first.
func (m *machine) spend(n int) {
	if n < 0 || n > m.limits.Bytes-m.made {
		m.fail(ErrLimit, "more than %d bytes of strings", m.limits.Bytes)
	}
	m.made += n
}

// scan counts the work of going through n bytes.
func (m *machine) scan(n int) { m.spend(n) }

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
		before := len(out.s)
		how := s.exec(m, sc, out)
		if _, ok := s.(*dataStmt); ok {
			m.spend(len(out.s) - before)
		}
		if how != next {
			return how
		}
	}
	return next
}

// capture executes statements and returns what they print.
func (m *machine) capture(body []stmt, sc *scope) Text {
	var b builder
	m.run(body, sc, &b)
	m.spend(len(b.s))
	return b.done()
}

// iterate returns what Python would iterate over, and whether it would.
func (m *machine) iterate(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case undefined:
		return nil, true
	case Text:
		m.spend(len(v.s) * valueBytes)
		m.step(len(v.s))
		return v.runes(), true
	case *List:
		return v.Items, true
	case *Dict:
		return v.keys, true
	case *view:
		return v.items, true
	case *generator:
		v.fill()
		items := v.items
		v.items = nil
		return items, true
	}
	return nil, false
}

func (g *generator) fill() {
	if g.make != nil {
		g.items, g.make = g.make(), nil
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
	m.spend(len(items) * valueBytes)
	return &List{Items: items}
}

// bind arranges arguments by parameter names; a name that ends in ? may be
// left out and is then nil.
func (m *machine) bind(f string, a args, params ...string) []Value {
	out := make([]Value, len(params))
	if len(a.pos) > len(params) {
		m.fail(ErrRuntime, "%s: %d arguments, at most %d expected", f, len(a.pos), len(params))
	}
	copy(out, a.pos)
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
