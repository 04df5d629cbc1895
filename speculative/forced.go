package speculative

import (
	"slices"

	"github.com/specgo/spec/engine/sampling"
)

// Source is who wrote a token.
type Source string

// Sources. Drafters from outside this package may have others.
const (
	SourceTarget  Source = "target"  // the target's own token
	SourceDraft   Source = "draft"   // a draft model
	SourceLookup  Source = "lookup"  // found in the text
	SourceGrammar Source = "grammar" // the constraint left no choice
)

// Parameters of forced tokens.
const (
	// forcedMost is the most forced tokens of a round; longer runs take several. Auto tells no longer passes apart.
	forcedMost = maxVerify - 1
	// forcedAlone is the number of forced tokens at the beginning of a draft from which on a drafter that is not
	// Continuing is not asked.
	forcedAlone = 3
	// priorForced is how often a forced token is accepted before anything is known: other spellings of its bytes are
	// allowed too, but models are trained on the tokenizer's.
	priorForced = 0.95
	// likelyForced is the acceptance from which on a plain pass need not be measured: forced tokens pay for themselves.
	likelyForced = 0.7
)

// constrained is what a draft knows of the text's constraint.
type constrained struct {
	rules     sampling.Constraint // nil: none
	root      int32               // state after the sequence
	states    []int32             // after each token; deadState after one that is forbidden
	own       []int               // tokens of drafters on each token's path, itself included
	prefix    int                 // forced tokens at the beginning, a chain
	forced    int                 // forced tokens, those of prefix included
	mostDepth int                 // most tokens on a path, forced ones included
	forcing   bool                // the token that is added is forced
	err       error               // of the constraint
}

// deadState is behind tokens that the constraint forbids.
const deadState = -1

func (c *constrained) reset() {
	c.states, c.own = c.states[:0], c.own[:0]
	c.prefix, c.forced, c.mostDepth, c.forcing, c.err = 0, 0, 0, false, nil
}

// state is the constraint's state after node (-1: the end of the sequence).
func (c *constrained) state(node int) int32 {
	if node < 0 {
		return c.root
	}
	return c.states[node]
}

// dead reports whether no token may follow node.
func (c *constrained) dead(node int) bool { return c.rules != nil && c.state(node) == deadState }

// after is the state after token id behind node, and whether the constraint allows it there.
func (c *constrained) after(node int, id int32) (int32, bool) {
	if c.rules == nil {
		return 0, true
	}
	at := c.state(node)
	if at == deadState || c.err != nil || id < 0 {
		return deadState, false
	}
	to, ok, err := c.rules.Next(at, id)
	if err != nil {
		c.err = err
	}
	if !ok || err != nil {
		return deadState, false
	}
	return to, true
}

// note notes the state after a token that was added behind node.
func (c *constrained) note(node int, state int32) {
	own := 0
	if node >= 0 {
		own = c.own[node]
	}
	if c.forcing {
		c.forced++
	} else {
		own++
	}
	c.own = append(c.own, own)
	c.states = append(c.states, state)
}

// isForced reports whether token i is forced: it adds no token of a drafter to its path.
func (d *Draft) isForced(i int) bool {
	if d.forced == 0 {
		return false
	}
	before := 0
	if p := d.Parent(i); p >= 0 {
		before = d.own[p]
	}
	return d.own[i] == before
}

// ownDepth is the place of token i among the tokens of drafters on its path, from 1; of a forced one the place of the
// last before it.
func (d *Draft) ownDepth(i int) int {
	if d.forced == 0 {
		return d.Depth(i)
	}
	return d.own[i]
}

// Allows reports whether the text's constraint allows token id after node (-1: the end of the sequence). Without a
// constraint every token is allowed.
func (d *Draft) Allows(node int, id int32) bool {
	_, ok := d.after(node, id)
	return ok
}

// Prefix is the number of tokens at the beginning of the draft that a constraint forces, a chain. A drafter that is
// [Continuing] drafts what follows them.
func (d *Draft) Prefix() int { return d.prefix }

