package grammar

// prune takes out of rules what can never end, so that no text is led there, and tells for each rule whether it has a
// text at all.
func prune(b *Budget, t *terms, bodies []expression) []bool {
	p := &pruning{Budget: b, terms: t, mentions: make([][]int, len(bodies)), ends: make([]bool, len(bodies))}
	for i, body := range bodies {
		p.add(body, ^i)
	}
	for len(p.found) > 0 && b.spend(1) {
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
	*Budget
	terms *terms
	parts []struct {
		around int // the part around it; ^rule for a whole rule
		needs  int
	}
	found    []int   // parts that have a text, and have not told it yet
	mentions [][]int // by rule
	ends     []bool  // by rule: it has a text
}

func (p *pruning) add(x expression, around int) {
	if !p.take(32) {
		return
	}
	at := len(p.parts)
	p.parts = append(p.parts, struct{ around, needs int }{around, 1})
	has := true // x has a text by itself
	switch x := x.(type) {
	case class:
		has = len(x) > 0
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
	case lazy:
		has = p.terms.live(p.terms.of(x.x))
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
	case class:
		return x, len(x) > 0
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
	case lazy:
		return x, p.terms.live(p.terms.of(x.x))
	}
	return x, true
}
