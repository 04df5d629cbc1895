package grammar

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// The expressions of this file are about the characters of a string, not about the bytes of a text. An automaton for
// them is made state by state as a text goes on, by the derivatives of Brzozowski (1964): what may follow after a
// character is an expression again.
type (
	both       []expression         // in all of them
	complement struct{ expression } // any other string
	lazy       struct {             // a string of x as the text writes it
		x   expression
		raw bool // without the escapes of a JSON string
	}
	// multiple is the decimal digits of a number without sign that 10^-places divides step times: digits, and perhaps a
	// point and more digits.
	multiple struct {
		step   int64
		places int
	}
)

// anyText is every string.
var anyText = repeat{anyRune, 0, -1}

// hasSets reports whether an expression has an intersection or a complement in it, which instructions cannot hold.
func (b *Budget) hasSets(x expression) bool {
	if !b.spend(1) {
		return true
	}
	switch x := x.(type) {
	case both, complement, multiple:
		return true
	case sequence:
		return slices.ContainsFunc(x, b.hasSets)
	case choice:
		return slices.ContainsFunc(x, b.hasSets)
	case repeat:
		return b.hasSets(x.x)
	}
	return false
}

// term is an expression of a terms: equal ones are one number.
type term int32

const (
	noText       term = iota // no string at all
	emptyText                // the empty string only
	everyText                // every string
	anyCharacter             // one character
)

type termKind uint8

const (
	termNone termKind = iota
	termEmpty
	termClass
	termConcat
	termOr
	termAnd
	termNot
	termRepeat
	termMultiple
)

// terms are the states of automata over characters, made as they are met.
type terms struct {
	*Budget           // of the work that asks
	letters *alphabet // of the characters that a text may have; nil: all
	nodes   []termNode
	index   map[string]term
	key     []byte

	literals map[literal]term
}

type termNode struct {
	kind        termKind
	nullable    bool // holds for the empty string
	known       bool // arcs are computed
	life        int8 // 0: not known; 1: a string is in it; -1: none is
	least, most int32
	step, rest  int64 // termMultiple; most: digits that may follow behind the point, -1: there is none yet, least: places
	subs        []term
	class       class
	arcs        []arc
}

// arc is what follows after a character of a class. The classes of a term's arcs are disjoint.
type arc struct {
	class class
	to    term
}

// termBytes is what a term takes in memory.
const termBytes = 256

func newTerms(b *Budget, letters *alphabet) *terms {
	t := &terms{Budget: b, letters: letters, index: map[string]term{}, literals: map[literal]term{}, nodes: []termNode{
		noText:       {kind: termNone, life: -1},
		emptyText:    {kind: termEmpty, nullable: true, life: 1},
		everyText:    {kind: termRepeat, subs: []term{anyCharacter}, most: -1, nullable: true, life: 1},
		anyCharacter: {kind: termClass, class: anyRune},
	}}
	for i := range t.nodes {
		t.index[string(t.keyOf(&t.nodes[i]))] = term(i)
	}
	return t
}

// newTermsOf are the terms of texts as they are, and of those in JSON strings.
func newTermsOf(b *Budget, letters *alphabet) (raw, quoted *terms) {
	raw = newTerms(b, letters)
	if letters.all() {
		return raw, raw
	}
	return raw, newTerms(b, letters.json)
}

func (t *terms) keyOf(n *termNode) []byte {
	k := append(t.key[:0], byte(n.kind))
	k = binary.AppendVarint(binary.AppendVarint(k, int64(n.least)), int64(n.most))
	k = binary.AppendVarint(binary.AppendVarint(k, n.step), n.rest)
	for _, s := range n.subs {
		k = binary.LittleEndian.AppendUint32(k, uint32(s))
	}
	for _, r := range n.class {
		k = binary.AppendVarint(binary.AppendVarint(k, int64(r.lo)), int64(r.hi))
	}
	t.key = k
	return k
}

func (t *terms) intern(n termNode) term {
	key := t.keyOf(&n)
	if i, ok := t.index[string(key)]; ok {
		return i
	}
	if !t.take(termBytes + 2*len(key)) {
		return noText
	}
	n.life = t.lifeOf(&n)
	t.nodes = append(t.nodes, n)
	t.index[string(key)] = term(len(t.nodes) - 1)
	return term(len(t.nodes) - 1)
}

func (t *terms) nullable(x term) bool { return t.nodes[x].nullable }

func (t *terms) classOf(c class) term {
	if len(c) == 0 {
		return noText
	}
	return t.intern(termNode{kind: termClass, class: c})
}

