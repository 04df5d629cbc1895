package sampling

import (
	"errors"
	"fmt"
	"math/bits"
)

// Constraint says which tokens may follow each other in generated text. A state stands for everything that the
// constraint knows of the text so far: a number ≥ 0 that means the same for ever, so that every node of a tree of
// drafted tokens can have one. A Constraint that sessions share must be safe for concurrent use. [*grammar.Constraint]
// is one.
//
// Errors mean that the answer is not known: limits of the constraint's machine.
type Constraint interface {
	// Start is the state before the first generated token.
	Start() int32
	// Next is the state after token id; false if id is not allowed in this state.
	Next(state, id int32) (next int32, ok bool, err error)
	// Mask is the tokens that are allowed in a state: bit id%64 of word id/64. Tokens beyond the last word are not
	// allowed. The caller must not change it.
	Mask(state int32) ([]uint64, error)
	// Forced is the tokens that are certain in a state, in order; none if there is a choice. The caller must not change
	// them.
	Forced(state int32) ([]int32, error)
	// Final reports whether the text may end in a state.
	Final(state int32) bool
}

var (
	// ErrConstraint is returned where a constraint leaves no token to choose, refuses a token of the history, or fails.
	ErrConstraint = errors.New("constraint")
	// ErrBanned says that bans and biases leave none of the tokens that a constraint allows. It wraps ErrConstraint.
	ErrBanned = fmt.Errorf("%w: all that it allows is banned", ErrConstraint)
	// ErrComplete says that the constrained text is complete and that no end-of-text token can be chosen after it: the
	// vocabulary has none, or all are banned. It is the end of the text, not a failure.
	ErrComplete = errors.New("the constrained text is complete")
)

// constraintPath follows a constraint along a history. It keeps the states of the last one, so that a history that
// continues it, or branches off it, costs its new tokens and a comparison.
type constraintPath struct {
	tokens []int32 // generated part of the last history
	states []int32 // before each of tokens, and after the last
}

// comparedTokens is how many tokens are compared at once: arrays compare as memory does.
const comparedTokens = 64

// state is the constraint's state after history, whose generated part begins at from.
func (p *constraintPath) state(c Constraint, history []int32, from int) (int32, error) {
	if len(history) < from {
		return 0, fmt.Errorf("%w: a history of %d tokens, but generated text begins at %d",
			ErrConstraint, len(history), from)
	}
	generated := history[from:]
	if len(p.states) == 0 {
		p.states = append(p.states, c.Start())
	}
	n, both := 0, min(len(generated), len(p.tokens))
	for n+comparedTokens <= both && [comparedTokens]int32(generated[n:]) == [comparedTokens]int32(p.tokens[n:]) {
		n += comparedTokens
	}
	for n < both && generated[n] == p.tokens[n] {
		n++
	}
	p.tokens, p.states = p.tokens[:n], p.states[:n+1]
	for i, id := range generated[n:] {
		next, ok, err := c.Next(p.states[n+i], id)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrConstraint, err)
		case !ok:
			return 0, fmt.Errorf("%w: token %d at position %d is not allowed", ErrConstraint, id, from+n+i)
		}
		p.tokens, p.states = append(p.tokens, id), append(p.states, next)
	}
	return p.states[len(generated)], nil
}

// sparseWord is the most allowed tokens of 64 that are kept one by one while all are overwritten; of more, the others
// are.
const sparseWord = 24

// forbidden is the logits of 64 tokens that are not allowed.
var forbidden = func() (x [64]float32) {
	for i := range x {
		x[i] = negInf
	}
	return x
}()

// constrain sets the logits of tokens that the constraint forbids after history to -Inf. If none is left it sets s.err.
func (s *Sampler) constrain(x []float32, history []int32) {
	c := s.o.Constraint
	state, err := s.path.state(c, history, s.o.ConstraintFrom)
	var mask []uint64
	if err == nil {
		if mask, err = c.Mask(state); err != nil {
			err = fmt.Errorf("%w: %w", ErrConstraint, err)
		}
	}
	if err != nil {
		s.err, mask = err, nil
	}
	left := false // a token that may be chosen; NaN counts, that is another error
	for first := 0; first < len(x); first += 64 {
		word := uint64(0)
		if first/64 < len(mask) {
			word = mask[first/64]
		}
		chunk := x[first:min(first+64, len(x))]
		word &= 1<<len(chunk) - 1 // of 64, 1<<64 is 0 and the mask all ones
		for rest := word; rest != 0 && !left; rest &= rest - 1 {
			left = chunk[bits.TrailingZeros64(rest)] != negInf
		}
		if bits.OnesCount64(word) > sparseWord {
			for not := ^word & (1<<len(chunk) - 1); not != 0; not &= not - 1 {
				chunk[bits.TrailingZeros64(not)] = negInf
			}
			continue
		}
		var kept [sparseWord]float32
		n := 0
		for rest := word; rest != 0; rest &= rest - 1 {
			kept[n] = chunk[bits.TrailingZeros64(rest)]
			n++
		}
		copy(chunk, forbidden[:])
		n = 0
		for rest := word; rest != 0; rest &= rest - 1 {
			chunk[bits.TrailingZeros64(rest)] = kept[n]
			n++
		}
	}
	switch {
	case left || s.err != nil:
	case c.Final(state):
		s.err = ErrComplete
	default:
		s.err = fmt.Errorf("%w: no token is allowed at position %d", ErrConstraint, len(history))
		if ids := allowed(mask, len(x)); len(ids) > 0 {
			s.err = fmt.Errorf("%w: at position %d token%s", ErrBanned, len(history), listed(ids))
		}
	}
}

// allowed are the tokens below n of a mask.
func allowed(mask []uint64, n int) (ids []int) {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			if id := 64*i + bits.TrailingZeros64(word); id < n {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// listed is the first of several numbers, for a message.
func listed(ids []int) string {
	const most = 4
	if len(ids) == 1 {
		return fmt.Sprint(" ", ids[0])
	}
	if len(ids) > most {
		return fmt.Sprintf("s %v and %d more", ids[:most], len(ids)-most)
	}
	return fmt.Sprintf("s %v", ids)
}

// Err is why the last call chose no token, if that is the constraint's doing: [ErrComplete], or an error that wraps
// [ErrConstraint]. It is nil if a token was chosen.
func (s *Sampler) Err() error { return s.err }
