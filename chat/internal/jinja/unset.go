package jinja

import "slices"

// In Jinja, a variable that a body assigns before it reads it is the body's own from the beginning on, unless a body
// around it mentions the name. What stands inside of the body and comes earlier (a loop, a macro, captured text) then
// finds it undefined, where the template has a variable of that name. The lists unset of statements have these names.

// frame is a body with variables of its own, while their names are looked for.
type frame struct {
	up       *frame
	names    map[string]bool // that it mentions
	inside   map[string]bool // that bodies inside of it have mentioned so far
	unset    []string
	branches int      // of ifs around what is looked at: what they assign need not be assigned
	later    []func() // looks into the bodies inside, when the frame's own names are known
	work     *int     // names that were looked at, of the whole template
}

// unsetOf are the names that are undefined at the beginning of a template, and fills the lists of its statements.
func unsetOf(body []stmt) []string { return (&frame{work: new(int)}).unsetIn(nil, body, nil, nil) }

// unsetIn are the names that are undefined at the beginning of a body inside of a frame, up, and fills the lists of
// bodies inside of it. bound are names that have a value then; first are expressions that are evaluated then.
func (f *frame) unsetIn(up *frame, body []stmt, bound []string, first []expr) []string {
	in := &frame{up: up, names: map[string]bool{}, inside: map[string]bool{}, work: f.work}
	for _, name := range bound {
		in.names[name] = true
	}
	in.loads(first...)
	in.body(body)
	for _, look := range in.later {
		look()
	}
	return in.unset
}

// maxLooks bounds the names that are looked at: those of the template, times how deep its bodies are nested. Known
// templates take fewer than 1,000.
const maxLooks = 1 << 22

func (f *frame) look() {
	if *f.work++; *f.work > maxLooks {
		panic(&Error{Text: "too many names in bodies inside of each other", Kind: ErrLimit})
	}
}

func (f *frame) find(name string) bool {
	for ; f != nil; f = f.up {
		f.look()
		if f.names[name] {
			return true
		}
	}
	return false
}

// mention notes a name that a body inside of the frame reads.
func (f *frame) mention(name string) {
	f.look()
	f.inside[name] = true
}

func (f *frame) loads(list ...expr) {
	for _, x := range list {
		eachName(x, func(name string) {
			f.look()
			f.names[name] = true
		})
	}
}

func (f *frame) store(t *target) {
	for i := range t.parts {
		f.store(&t.parts[i])
	}
	switch {
	case t.parts != nil:
	case t.attr != "": // of a namespace, which is read
		f.loads(&nameExpr{name: t.name})
	default:
		f.storeName(t.name)
	}
}

func (f *frame) storeName(name string) {
	if !f.names[name] && f.branches == 0 && f.inside[name] && !f.up.find(name) {
		f.unset = append(f.unset, name)
	}
	f.names[name] = true
}

// nested looks into a body inside of the frame later; now it counts as earlier than what the frame assigns next.
func (f *frame) nested(unset *[]string, body []stmt, bound []string, first ...expr) {
	for _, x := range first {
		eachName(x, f.mention)
	}
	eachNameOf(body, f.mention)
	f.later = append(f.later, func() { *unset = f.unsetIn(f, body, bound, first) })
}

func (f *frame) macro(d *macroDef) {
	bound := append(slices.Clone(d.params), "varargs", "kwargs", "caller")
	f.nested(&d.unset, d.body, bound, d.defaults...)
}