func (t *terms) concat(a, b term) term {
	switch {
	case a == noText || b == noText:
		return noText
	case a == emptyText:
		return b
	case b == emptyText:
		return a
	case a == everyText && b == everyText:
		return a
	}
	if n := t.nodes[a]; n.kind == termConcat {
		return t.concat(n.subs[0], t.concat(n.subs[1], b))
	}
	return t.intern(termNode{kind: termConcat, subs: []term{a, b}, nullable: t.nullable(a) && t.nullable(b)})
}

// join makes a union or an intersection: without what changes nothing, equal for equal sets.
func (t *terms) join(kind termKind, list []term) term {
	neutral, absorbing := noText, everyText
	if kind == termAnd {
		neutral, absorbing = everyText, noText
	}
	var flat []term
	var classes class
	var ranges []runeRange // of termOr
	lengths, hasClass := termNode{most: -1}, false
	hasLengths := false
	for _, x := range list {
		parts := []term{x}
		if t.nodes[x].kind == kind {
			parts = t.nodes[x].subs
		}
		for _, p := range parts {
			n := &t.nodes[p]
			switch {
			case p == absorbing:
				return absorbing
			case p == neutral:
			case n.kind == termClass && kind == termOr:
				ranges, hasClass = append(ranges, n.class...), true
			case n.kind == termClass && !hasClass:
				classes, hasClass = n.class, true
			case n.kind == termClass:
				if classes = classes.intersect(n.class); len(classes) == 0 {
					return noText
				}
			case kind == termAnd && n.kind == termRepeat && n.subs[0] == anyCharacter:
				hasLengths = true
				lengths.least = max(lengths.least, n.least)
				if lengths.most < 0 || n.most >= 0 && n.most < lengths.most {
					lengths.most = n.most
				}
			default:
				flat = append(flat, p)
			}
		}
	}
	if kind == termOr {
		classes = newClass(ranges...)
	}
	if hasClass {
		flat = append(flat, t.classOf(classes))
	}
	if hasLengths {
		if lengths.most >= 0 && lengths.most < lengths.least {
			return noText
		}
		flat = append(flat, t.repeat(anyCharacter, int(lengths.least), int(lengths.most)))
	}
	slices.Sort(flat)
	flat = slices.Compact(flat)
	if !t.spend(1 + len(flat)) {
		return noText
	}
	nullable := kind == termAnd
	for _, x := range flat {
		if t.nullable(x) != nullable {
			nullable = !nullable
			break
		}
	}
	switch {
	case len(flat) == 0:
		return neutral
	case len(flat) == 1:
		return flat[0]
	case kind == termAnd && slices.Contains(flat, emptyText):
		if nullable {
			return emptyText
		}
		return noText
	}
	return t.intern(termNode{kind: kind, subs: flat, nullable: nullable})
}

func (t *terms) not(x term) term {
	switch {
	case x == noText:
		return everyText
	case x == everyText:
		return noText
	case t.nodes[x].kind == termNot:
		return t.nodes[x].subs[0]
	}
	return t.intern(termNode{kind: termNot, subs: []term{x}, nullable: !t.nullable(x)})
}

func (t *terms) repeat(x term, least, most int) term {
	switch {
	case most == 0 || x == emptyText, x == noText && least == 0:
		return emptyText
	case x == noText:
		return noText
	case least == 1 && most == 1:
		return x
	case x == everyText && most != 0:
		return everyText
	}
	if t.nullable(x) {
		least = 0
	}
	return t.intern(termNode{kind: termRepeat, subs: []term{x}, least: int32(least), most: int32(most),
		nullable: least == 0})
}

// of is the term of an expression.
func (t *terms) of(x expression) term {
	if !t.spend(1) {
		return noText
	}
	list := func(parts []expression) []term {
		all := make([]term, len(parts))
		for i, p := range parts {
			all[i] = t.of(p)
		}
		return all
	}
	switch x := x.(type) {
	case literal:
		at, known := t.literals[x]
		if known || !t.take(nodeBytes) || !t.spend(len(x)) {
			return at
		}
		at = emptyText
		for s := string(x); s != ""; {
			r, n := utf8.DecodeLastRuneInString(s)
			at = t.concat(t.classOf(class{{r, r}}), at)
			s = s[:len(s)-n]
		}
		if t.err == nil {
			t.literals[x] = at
		}
		return at
	case class:
		return t.classOf(x)
	case sequence:
		at := emptyText
		for _, p := range slices.Backward(x) {
			at = t.concat(t.of(p), at)
		}
		return at
	case choice:
		return t.join(termOr, list(x))
	case both:
		return t.join(termAnd, list(x))
	case complement:
		return t.not(t.of(x.expression))
	case repeat:
		return t.repeat(t.of(x.x), x.least, x.most)
	case multiple:
		return t.multiple(x.step, 0, x.places, -1)
	}
	panic("grammar: not an expression of characters") // a bug of this package
}

