package jinja

import "math"

func (s *dataStmt) exec(_ *machine, _ *scope, out *builder) flow {
	out.text(s.text)
	return next
}

func (s *printStmt) exec(m *machine, sc *scope, out *builder) flow {
	m.line = s.line
	out.text(m.text(m.eval(s.x, sc)))
	return next
}

func (s *ifStmt) exec(m *machine, sc *scope, out *builder) flow {
	for i, c := range s.conds {
		if truth(m.eval(c, sc)) {
			return m.run(s.bodies[i], sc, out)
		}
	}
	if len(s.bodies) > len(s.conds) {
		return m.run(s.bodies[len(s.conds)], sc, out)
	}
	return next
}

func (s *setStmt) exec(m *machine, sc *scope, _ *builder) flow {
	m.line = s.line
	v := m.eval(s.value, sc)
	m.line = s.line
	m.spend(2 * valueBytes)
	m.assign(&s.target, v, sc)
	return next
}

func (s *setBlockStmt) exec(m *machine, sc *scope, _ *builder) flow {
	m.line = s.line
	t, how := m.capture(s.body, m.begin(sc.inner(), s.unset))
	if how == next { // as in Jinja, a break or continue leaves what was captured
		m.assign(&s.target, m.filtered(s.filters, sc, t), sc)
	}
	return how
}

func (s *filterStmt) exec(m *machine, sc *scope, out *builder) flow {
	inner := m.begin(sc.inner(), s.unset)
	t, how := m.capture(s.body, inner)
	if how == next { // as in Jinja, a break or continue leaves what was captured
		out.text(m.text(m.filtered(s.filters, inner, t)))
	}
	return how
}

func (m *machine) filtered(filters []filterExpr, sc *scope, v Value) Value {
	for i := range filters {
		v = filters[i].apply(m, sc, v)
	}
	return v
}

// assign gives a value to a target; several targets share a sequence.
func (m *machine) assign(t *target, v Value, sc *scope) {
	switch {
	case t.parts != nil:
		items := m.items(v, "an assignment to several names")
		if len(items) != len(t.parts) {
			m.fail(ErrRuntime, "%d values for %d names", len(items), len(t.parts))
		}
		for i := range t.parts {
			m.assign(&t.parts[i], items[i], sc)
		}
	case t.attr != "":
		of, _ := sc.get(t.name)
		ns, ok := of.(*namespace)
		if !ok {
			m.fail(ErrRuntime, "%s.%s is set, but %s is not a namespace", t.name, t.attr, t.name)
		}
		m.setItem(&ns.d, lit(t.attr), v)
	default:
		sc.set(t.name, v)
	}
}

func (s *withStmt) exec(m *machine, sc *scope, out *builder) flow {
	inner := m.begin(sc.inner(), s.unset)
	for i := range s.targets {
		m.assign(&s.targets[i], m.eval(s.values[i], sc), inner)
	}
	return m.run(s.body, inner, out)
}

func (s *scopeStmt) exec(m *machine, sc *scope, out *builder) flow {
	inner := sc.inner()
	if s.global {
		inner = m.top.inner()
		for _, name := range m.unset { // what is not set yet is the template's variable of that name here
			m.step(1)
			if v, ok := m.top.up.get(name); ok && m.top.vars[name] == Value(notSet(name)) {
				inner.set(name, v)
			}
		}
	}
	return m.run(s.body, m.begin(inner, s.unset), out)
}

func (s *flowStmt) exec(*machine, *scope, *builder) flow { return s.how }

func (s *macroStmt) exec(m *machine, sc *scope, _ *builder) flow {
	sc.set(s.name, m.closure(&s.macro, sc))
	return next
}

func (s *callStmt) exec(m *machine, sc *scope, out *builder) flow {
	f := m.eval(s.call.f, sc)
	a := m.args(&s.call.args, sc)
	a.names = append(a.names[:len(a.names):len(a.names)], "caller")
	a.values = append(a.values, m.closure(&s.macro, sc))
	m.line = s.line
	out.text(m.text(m.call(f, a)))
	return next
}

// closure makes a macro a function that sees the variables around it.
func (m *machine) closure(d *macroDef, sc *scope) *function {
	m.spend(scopeBytes)
	f := m.function(d.name, func(m *machine, a args) Value {
		inner := m.begin(sc.inner(), d.unset)
		m.bindMacro(d, a, inner)
		line := m.line
		t, _ := m.capture(d.body, inner)
		m.line = line
		return t
	})
	f.of = d
	return f
}

// attr returns macro.name, or nil if there is none.
func (d *macroDef) attr(m *machine, name string) Value {
	switch name {
	case "name":
		if d.block {
			return None{}
		}
		return m.lit(d.name)
	case "arguments":
		m.spend(len(d.params) * valueBytes)
		items := make([]Value, len(d.params))
		for i, p := range d.params {
			items[i] = m.lit(p)
		}
		return m.tuple(items...)
	case "catch_varargs":
		return d.asked.varargs
	case "catch_kwargs":
		return d.asked.kwargs
	case "caller":
		return d.asked.caller
	}
	return nil
}