func (f *frame) body(list []stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *printStmt:
			f.loads(s.x)
		case *ifStmt:
			f.loads(s.conds...)
			f.branches++
			for _, b := range s.bodies {
				f.body(b)
			}
			f.branches--
		case *forStmt:
			f.loads(s.iter)
			if s.cond != nil {
				eachName(s.cond, f.mention)
			}
			f.nested(&s.unset, s.body, append(s.target.list(nil), "loop"))
			f.nested(&s.unsetElse, s.otherwise, nil)
		case *setStmt:
			f.loads(s.value)
			f.store(&s.target)
		case *setBlockStmt:
			f.nested(&s.unset, s.body, nil)
			f.store(&s.target)
			for i := range s.filters {
				f.loads(&s.filters[i])
			}
		case *macroStmt:
			f.storeName(s.name)
			f.macro(&s.macro)
		case *callStmt:
			f.loads(s.call)
			f.macro(&s.macro)
		case *withStmt:
			f.loads(s.values...)
			var bound []string
			for i := range s.targets {
				bound = s.targets[i].list(bound)
			}
			f.nested(&s.unset, s.body, bound)
		case *filterStmt:
			for i := range s.filters {
				f.loads(&s.filters[i])
			}
			f.nested(&s.unset, s.body, nil)
		case *scopeStmt:
			if s.global { // it sees what the template has assigned when it is written
				f.later = append(f.later, func() { s.unset = f.unsetIn(nil, s.body, nil, nil) })
				continue
			}
			f.nested(&s.unset, s.body, nil)
		}
	}
}

// list appends the names that a target assigns.
func (t *target) list(names []string) []string {
	for i := range t.parts {
		names = t.parts[i].list(names)
	}
	if t.parts == nil && t.attr == "" {
		names = append(names, t.name)
	}
	return names
}

// eachNameOf calls f with the names that statements read, also inside of their bodies.
func eachNameOf(list []stmt, f func(name string)) {
	all := func(of ...expr) {
		for _, x := range of {
			eachName(x, f)
		}
	}
	filters := func(list []filterExpr) {
		for i := range list {
			all(&list[i])
		}
	}
	for _, s := range list {
		switch s := s.(type) {
		case *printStmt:
			all(s.x)
		case *ifStmt:
			all(s.conds...)
			for _, b := range s.bodies {
				eachNameOf(b, f)
			}
		case *forStmt:
			all(s.iter, s.cond)
			eachNameOf(s.body, f)
			eachNameOf(s.otherwise, f)
		case *setStmt:
			all(s.value)
		case *setBlockStmt:
			filters(s.filters)
			eachNameOf(s.body, f)
		case *macroStmt:
			all(s.macro.defaults...)
			eachNameOf(s.macro.body, f)
		case *callStmt:
			all(s.call)
			all(s.macro.defaults...)
			eachNameOf(s.macro.body, f)
		case *withStmt:
			all(s.values...)
			eachNameOf(s.body, f)
		case *filterStmt:
			filters(s.filters)
			eachNameOf(s.body, f)
		case *scopeStmt:
			if !s.global {
				eachNameOf(s.body, f)
			}
		}
	}
}

// eachName calls f with the names that an expression reads; nil has none.
func eachName(x expr, f func(name string)) {
	all := func(of ...expr) {
		for _, x := range of {
			eachName(x, f)
		}
	}
	args := func(a *argExprs) {
		all(a.pos...)
		all(a.values...)
		all(a.star, a.starstar)
	}
	switch x := x.(type) {
	case *nameExpr:
		f(x.name)
	case *listExpr:
		all(x.items...)
	case *dictExpr:
		all(x.keys...)
		all(x.values...)
	case *attrExpr:
		all(x.of)
	case *itemExpr:
		all(x.of, x.item)
	case *sliceExpr:
		all(x.of, x.start, x.stop, x.step)
	case *callExpr:
		all(x.f)
		args(&x.args)
	case *filterExpr:
		all(x.of)
		args(&x.args)
	case *testExpr:
		all(x.of)
		args(&x.args)
	case *unaryExpr:
		all(x.x)
	case *binaryExpr:
		all(x.x, x.y)
	case *chainExpr:
		all(x.terms...)
	case *compareExpr:
		all(x.x)
		all(x.ys...)
	case *condExpr:
		all(x.cond, x.yes, x.no)
	}
}

// begin is the scope of a body: unset names are undefined in it.
func (m *machine) begin(sc *scope, unset []string) *scope {
	if len(unset) > 0 {
		m.step(len(unset))
		m.spend(len(unset) * entryBytes)
		for _, name := range unset {
			sc.set(name, notSet(name))
		}
	}
	return sc
}

// notSet is what a name without a value stands for.
func notSet(name string) undefined { return undefined{"'" + name + "' is undefined"} }
