package shared

import (
	"container/heap"
	"math"
	"slices"
	"sync/atomic"

	"github.com/specgo/spec/engine"
)

// prefixes are the sequences that are kept after their sessions, for others that begin alike: for each lineage a radix
// tree of their tokens. What sequences have in common is one path in it, and their keys and values share pages, so that
// each costs what it has beyond the others.
//
// Where memory is short the sequence goes that is worth least, from its end on, page by page, as far as its beginning
// can be restored. Its worth is the tokens that would have to be computed again for each byte that would be free, and
// its age: what is used from now on is worth more, by the worth of what went last (GreedyDual-Size, Cao and
// Irani 1997). Between models a token counts for the work that it is ([Options].Work).
type prefixes struct {
	budget  int64         // most bytes; those of sequences that are in use as well count too
	bytes   atomic.Int64  // what is kept takes, pages that several share once
	used    *atomic.Int64 // of the ledger: counts what heads have beyond their sequences
	roots   map[lineage]*node
	kept    byWorth
	floor   *floor // of all that a [Kept] bounds
	work    float64
	evicted evictions
}

// evictions count what went for memory.
type evictions struct {
	sequences int64 // whole ones
	tokens    int64 // that no kept sequence gives any more
}

// lineage is what two sequences have in common, besides tokens, where one can go on from the other's state.
type lineage struct {
	options SessionOptions
	read    bool   // of a draft head: each token goes in with the target's states of a text; see Session.Resume
	before  int32  // of such a text: the token before the sequence; -1: none
	encoder string // the input of an encoder-decoder model, as inputKey has it; "": none
}

// prefix is a sequence that is kept after its session, with all that it consists of.
type prefix struct {
	lineage
	session *engine.Session // keys, values, recurrent state
	unread                  // of a draft head

	at    *node   // where it ends
	place int     // in the heap
	worth float64 // as of when that was last looked at; what is used since is worth more
	rest  int     // tokens of it that the others give, as of when that was last looked at
	open  []int   // tokens of it that open sessions have, which go on from forks of it
}

// unread is what a draft head has of a text beyond its sequence: the target's states after tokens with which it has
// not been fed.
type unread struct {
	tokens []int32
	states []float32
}

func (u unread) bytes() int64 { return 4 * int64(len(u.tokens)+len(u.states)) }

// node is tokens that follow those of its parent. It has a sequence that ends with them, or several children, or is the
// root.
type node struct {
	parent   *node // nil: the root
	tokens   []int32
	end      int // tokens up to its end, from the beginning of the text
	children []*node
	kept     *prefix // which ends here; nil: none does
	age      float64 // the floor when it was used last
}

// child is the one whose tokens begin with id; nil: there is none.
func (x *node) child(id int32) *node {
	for _, y := range x.children {
		if y.tokens[0] == id {
			return y
		}
	}
	return nil
}

// descend follows tokens: at is the last node with tokens of theirs, of which n are in the tree.
func (x *node) descend(tokens []int32) (at *node, n int) {
	for at = x; n < len(tokens); {
		next := at.child(tokens[n])
		if next == nil {
			break
		}
		n += engine.Common(next.tokens, tokens[n:])
		if at = next; n < at.end {
			break
		}
	}
	return at, n
}

// split makes n tokens of the path to x end with a node, which it returns.
func (x *node) split(n int) *node {
	if n == x.end {
		return x
	}
	head := len(x.tokens) - (x.end - n)
	upper := &node{parent: x.parent, tokens: x.tokens[:head:head], end: n, children: []*node{x}, age: x.age}
	x.parent.children[slices.Index(x.parent.children, x)] = upper
	x.parent, x.tokens = upper, x.tokens[head:]
	return upper
}

// each calls f with the sequences that end at x or below it, but for those below a child, until f returns false.
func (x *node) each(but *node, f func(*prefix) bool) bool {
	if x.kept != nil && !f(x.kept) {
		return false
	}
	for _, y := range x.children {
		if y != but && !y.each(nil, f) {
			return false
		}
	}
	return true
}

// best is the sequence that gives the most of the first n tokens of the path to x, and how many. but is not looked at.
func (x *node) best(n int, but *prefix) (from *prefix, most int) {
	for below := (*node)(nil); x != nil; below, x = x, x.parent {
		if n = min(n, x.end); most >= n {
			break
		}
		x.each(below, func(o *prefix) bool {
			if o != but {
				if k := o.session.Restorable(n); k > most {
					from, most = o, k
				}
			}
			return most < n
		})
	}
	return from, most
}

// use makes the tokens on the path to x those used last.
func (p *prefixes) use(x *node) {
	for ; x != nil; x = x.parent {
		x.age = p.floor.worth()
	}
}

// longest is the sequence of a lineage that gives the most of these tokens, and how many; nil: none gives any.
func (p *prefixes) longest(l lineage, tokens []int32) (from *prefix, n int) {
	root := p.roots[l]
	if root == nil {
		return nil, 0
	}
	at, n := root.descend(tokens)
	return at.best(n, nil)
}

// give is a sequence's memory for a session that goes on from n tokens of it, which are used last then: the kept
// sequence is no more.
func (p *prefixes) give(o *prefix, n int) (*engine.Session, error) {
	p.use(o.at)
	p.remove(o)
	o.session.Keep(nil)
	return o.session, o.session.Truncate(n)
}

// fork makes a session that goes on from n tokens of a sequence, which are used last then.
func (p *prefixes) fork(o *prefix, n int) (*engine.Session, error) {
	p.use(p.path(o, n))
	return o.session.ForkAt(n)
}

// path is the node with which the first n tokens of a sequence end.
func (p *prefixes) path(o *prefix, n int) *node {
	x := o.at
	for x.parent != nil && x.parent.end >= n {
		x = x.parent
	}
	return x.split(n)
}