// Extend adds the tokens that the constraint forces after node (-1: the end of the sequence) and returns the last of
// them, node itself if there are none. A drafter that calls it after adding a token, and goes on behind the result,
// spares its model the passes for these tokens.
func (d *Draft) Extend(node int) int {
	if d.rules == nil || d.err != nil || node >= len(d.Tokens) || d.dead(node) ||
		node >= 0 && (d.isEnd != nil && d.isEnd(d.Tokens[node]) || d.firstChild(node) >= 0) {
		return node
	}
	ids, err := d.rules.Forced(d.state(node))
	if err != nil {
		d.err = err
		return node
	}
	source := d.Source
	d.Source, d.forcing = SourceGrammar, true
	for _, id := range ids {
		depth := 1
		if node >= 0 {
			depth = d.depth[node] + 1
		}
		if d.forced >= forcedMost || depth > d.mostDepth || d.Parents != nil && len(d.Tokens) >= d.treeMax ||
			!d.AddChild(node, id, 1, nil) {
			break
		}
		node = len(d.Tokens) - 1
	}
	d.Source, d.forcing = source, false
	d.maxDepth = min(d.maxDepth, d.mostDepth)
	return node
}

// extend makes room for so many tokens of a drafter after the prefix.
func (d *Draft) extend(nodes, treeMax, maxDepth int) {
	d.nodes, d.treeMax, d.maxDepth = d.prefix+nodes, treeMax, d.prefix+maxDepth
}

// begin begins a draft with the prefix of another one.
func (d *Draft) begin(with *Draft) {
	d.reset(0, with.treeMax, 0)
	d.mostDepth, d.Source, d.forcing = with.mostDepth, SourceGrammar, true
	for i := range with.prefix {
		d.AddChild(i-1, with.Tokens[i], 1, nil)
	}
	d.prefix, d.Source, d.forcing = with.prefix, SourceDraft, false
}

// truncate keeps the first n tokens of a forced chain as the draft's prefix.
func (d *Draft) truncate(n int) {
	d.Tokens, d.parents, d.depth, d.lanes = d.Tokens[:n], d.parents[:n], d.depth[:n], d.lanes[:n]
	d.Confidence, d.Probs, d.Sources, d.states, d.own = d.Confidence[:n], d.Probs[:n], d.Sources[:n], d.states[:n],
		d.own[:n]
	d.prefix, d.forced, d.ended = n, n, false
}

// continues reports whether a drafter continues forced tokens.
func continues(d Drafter) bool {
	c, ok := d.(Continuing)
	return ok && c.Continues()
}

// force begins the draft with the tokens that are forced after the sequence, at most room of them, and reports
// whether the drafter is asked too.
func (d *Decoder) force(room int) (ask bool) {
	x := &d.draft
	x.mostDepth = room
	if x.rules == nil {
		return true
	}
	x.root = d.constraint.at
	if x.Extend(-1); x.err != nil || x.forced == 0 {
		return x.err == nil
	}
	all := x.Len()
	if d.drafter != nil && !continues(d.drafter) && all < forcedAlone {
		x.truncate(0)
		return true
	}
	n := all
	if s, ok := d.schedule.(Forcing); ok {
		n = min(all, max(0, s.Force(all)))
	}
	ended := x.ended
	x.truncate(n)
	x.ended = ended && n == all
	return n == 0 || n == all && continues(d.drafter)
}

// forcedChance is the probability that a forced token is accepted if those before it are.
func (a *auto) forcedChance() float64 { return a.forcedRate.after(priorForced) }

// Force is the number of forced tokens with which the pass brings the most tokens per second. Where they do not pay for
// themselves, one is verified now and then, as a trial.
func (a *auto) Force(n int) int {
	a.forced = n
	if !a.known() {
		return n
	}
	chance, reach, tokens := a.forcedChance(), 1.0, 1.0
	if chance < likelyForced && a.plainDue() {
		a.forced = 0
		return 0
	}
	best, bestRate := 0, 1/a.pass(0)
	for k := 1; k <= n; k++ {
		reach = float64(reach * chance)
		tokens += reach
		if r := tokens / a.pass(k); r > bestRate {
			best, bestRate = k, r
		}
	}
	if loss := a.pass(1) - a.pass(0); best == 0 && a.lost+loss <= trialShare*a.elapsed {
		a.lost += loss
		best = 1
	}
	a.forced = best
	return best
}

// observeForced learns how often forced tokens are accepted.
func (a *auto) observeForced(r *Round) {
	a.forced = 0
	for i := range r.Draft.Len() {
		if !r.Draft.isForced(i) {
			continue
		}
		if p := r.Draft.Parent(i); p >= 0 && !slices.Contains(r.Path, int32(p)) {
			continue
		}
		hit := 0.0
		if slices.Contains(r.Path, int32(i)) {
			hit = 1
		}
		a.forcedRate.add(hit)
	}
}
