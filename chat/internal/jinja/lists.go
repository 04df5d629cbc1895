package jinja

import "slices"

// Lists that a template has made may be changed by it; those that it was given may not.

// changed is a list that a method is about to change.
func (m *machine) changed(l *List, method string) {
	if !l.own || l.kind != aList {
		m.fail(ErrRuntime, "list.%s: a template may not change a value that it was given", method)
	}
	m.step(len(l.Items))
	m.spend(len(l.Items) * valueBytes) // items may be shared with other lists, and are copied
}

// hold fails where v holds the list l, which would then hold itself.
func (m *machine) hold(l *List, v Value, depth int) {
	m.step(1)
	if depth > maxHold {
		m.fail(ErrLimit, "lists inside each other more than %d deep", maxHold)
	}
	switch v := v.(type) {
	case *List:
		if v == l {
			m.fail(ErrRuntime, "list.append: the list would hold itself")
		}
		for _, x := range v.Items {
			m.hold(l, x, depth+1)
		}
	case *Dict:
		for _, x := range v.values {
			m.hold(l, x, depth+1)
		}
	case *namespace:
		m.hold(l, &v.d, depth+1)
	}
}

// maxHold bounds how deeply values are searched for a list.
const maxHold = 200

// appendItem is list.append.
func (m *machine) appendItem(l *List, a args) Value {
	x := m.bind("append", a, "object")[0]
	m.changed(l, "append")
	m.spend(valueBytes)
	m.hold(l, x, 0)
	l.Items = append(slices.Clip(l.Items), x)
	return None{}
}

// popItem is list.pop.
func (m *machine) popItem(l *List, a args) Value {
	at := -1
	if v := m.bind("pop", a, "index?")[0]; v != nil {
		at = m.integer("pop", v)
	}
	m.changed(l, "pop")
	if at < 0 {
		at += len(l.Items)
	}
	if at < 0 || at >= len(l.Items) {
		m.fail(ErrRuntime, "pop: no such item")
	}
	x := l.Items[at]
	l.Items = slices.Delete(slices.Clone(l.Items), at, at+1)
	return x
}
