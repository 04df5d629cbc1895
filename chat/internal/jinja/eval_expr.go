package jinja

import "strings"

func (e *constant) eval(*machine, *scope) Value { return e.v }

func (e *nameExpr) eval(m *machine, sc *scope) Value {
	depth := 0
	for ; sc != nil; sc, depth = sc.up, depth+1 {
		if v, ok := sc.vars[e.name]; ok {
			m.step(depth / 8)
			return v
		}
	}
	m.step(depth / 8)
	return notSet(e.name)
}

func (e *listExpr) eval(m *machine, sc *scope) Value {
	items := make([]Value, len(e.items))
	for i, x := range e.items {
		items[i] = m.eval(x, sc)
	}
	l := m.list(items)
	l.kind = e.kind
	return l
}

func (e *dictExpr) eval(m *machine, sc *scope) Value {
	d := &Dict{}
	m.spend(listBytes)
	for i := range e.keys {
		k, v := m.eval(e.keys[i], sc), m.eval(e.values[i], sc)
		m.setItem(d, k, v)
	}
	return d
}

func (m *machine) setItem(d *Dict, k, v Value) {
	m.key(k)
	m.spend(entryBytes)
	if _, ok := keyOf(k); !ok {
		m.fail(ErrRuntime, "a %s cannot be a key of a dict", typeName(k))
	}
	d.Set(k, v)
}

// key counts the work of looking a key up.
func (m *machine) key(k Value) {
	switch k := k.(type) {
	case Text:
		m.step(1)
		m.read(len(k.s))
	case *List: // a tuple's key is a text that is made of its items
		m.step(1 + len(k.Items))
		for _, x := range k.Items {
			m.spend(textBytes)
			if t, ok := x.(Text); ok {
				m.chars(len(t.s))
				m.spend(4 * len(t.s))
			}
		}
	}
}

// get is d[key].
func (m *machine) get(d *Dict, key Value) (Value, bool) {
	m.key(key)
	return d.get(key)
}

// defined fails if v is undefined.
func (m *machine) defined(v Value) Value {
	if u, ok := v.(undefined); ok {
		m.fail(ErrRuntime, "%s", u.what)
	}
	return v
}

func (e *attrExpr) eval(m *machine, sc *scope) Value {
	v := m.eval(e.of, sc)
	m.line = e.line
	return m.attr(v, e.name)
}

// attr is v.name: a method or, of a dict, an entry.
func (m *machine) attr(v Value, name string) Value {
	switch v := m.defined(v).(type) {
	case *namespace:
		if x, ok := v.d.Get(name); ok {
			return x
		}
	case *loop:
		if x := v.attr(m, name); x != nil {
			return x
		}
	case *function:
		if v.of != nil {
			if x := v.of.attr(m, name); x != nil {
				return x
			}
		}
	case *Dict:
		if f := m.method(v, name); f != nil {
			return f
		}
		if x, ok := v.Get(name); ok {
			return x
		}
	case *List:
		for i, a := range v.attrs {
			if a == name {
				return v.Items[i]
			}
		}
		if f := m.method(v, name); f != nil {
			return f
		}
	default:
		if f := m.method(v, name); f != nil {
			return f
		}
	}
	return undefined{"a " + typeName(v) + " has no attribute '" + clip(name, longestName) + "'"}
}

func (e *itemExpr) eval(m *machine, sc *scope) Value {
	v, key := m.eval(e.of, sc), m.eval(e.item, sc)
	m.line = e.line
	return m.item(v, key)
}

// item is v[key]: an entry or, as in Jinja, an attribute.
func (m *machine) item(v, key Value) Value {
	i, _, isInt, ok := number(key)
	index := func(n int) (int, bool) {
		if !ok || !isInt {
			return 0, false
		}
		if i < 0 {
			i += int64(n)
		}
		return int(i), i >= 0 && i < int64(n)
	}
	switch v := m.defined(v).(type) {
	case *Dict:
		if x, ok := m.get(v, key); ok {
			return x
		}
	case *List:
		if k, ok := index(len(v.Items)); ok {
			return v.Items[k]
		}
	case Text:
		if isInt {
			at := m.places(v)
			if k, ok := index(at.n); ok {
				return v.slice(at.of(k), at.of(k+1))
			}
		}
	}
	if name, ok := key.(Text); ok {
		m.read(len(name.s))
		m.spend(len(name.s))
		return m.attr(v, name.s)
	}
	return undefined{"a " + typeName(v) + " has no such item"}
}

func (e *sliceExpr) eval(m *machine, sc *scope) Value {
	v := m.eval(e.of, sc)
	part := func(x expr) (int, bool) {
		if x == nil {
			return 0, false
		}
		v := m.eval(x, sc)
		if _, ok := v.(None); ok {
			return 0, false
		}
		return m.integer("a slice", v), true
	}
	start, hasStart := part(e.start)
	stop, hasStop := part(e.stop)
	step, hasStep := part(e.step)
	m.line = e.line
	if !hasStep {
		step = 1
	}
	if step == 0 {
		m.fail(ErrRuntime, "a slice with step 0")
	}
	var n int
	var at places
	switch v := m.defined(v).(type) {
	case Text:
		at = m.places(v)
		n = at.n
	case *List:
		n = len(v.Items)
	default:
		m.fail(ErrRuntime, "a %s has no slices", typeName(v))
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if hasStart {
		start = clamp(start)
	} else if start = low; step < 0 {
		start = high
	}
	if hasStop {
		stop = clamp(stop)
	} else if stop = high; step < 0 {
		stop = low
	}
	if t, ok := v.(Text); ok && step == 1 {
		return t.slice(at.of(start), at.of(max(start, stop)))
	}
	b := m.builder()
	var items []Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		m.step(1)
		switch v := v.(type) {
		case Text:
			b.text(v.slice(at.of(i), at.of(i+1)))
		case *List:
			m.spend(valueBytes)
			items = append(items, v.Items[i])
		}
	}
	if t, ok := v.(Text); ok {
		return b.like(t)
	}
	out := m.list(items)
	out.kind = v.(*List).kind
	return out
}