// multiple is the digits that may follow where those before leave a rest; behind the point left more count.
func (t *terms) multiple(step, rest int64, places, left int) term {
	at := rest
	digits := places
	if left >= 0 {
		digits = left
	}
	for range digits { // the digits that are not there are zeros
		at = at * 10 % step
	}
	return t.intern(termNode{kind: termMultiple, step: step, rest: rest, least: int32(places), most: int32(left),
		nullable: at == 0})
}

// lifeOf is what a new term's life is by that of its parts; 0: not known.
func (t *terms) lifeOf(n *termNode) int8 {
	if n.nullable || n.kind == termClass && t.letters.some(n.class) {
		return 1
	}
	lowest, highest := int8(1), int8(-1)
	for _, x := range n.subs {
		lowest, highest = min(lowest, t.nodes[x].life), max(highest, t.nodes[x].life)
	}
	switch n.kind {
	case termConcat, termRepeat:
		return lowest
	case termOr:
		return highest
	case termMultiple:
		if !slices.ContainsFunc(digits, func(c class) bool { return !t.letters.some(c) }) {
			return completes(n.step, n.rest, lengthsFrom(0, int(n.most)))
		}
	case termAnd:
		if lowest < 0 {
			return lowest
		}
		return t.multipleLife(n)
	}
	return 0
}

// digits are the ten of them.
var digits = func() (all []class) {
	for r := '0'; r <= '9'; r++ {
		all = append(all, class{{r, r}})
	}
	return all
}()

// multipleLife is the life of an intersection of a multiple, of which no point was read, with runs of digits: where the
// step is large a search for one would take too long. 0: it is none, or not known.
func (t *terms) multipleLife(n *termNode) int8 {
	var multiple *termNode
	lengths, exact := ^uint64(0), true
	for _, x := range n.subs {
		if sub := &t.nodes[x]; sub.kind == termMultiple && sub.most < 0 && sub.life > 0 && multiple == nil {
			multiple = sub
			continue
		}
		runs, only := t.digitRuns(x)
		lengths, exact = lengths&runs, exact && only
	}
	if multiple == nil {
		return 0
	}
	step := multiple.step // of whole numbers
	for range multiple.least {
		for _, prime := range [...]int64{2, 5} {
			if step%prime == 0 {
				step /= prime
			}
		}
	}
	if life := completes(step, multiple.rest%step, lengths); life > 0 || exact {
		return life
	}
	return 0
}

// longestRun stands for itself and for all greater lengths of runs.
const longestRun = 63

// lengthsFrom are the lengths least to most, a bit each; most < 0: without end.
func lengthsFrom(least, most int) uint64 {
	lengths := ^uint64(0) << min(least, longestRun)
	if most >= 0 && most < longestRun {
		lengths &= 1<<(most+1) - 1
	}
	return lengths
}

// digitRuns are lengths of which a term has every run of digits, a bit each. only: these are all of it.
func (t *terms) digitRuns(x term) (lengths uint64, only bool) {
	if x == emptyText {
		return 1, true
	}
	switch n := &t.nodes[x]; n.kind {
	case termClass:
		if len(digit.minus(n.class)) == 0 {
			return 1 << 1, slices.Equal(n.class, digit)
		}
	case termRepeat:
		if of, only := t.digitRuns(n.subs[0]); of == 1<<1 {
			lengths = lengthsFrom(int(n.least), int(n.most))
			return lengths, only && n.least < longestRun && n.most < longestRun
		}
	case termConcat:
		if t.nullable(n.subs[1]) {
			lengths, _ = t.digitRuns(n.subs[0])
		}
	case termOr:
		only = true
		for _, sub := range n.subs {
			more, all := t.digitRuns(sub)
			lengths, only = lengths|more, only && all
		}
		return lengths, only
	}
	return lengths, false
}

// completes is 1 if digits, of one of the lengths, lead from a rest to a multiple of step, else -1.
func completes(step, rest int64, lengths uint64) int8 {
	values := int64(1) // of so many digits
	for ; lengths != 0; lengths >>= 1 {
		if lengths&1 == 1 && (step-rest)%step < values {
			return 1
		}
		rest, values = rest*10%step, min(values*10, step)
	}
	return -1
}

