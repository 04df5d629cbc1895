package grammar

import (
	"math/bits"
	"slices"
	"strconv"
)

// array is the arrays of a branch.
func (s *schema) array(b *branch, at *place) expression {
	for _, v := range b.excluded {
		list, ok := v.([]any)
		switch {
		case !ok:
		case len(list) == 0:
			b.leastItems = max(b.leastItems, 1)
		default:
			s.refuse(at, "not", "of arrays is not supported")
		}
	}
	least, most := b.leastItems, b.mostItems
	n := 0 // items that have a place of their own
	asked := len(b.arrays) == 0 || len(b.contains) > 0
	for _, p := range b.arrays {
		n = max(n, len(p.prefix))
		asked = asked || p.items != nil || len(p.prefix) == 0
	}
	if most >= 0 {
		n = min(n, most)
	}
	var prefix []expression
	for i := range n {
		schemas := b.item(i)
		if slices.Contains(schemas, any(false)) || !s.take(nodeBytes) {
			most = tighter(most, i)
			break
		}
		prefix = append(prefix, s.value(schemas, at.at("prefixItems").at(strconv.Itoa(i))))
	}
	// Items behind them, which are not written in a narrow grammar if nobody asks for them.
	var item expression
	rest := b.item(1 << 30)
	switch {
	case slices.Contains(rest, any(false)), s.Narrow && !asked && least <= len(prefix):
		most = tighter(most, n)
	case most < 0 || most > len(prefix):
		item = s.value(rest, at.at("items"))
	}
	if most >= 0 && most < least {
		return s.nothing(at, "minItems %d, and no so many items are allowed", least)
	}
	var inside expression
	switch {
	case b.unique != nil && (most < 0 || most > 1) && s.uniqueItems(b, at, n, least, most, &inside):
	case len(b.contains) > 0:
		inside = s.containing(b, at, least, most)
	default:
		inside = s.items(at, prefix, item, least, most)
	}
	return s.brackets("[", "]", inside)
}

// list is least to most of x, separated by commas; most < 0: any number.
func (s *schema) list(x expression, least, most int) expression {
	if most == 0 {
		return sequence{}
	}
	more := most
	if most > 0 {
		more--
	}
	all := sequence{x, repeat{sequence{s.comma(), x}, max(0, least-1), more}}
	if least == 0 {
		return choice{sequence{}, all}
	}
	return all
}

// items is an array's inside: as many of prefix as there is room for, then item.
func (s *schema) items(at *place, prefix []expression, item expression, least, most int) expression {
	if len(prefix) == 0 {
		if item == nil {
			return sequence{}
		}
		return s.list(item, least, most)
	}
	// (p1 (, p2 (, p3 rest)?)?)? with the question marks where least allows them
	n := len(prefix)
	if most >= 0 && most < n {
		n = most
	}
	inside := expression(sequence{})
	if most != n { // then all of prefix is before, and there is an item
		more := most
		if most >= 0 {
			more -= n
		}
		inside = repeat{sequence{s.comma(), item}, max(0, least-n), more}
	}
	for i := n - 1; i >= 0; i-- {
		part := sequence{prefix[i], inside}
		if i > 0 {
			part = sequence{s.comma(), prefix[i], inside}
		}
		inside = part
		if i >= least {
			inside = choice{sequence{}, part}
		}
		inside = s.add(at.at("from "+strconv.Itoa(i)), inside) // flat, however long the list is
	}
	return inside
}

// maxContains bounds the contains of a branch: an item may be in any of their subsets.
const maxContains = 4

// containing is the inside of an array with contains: a rule for each item that has a place of its own or counts for
// minItems and maxItems, and each numbers of items found so far.
func (s *schema) containing(b *branch, at *place, least, most int) expression {
	if len(b.contains) > maxContains {
		s.refuse(at, "contains", "%d times for one array, at most %d", len(b.contains), maxContains)
	}
	parts := b.contains[:min(len(b.contains), maxContains)]
	places := max(1, least, most) // behind that all places are alike
	for _, p := range b.arrays {
		places = max(places, len(p.prefix))
	}
	counts := 1 // numbers of items found; of each part as many as are told apart
	enough := func(c containsPart) int { return max(c.least, c.most+1) }
	for _, c := range parts {
		if counts *= enough(c) + 1; !s.take(counts * places * nodeBytes) {
			return nil
		}
	}
	rules := make([]rule, (places+1)*counts)
	for i := range rules {
		rules[i] = s.add(at.at("contains"), choice{})
	}
	for i := range places + 1 {
		kinds := make([]expression, 1<<len(parts)) // an item by the parts that it is found for
		for set := range kinds {
			schemas := b.item(i)
			for k, c := range parts {
				if set>>k&1 == 1 {
					schemas = append(schemas, c.schema)
				} else if c.most >= 0 { // otherwise it may be found or not
					schemas = append(schemas, s.not(c.schema))
				}
			}
			if slices.Contains(schemas, any(false)) || most >= 0 && i >= most {
				continue
			}
			kinds[set] = s.value(schemas, at.at("contains"))
		}
		for n := range counts {
			if !s.spend(1 + len(kinds)) {
				return nil
			}
			found := make([]int, len(parts))
			complete, rest := i >= least, n
			for k, c := range parts {
				found[k] = rest % (enough(c) + 1)
				rest /= enough(c) + 1
				complete = complete && found[k] >= c.least && (c.most < 0 || found[k] <= c.most)
			}
			var all choice
			if complete {
				all = append(all, sequence{})
			}
			for set, x := range kinds {
				if x == nil {
					continue
				}
				to, unit := 0, 1
				for k, c := range parts {
					to += min(found[k]+set>>k&1, enough(c)) * unit
					unit *= enough(c) + 1
				}
				comma := expression(sequence{})
				if i > 0 {
					comma = s.comma()
				}
				all = append(all, sequence{comma, x, rules[min(i+1, places)*counts+to]})
			}
			s.bodies[rules[i*counts+n]] = all
		}
	}
	return rules[0]
}

// maxUnique bounds the values of items that must differ: which of them were written is part of the state of a text.
const maxUnique = 8

// uniqueItems is the inside of an array of different items, each of a few values. False: that is left out.
func (s *schema) uniqueItems(b *branch, at *place, n, least, most int, inside *expression) bool {
	var values []any
	few := n == 0 && len(b.contains) == 0
	branches := s.goal(b.item(0))
	for i := range branches {
		x := &branches[i]
		list := x.values
		if !x.limited {
			if x.types&^(isBoolean|isNull) != 0 {
				few = false
				break
			}
			list = []any{true, false, nil}
		}
		for _, v := range list {
			if s.holds(x, v) && !contains(s, values, v) {
				values = append(values, v)
			}
		}
	}
	if !few || len(values) > maxUnique {
		return !s.refuse(b.unique.up, b.unique.part, "is supported for items of up to %d values", maxUnique)
	}
	rules := make([]rule, 1<<len(values))
	for i := range rules {
		rules[i] = s.add(at.at("uniqueItems"), choice{})
	}
	for set := range rules {
		count := bits.OnesCount(uint(set))
		var all choice
		if count >= least && (most < 0 || count <= most) {
			all = append(all, sequence{})
		}
		for i, v := range values {
			if set>>i&1 == 1 || most >= 0 && count >= most {
				continue
			}
			comma := expression(sequence{})
			if count > 0 {
				comma = s.comma()
			}
			all = append(all, sequence{comma, literal(s.write(v, at)), rules[set|1<<i]})
		}
		s.bodies[rules[set]] = all
	}
	*inside = rules[0]
	return true
}