func (m *machine) args(a *argExprs, sc *scope) args {
	out := args{pos: make([]Value, len(a.pos)), names: a.names}
	for i, x := range a.pos {
		out.pos[i] = m.eval(x, sc)
	}
	for _, x := range a.values {
		out.values = append(out.values, m.eval(x, sc))
	}
	if a.star != nil {
		items := m.items(m.eval(a.star, sc), "*")
		m.spend(len(items) * valueBytes)
		out.pos = append(out.pos, items...)
	}
	if a.starstar != nil {
		d, ok := m.eval(a.starstar, sc).(*Dict)
		if !ok {
			m.fail(ErrRuntime, "**: a dict is needed")
		}
		out.names = append([]string(nil), out.names...)
		m.step(len(d.keys))
		m.spend(len(d.keys) * entryBytes)
		for i, k := range d.keys {
			out.names = append(out.names, m.str("**", k).s)
			out.values = append(out.values, d.values[i])
		}
	}
	return out
}

func (e *callExpr) eval(m *machine, sc *scope) Value {
	f := m.eval(e.f, sc)
	a := m.args(&e.args, sc)
	m.line = e.line
	return m.call(f, a)
}

func (m *machine) call(f Value, a args) Value {
	switch f := m.defined(f).(type) {
	case *function:
		m.enter()
		v := f.call(m, a)
		m.depth--
		return v
	case *loop:
		return f.recurse(m, a)
	}
	m.fail(ErrRuntime, "a %s cannot be called", typeName(f))
	return nil
}

func (e *filterExpr) eval(m *machine, sc *scope) Value {
	return e.apply(m, sc, m.eval(e.of, sc))
}

func (e *filterExpr) apply(m *machine, sc *scope, v Value) Value {
	a := m.args(&e.args, sc)
	m.line = e.line
	f := m.filters[e.name]
	if f == nil {
		m.fail(ErrUnsupported, "the filter %q", e.name)
	}
	m.operands(v, a)
	return f(m, v, a)
}

func (e *testExpr) eval(m *machine, sc *scope) Value {
	v := m.eval(e.of, sc)
	a := m.args(&e.args, sc)
	m.line = e.line
	f := m.tests[e.name]
	if f == nil {
		m.fail(ErrUnsupported, "the test %q", e.name)
	}
	m.operands(v, a)
	return f(m, v, a) != e.not
}

func (e *unaryExpr) eval(m *machine, sc *scope) Value {
	v := m.eval(e.x, sc)
	if e.op == "not" {
		return !truth(v)
	}
	m.line = e.line
	i, f, isInt, ok := number(m.defined(v))
	switch {
	case !ok:
		m.fail(ErrRuntime, "the operator %s needs a number, not %s", e.op, typeName(v))
	case isInt && e.op == "-":
		return m.arith(e.op, int64(0), i)
	case isInt:
		return i
	case e.op == "-":
		return -f
	}
	return f
}

func (e *chainExpr) eval(m *machine, sc *scope) Value {
	b := m.builder()
	var v Value
	for _, x := range e.terms {
		v = m.eval(x, sc)
		switch e.op {
		case "and":
			if !truth(v) {
				return v
			}
		case "or":
			if truth(v) {
				return v
			}
		default:
			b.text(m.text(v))
		}
	}
	if e.op == "~" {
		return b.done()
	}
	return v
}

func (e *condExpr) eval(m *machine, sc *scope) Value {
	switch {
	case truth(m.eval(e.cond, sc)):
		return m.eval(e.yes, sc)
	case e.no != nil:
		return m.eval(e.no, sc)
	}
	return undefined{"the condition of an if expression without else is false"}
}

func (e *compareExpr) eval(m *machine, sc *scope) Value {
	x := m.eval(e.x, sc)
	for i, op := range e.ops {
		y := m.eval(e.ys[i], sc)
		m.line = e.line
		if !m.compare(op, x, y) {
			return false
		}
		x = y
	}
	return true
}

func (m *machine) compare(op string, x, y Value) bool {
	switch op {
	case "==":
		return m.equal(x, y, 0)
	case "!=":
		return !m.equal(x, y, 0)
	case "in":
		return m.contains(y, x)
	case "not in":
		return !m.contains(y, x)
	}
	m.defined(x)
	m.defined(y)
	switch op {
	case "<":
		return m.less(x, y, 0)
	case ">":
		return m.less(y, x, 0)
	case "<=":
		return m.less(x, y, 0) || m.equal(x, y, 0)
	}
	return m.less(y, x, 0) || m.equal(x, y, 0)
}

// contains is Python's x in all.
func (m *machine) contains(all, x Value) bool {
	switch all := all.(type) {
	case Text:
		t := m.str("in", x)
		m.read(len(all.s))
		m.read(len(t.s))
		return strings.Contains(all.s, t.s)
	case *Dict:
		_, isDict := x.(*Dict)
		if l, isList := x.(*List); isDict || isList && l.kind == aList {
			m.fail(ErrRuntime, "a %s cannot be a key of a dict", typeName(x))
		}
		_, ok := m.get(all, x)
		return ok
	case *namespace, *loop, *function:
		m.fail(ErrRuntime, "in: a %s contains nothing", typeName(all))
	}
	for _, v := range m.items(all, "in") {
		if m.equal(v, x, 0) {
			return true
		}
	}
	return false
}