// keep adds a sequence, which has been used now, unless another one gives all of it; those of which it gives all are no
// longer kept. What is worth least goes, to stay within the budget: that may be the sequence itself. keep reports
// whether it has the session now.
func (p *prefixes) keep(o *prefix) bool {
	tokens := o.session.Tokens()
	if from, n := p.longest(o.lineage, tokens); n == len(tokens) {
		p.use(p.path(from, n))
		return false
	} else if from != nil {
		o.session.Share(from.session, n) // what was computed twice
		o.rest = n
	}
	o.session.Shrink()
	o.session.Keep(&p.bytes)
	p.count(o.unread.bytes())
	p.insert(o)
	p.use(o.at)
	for x := o.at.parent; x != nil; x = x.parent {
		if x.kept != nil && o.session.Restorable(x.end) == x.end {
			p.drop(x.kept)
		}
	}
	for p.bytes.Load() > p.budget && p.evict(nil) {
	}
	return true
}

func (p *prefixes) count(bytes int64) {
	p.used.Add(bytes)
	p.bytes.Add(bytes)
}

// insert puts a sequence into the tree.
func (p *prefixes) insert(o *prefix) {
	root := p.roots[o.lineage]
	if root == nil {
		root = &node{}
		p.roots[o.lineage] = root
	}
	tokens := o.session.Tokens()
	at, n := root.descend(tokens)
	if at = at.split(n); n < len(tokens) {
		end := &node{parent: at, tokens: slices.Clone(tokens[n:]), end: len(tokens), age: at.age}
		at.children = append(at.children, end)
		at = end
	}
	at.kept, o.at = o, at
	o.worth = p.now(o)
	heap.Push(&p.kept, o)
}

// remove takes a sequence out of the tree, with the tokens that are no other's.
func (p *prefixes) remove(o *prefix) {
	p.count(-o.unread.bytes())
	heap.Remove(&p.kept, o.place)
	p.leave(o.lineage, o.at)
}

// leave ends what ends at x, and takes out the nodes that are no other sequence's.
func (p *prefixes) leave(l lineage, x *node) {
	for x.kept = nil; x.kept == nil && len(x.children) == 0 && x.parent != nil; x = x.parent {
		x.parent.children = slices.DeleteFunc(x.parent.children, func(y *node) bool { return y == x })
	}
	if x.parent == nil && len(x.children) == 0 {
		delete(p.roots, l)
	}
}

// drop ends a sequence.
func (p *prefixes) drop(o *prefix) {
	p.remove(o)
	o.session.Close()
}

// now is what a sequence is worth now.
func (p *prefixes) now(o *prefix) float64 {
	lost, bytes := o.session.Len()-o.rest, o.session.Held(o.rest)+o.unread.bytes()
	if o.rest == 0 {
		lost += len(o.session.Input())
	}
	return o.at.age + p.ratio(lost, bytes)
}

// ratio is what tokens are worth, by what computing them takes, for each byte.
func (p *prefixes) ratio(tokens int, bytes int64) float64 {
	return float64(p.work*float64(tokens)) / float64(max(bytes, 1))
}

// next is what the sequence that goes next is worth; infinite: none is kept.
func (p *prefixes) next() float64 {
	if o := p.least(nil); o != nil {
		return o.worth
	}
	return math.Inf(1)
}

// byWorth is a heap of sequences by what they were worth when that was last looked at.
type byWorth []*prefix

func (h byWorth) Len() int           { return len(h) }
func (h byWorth) Less(i, j int) bool { return h[i].worth < h[j].worth }
func (h byWorth) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *byWorth) Push(x any) {
	o := x.(*prefix)
	o.place = len(*h)
	*h = append(*h, o)
}

func (h *byWorth) Pop() any {
	n := len(*h) - 1
	o := (*h)[n]
	(*h)[n], *h = nil, (*h)[:n]
	return o
}

// least is the sequence that is worth least, but for one; nil: there is no other. A sequence is looked at again when it
// was worth least: others have come or gone, or it has been used.
func (p *prefixes) least(but *prefix) *prefix {
	if but != nil {
		heap.Remove(&p.kept, but.place)
		defer heap.Push(&p.kept, but)
	}
	for len(p.kept) > 0 {
		o := p.kept[0]
		_, rest := o.at.best(o.at.end, o)
		for _, n := range o.open {
			rest = max(rest, n)
		}
		o.rest = rest
		w := p.now(o)
		if w <= o.worth {
			o.worth = w
			return o
		}
		o.worth = w
		heap.Fix(&p.kept, 0)
	}
	return nil
}

// evict gives up a page, or more where less cannot be, of what is worth least, but for one sequence. It reports false
// if nothing else is kept.
func (p *prefixes) evict(but *prefix) bool {
	o := p.least(but)
	if o == nil {
		return false
	}
	p.floor.raise(p.now(o))
	had := o.session.Len()
	n := o.session.Restorable((had - 1) / engine.KVPage * engine.KVPage)
	if n <= max(o.rest, leastShared-1) {
		p.evicted.sequences++
		p.evicted.tokens += int64(had - o.rest)
		p.drop(o)
		return true
	}
	p.evicted.tokens += int64(had - n)
	p.cut(o, n)
	return true
}

// cut shortens a sequence to n tokens, which are restorable.
func (p *prefixes) cut(o *prefix, n int) {
	at := p.path(o, n)
	p.count(-o.unread.bytes())
	o.unread = unread{}
	_ = o.session.Truncate(n) // it has more
	o.session.Shrink()
	old := o.at
	at.kept, o.at = o, at
	p.leave(o.lineage, old)
	o.worth = p.now(o)
	heap.Fix(&p.kept, o.place)
}