// follow are the arcs of a term: what may stand after its first character.
func (t *terms) follow(x term) []arc {
	n := &t.nodes[x]
	if n.known {
		return n.arcs
	}
	var arcs []arc
	subs := n.subs
	then := func(list []arc, next term) []arc {
		all := make([]arc, 0, len(list))
		for _, a := range list {
			all = append(all, arc{a.class, t.concat(a.to, next)})
		}
		return all
	}
	switch n.kind {
	case termClass:
		arcs = []arc{{n.class, emptyText}}
	case termConcat:
		arcs = then(t.follow(subs[0]), subs[1])
		if t.nullable(subs[0]) {
			arcs = t.merge(termOr, [][]arc{arcs, t.follow(subs[1])})
		}
	case termOr, termAnd:
		lists := make([][]arc, len(subs))
		for i, s := range subs {
			lists[i] = t.follow(s)
		}
		arcs = t.merge(n.kind, lists)
	case termNot:
		var covered []runeRange
		for _, a := range t.follow(subs[0]) {
			covered = append(covered, a.class...)
			if to := t.not(a.to); to != noText {
				arcs = append(arcs, arc{a.class, to})
			}
		}
		if rest := newClass(covered...).not(); len(rest) > 0 {
			arcs = append(arcs, arc{rest, everyText})
		}
	case termRepeat:
		least, most := int(n.least), int(n.most)
		arcs = then(t.follow(subs[0]), t.repeat(subs[0], max(0, least-1), max(most-1, -1)))
	case termMultiple:
		step, rest, places, left := n.step, n.rest, int(n.least), int(n.most)
		for d := range int64(10) {
			c := class{{'0' + rune(d), '0' + rune(d)}}
			switch {
			case left < 0:
				arcs = append(arcs, arc{c, t.multiple(step, (rest*10+d)%step, places, left)})
			case left > 0:
				arcs = append(arcs, arc{c, t.multiple(step, (rest*10+d)%step, places, left-1)})
			case d == 0:
				arcs = append(arcs, arc{c, x})
			}
		}
		if left < 0 {
			arcs = append(arcs, arc{class{{'.', '.'}}, t.multiple(step, rest, places, places)})
		}
	}
	if t.err != nil || !t.take(64*len(arcs)) {
		return nil
	}
	t.nodes[x].arcs, t.nodes[x].known = arcs, true
	return arcs
}

// merge puts arcs of several terms together: to the union of what follows in any of them, or to the intersection where
// all have an arc.
func (t *terms) merge(kind termKind, lists [][]arc) []arc {
	type edge struct {
		at   rune
		to   term
		ends bool
	}
	var edges []edge
	for _, list := range lists {
		for _, a := range list {
			for _, r := range a.class {
				edges = append(edges, edge{r.lo, a.to, false}, edge{r.hi + 1, a.to, true})
			}
		}
	}
	if !t.take(32 * len(edges)) {
		return nil
	}
	slices.SortFunc(edges, func(a, b edge) int { return int(a.at) - int(b.at) })
	active := map[term]int{} // by how many arcs
	count := 0
	ranges := map[term][]runeRange{}
	var order, list []term
	for i := 0; i < len(edges); {
		at := edges[i].at
		for ; i < len(edges) && edges[i].at == at; i++ {
			if e := edges[i]; e.ends {
				count--
				if active[e.to]--; active[e.to] == 0 {
					delete(active, e.to)
				}
			} else {
				count++
				active[e.to]++
			}
		}
		if count == 0 || kind == termAnd && count < len(lists) {
			continue
		}
		if !t.spend(1 + len(active)) {
			return nil
		}
		list = list[:0]
		for to := range active {
			list = append(list, to)
		}
		slices.Sort(list)
		to := t.join(kind, list)
		if to == noText {
			continue
		}
		if ranges[to] == nil {
			order = append(order, to)
		}
		ranges[to] = append(ranges[to], runeRange{at, edges[i].at - 1})
	}
	arcs := make([]arc, len(order))
	for i, to := range order {
		arcs[i] = arc{newClass(ranges[to]...), to}
	}
	return arcs
}

// live reports whether a string is in a term: a search for one, whose answer is kept for every term on the way.
func (t *terms) live(x term) bool {
	if t.nodes[x].life != 0 {
		return t.nodes[x].life > 0
	}
	type frame struct {
		x  term
		at int
	}
	seen := map[term]bool{x: true}
	stack := []frame{{x, 0}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		arcs := t.follow(f.x)
		if !t.spend(1) {
			return true
		}
		if f.at == len(arcs) {
			stack = stack[:len(stack)-1]
			continue
		}
		class, to := arcs[f.at].class, arcs[f.at].to
		f.at++
		switch {
		case !t.letters.some(class):
		case t.nodes[to].life > 0:
			for _, f := range stack {
				t.nodes[f.x].life = 1
			}
			return true
		case t.nodes[to].life < 0 || seen[to]:
		default:
			seen[to] = true
			stack = append(stack, frame{to, 0})
		}
	}
	for x := range seen {
		t.nodes[x].life = -1
	}
	return false
}

// matches reports whether a string is in a term.
func (t *terms) matches(x term, s string) bool {
next:
	for _, r := range s {
		arcs := t.follow(x)
		if !t.spend(1 + len(arcs)) {
			return false
		}
		for _, a := range arcs {
			if a.class.has(r) {
				x = a.to
				continue next
			}
		}
		return false
	}
	return t.nullable(x)
}