func (m *machine) bindMacro(d *macroDef, a args, sc *scope) {
	m.step(len(d.params) / 8)
	given := make([]bool, len(d.params))
	for i, v := range a.pos[:min(len(a.pos), len(d.params))] {
		sc.set(d.params[i], v)
		given[i] = true
	}
	var varargs []Value
	if len(a.pos) > len(d.params) {
		varargs = a.pos[len(d.params):]
		if !d.asked.varargs {
			m.fail(ErrRuntime, "the macro %s takes at most %d arguments", d.name, len(d.params))
		}
	}
	kwargs := &Dict{}
	if d.asked.caller {
		sc.set("caller", undefined{"the macro " + d.name + " has no caller"})
	}
named:
	for i, name := range a.names {
		m.step(1 + len(d.params)/8)
		for k, p := range d.params {
			if p == name {
				if given[k] {
					m.fail(ErrRuntime, "the macro %s gets the argument %q twice", d.name, name)
				}
				sc.set(p, a.values[i])
				given[k] = true
				continue named
			}
		}
		if name == "caller" && d.asked.caller {
			sc.set(name, a.values[i])
			continue
		}
		if !d.asked.kwargs {
			m.fail(ErrRuntime, "the macro %s has no argument %q", d.name, name)
		}
		m.setItem(kwargs, m.lit(name), a.values[i])
	}
	for k, p := range d.params {
		if given[k] {
			continue
		}
		if i := k - (len(d.params) - len(d.defaults)); i >= 0 {
			sc.set(p, m.eval(d.defaults[i], sc))
		} else {
			sc.set(p, undefined{"the argument '" + p + "' of the macro " + d.name + " was not given"})
		}
	}
	if d.asked.varargs {
		l := m.list(varargs)
		l.kind = aTuple
		sc.set("varargs", l)
	}
	if d.asked.kwargs {
		sc.set("kwargs", kwargs)
	}
}

// loop is the variable of that name in a for statement.
type loop struct {
	s       *forStmt
	scope   *scope  // around the statement
	items   []Value // those that are known
	rest    []Value // what the condition was not asked about yet
	i       int
	depth   int
	changed Value // what changed() was called with last, a tuple; nil at first
}

func (s *forStmt) exec(m *machine, sc *scope, out *builder) flow {
	m.line = s.line
	m.spend(scopeBytes)
	l := &loop{s: s, scope: sc}
	l.run(m, m.eval(s.iter, sc), out)
	return next
}

func (l *loop) run(m *machine, over Value, out *builder) {
	s := l.s
	if l.items = m.items(over, "{% for %}"); s.cond != nil {
		l.items, l.rest = nil, l.items
	}
	whole := false // as in Jinja, else is for loops none of whose passes reached its end
	for l.i = 0; l.has(m, l.i); l.i++ {
		m.step(1)
		inner := m.begin(l.scope.inner(), s.unset)
		inner.set("loop", l)
		m.assign(&s.target, l.items[l.i], inner)
		how := m.run(s.body, inner, out)
		whole = whole || how == next
		if how == breakLoop {
			break
		}
	}
	if !whole {
		m.run(s.otherwise, m.begin(l.scope.inner(), s.unsetElse), out)
	}
}

// has reports whether there is an item i. As in Jinja, the condition is asked about an item when its turn comes, or
// when the loop is asked what follows: it sees what the passes before have set.
func (l *loop) has(m *machine, i int) bool {
	for i >= len(l.items) && len(l.rest) > 0 {
		v := l.rest[0]
		l.rest = l.rest[1:]
		inner := l.scope.inner()
		m.assign(&l.s.target, v, inner)
		if truth(m.eval(l.s.cond, inner)) {
			m.spend(valueBytes)
			l.items = append(l.items, v)
		}
	}
	return i < len(l.items)
}

// length is how many items there are in all.
func (l *loop) length(m *machine) int {
	l.has(m, math.MaxInt)
	return len(l.items)
}

// recurse is loop(over) in a recursive loop.
func (l *loop) recurse(m *machine, a args) Value {
	if !l.s.recursive {
		m.fail(ErrRuntime, "loop() in a loop that is not recursive")
	}
	over := m.bind("loop", a, "iterable")[0]
	b := m.builder()
	m.spend(scopeBytes)
	m.enter()
	deeper := &loop{s: l.s, scope: l.scope, depth: l.depth + 1}
	deeper.run(m, over, b)
	m.depth--
	return b.done()
}

// attr returns loop.name, or nil if there is none.
func (l *loop) attr(m *machine, name string) Value {
	switch name {
	case "index":
		return int64(l.i + 1)
	case "index0":
		return int64(l.i)
	case "revindex":
		return int64(l.length(m) - l.i)
	case "revindex0":
		return int64(l.length(m) - l.i - 1)
	case "first":
		return l.i == 0
	case "last":
		return !l.has(m, l.i+1)
	case "length":
		return int64(l.length(m))
	case "depth":
		return int64(l.depth + 1)
	case "depth0":
		return int64(l.depth)
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1]
		}
		return undefined{"there is no previous item"}
	case "nextitem":
		if l.has(m, l.i+1) {
			return l.items[l.i+1]
		}
		return undefined{"there is no next item"}
	case "cycle":
		return m.function(name, func(m *machine, a args) Value {
			if len(a.pos) == 0 {
				m.fail(ErrRuntime, "loop.cycle: no items")
			}
			return a.pos[l.i%len(a.pos)]
		})
	case "changed":
		return m.function(name, func(m *machine, a args) Value {
			now := m.tuple(a.pos...)
			same := l.changed != nil && m.equal(l.changed, now, 0)
			l.changed = now
			return !same
		})
	}
	return nil
}
