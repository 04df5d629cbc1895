package speculative

import "github.com/specgo/spec/engine/sampling"

// Source is who wrote a token.
type Source string

// Sources. Drafters from outside this package may have others.
const (
	SourceTarget  Source = "target"  // the target's own token
	SourceDraft   Source = "draft"   // a draft model
	SourceLookup  Source = "lookup"  // found in the text
	SourceGrammar Source = "grammar" // the constraint left no choice
	// SourcePrevious: of an earlier answer
	SourcePrevious Source = "previous"
)

// Parameters of forced tokens.
const (
	// ForcedMost is the most forced tokens of a round, whatever Options.Rows says; longer runs take several. Auto tells no
	// longer passes apart.
	ForcedMost = maxVerify - 1
	// forcedAlone is the number of forced tokens at the beginning of a draft from which on a drafter that is not
	// Continuing is not asked.
	forcedAlone = 3
	// priorForced is how often a forced token is accepted before anything is known: other spellings of its bytes are
	// allowed too, but models are trained on the tokenizer's.
	priorForced = 0.95
	// likelyForced is the acceptance from which on a plain pass need not be measured: forced tokens gain.
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
