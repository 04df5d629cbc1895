package grammar

import (
	"slices"
	"unicode/utf8"
)

// prune takes out of rules what can never end, or what the alphabet cannot write, so that no text is led there, and
// tells for each rule whether it has a text at all.
func (p *pruning) prune(bodies []expression) []bool {
	p.mentions, p.ends = make([][]int, len(bodies)), make([]bool, len(bodies))
	for i, body := range bodies {
		p.add(body, ^i)
	}
	for len(p.found) > 0 && p.spend(1) {
		around := p.parts[p.found[len(p.found)-1]].around
		p.found = p.found[:len(p.found)-1]
		if around < 0 {
			if !p.ends[^around] {
				p.ends[^around] = true
				p.found = append(p.found, p.mentions[^around]...)
			}
		} else if p.parts[around].needs--; p.parts[around].needs == 0 {
			p.found = append(p.found, around)
		}
	}
	for i, body := range bodies {
		if x, ok := p.without(body); ok {
			bodies[i] = x
		} else {
			bodies[i] = choice{}
		}
	}
	return p.ends
}

// pruning finds the parts of expressions that have a text. Each waits for as many of its own parts as it needs (a
// choice for one, a sequence for all), and tells the part around it.
type pruning struct {
	*restriction
	json  bool // the texts are JSON's: characters in strings may be escaped
	parts []struct {
		around int // the part around it; ^rule for a whole rule
		needs  int
	}
	found    []int   // parts that have a text, and have not told it yet
	mentions [][]int // by rule
	ends     []bool  // by rule: it has a text
}

// restriction is what the rules of a grammar and of its parts are restricted to.
type restriction struct {
	*Budget
	letters *alphabet             // nil: all
	terms   *terms                // of lazy texts as they are
	quoted  *terms                // of those in JSON
	made    map[*Grammar]*Grammar // parts as the alphabet can write them; nil: it cannot
	missing string                // the first character, or name of a control token, that cannot be written
}

func newRestriction(b *Budget, letters *alphabet) *restriction {
	r := &restriction{Budget: b, letters: letters, made: map[*Grammar]*Grammar{}}
	r.terms, r.quoted = newTermsOf(b, letters)
	return r
}

// grammar is g without what the alphabet cannot write; nil: nothing is left.
func (r *restriction) grammar(g *Grammar) *Grammar {
	if g.made == nil && r.letters.all() && !g.controls {
		return g
	}
	if _, ok := r.made[g]; !ok {
		bodies := slices.Clone(g.bodies)
		if g.made != nil {
			bodies = []expression{g.made}
		}
		p := &pruning{restriction: r, json: g.json}
		r.made[g] = nil
		if p.prune(bodies)[g.first] {
			r.made[g] = compile(r.Budget, bodies, g.first)
		}
	}
	return r.made[g]
}

func (p *pruning) add(x expression, around int) {
	if !p.take(32) {
		return
	}
	at := len(p.parts)
	p.parts = append(p.parts, struct{ around, needs int }{around, 1})
	has := true // x has a text by itself
	switch x := x.(type) {
	case sequence:
		has = len(x) == 0
		p.parts[at].needs = len(x)
		for _, part := range x {
			p.add(part, at)
		}
	case choice:
		has = false
		for _, part := range x {
			p.add(part, at)
		}
	case rule:
		has = false
		p.mentions[x] = append(p.mentions[x], at)
	case repeat:
		if has = x.least == 0; !has {
			p.add(x.x, at)
		}
	case anyOrder:
		p.parts[at].needs = 0
		for _, m := range x.list {
			if m.required {
				p.parts[at].needs++
				p.add(m.body, at)
			}
		}
		has = p.parts[at].needs == 0
	default:
		_, has = p.without(x)
	}
	if has {
		p.found = append(p.found, at)
	}
}

// without is x without the parts that have no text; false: x has none.
func (p *pruning) without(x expression) (expression, bool) {
	if !p.spend(1) {
		return x, true
	}
	switch x := x.(type) {
	case literal:
		return p.literal(x)
	case class:
		return p.class(x)
	case seek:
		return x, x.without || slices.ContainsFunc(x.marks, func(m string) bool { return p.has(m) })
	case *Grammar:
		if x == nil {
			return x, true // an error of its own
		}
		g := p.grammar(x)
		return g, g != nil
	case sequence:
		all := make(sequence, len(x))
		for i, part := range x {
			var ok bool
			if all[i], ok = p.without(part); !ok {
				return nil, false
			}
		}
		return all, true
	case choice:
		var all choice
		for _, part := range x {
			if y, ok := p.without(part); ok {
				all = append(all, y)
			}
		}
		return all, len(all) > 0
	case rule:
		return x, p.ends[x]
	case repeat:
		y, ok := p.without(x.x)
		if !ok {
			return sequence{}, x.least == 0
		}
		return repeat{y, x.least, x.most}, true
	case anyOrder:
		return p.anyOrder(x)
	case lazy:
		t := p.quoted
		if x.raw {
			t = p.terms
		}
		return x, t.live(t.of(x.x))
	}
	return x, true
}

// has reports whether the alphabet can write a text as it is, and keeps the first part that it cannot.
func (p *pruning) has(text string) bool {
	m := p.letters.missing(text)
	if p.missing == "" {
		p.missing = m
	}
	return m == ""
}

// literal is a fixed text, which in JSON is escaped where that helps.
func (p *pruning) literal(x literal) (expression, bool) {
	switch {
	case p.has(string(x)):
		return x, true
	case !p.json || p.letters.missing(string(x)) < "\x80":
		return nil, false
	}
	return p.without(p.letters.escaped(string(x)))
}

// class is one character of x. In JSON one character alone is escaped where that helps; others have their escapes
// beside them.
func (p *pruning) class(x class) (expression, bool) {
	if len(x) == 0 || p.letters.some(x) {
		return x, len(x) > 0
	}
	p.has(string(x[0].lo))
	if !p.json || !x.isOne() || x[0].lo < utf8.RuneSelf {
		return nil, false
	}
	return p.without(sequence{literal(`\u`), hexOf(x)})
}
