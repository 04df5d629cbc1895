package speculative

import (
	"fmt"
	"math/bits"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// constraintState is a constraint and its state after the sequence.
type constraintState struct {
	sampling.Constraint // nil: none
	at                  int32
	banned              map[int32]bool // tokens that are never chosen
}

// start begins a text: the constraint begins where generation does.
func (c *constraintState) start(s engine.Sampling) {
	*c = constraintState{Constraint: s.Constraint}
	if c.Constraint == nil {
		return
	}
	c.at, c.banned = c.Start(), make(map[int32]bool)
	for _, id := range s.Banned {
		c.banned[id] = true
	}
	for id, x := range s.LogitBias {
		if x < 0 && x-x != 0 { // -Inf
			c.banned[id] = true
		}
	}
}

// next goes on by a token of the text.
func (c *constraintState) next(id int32) error {
	if c.Constraint == nil {
		return nil
	}
	at, ok, err := c.Next(c.at, id)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", sampling.ErrConstraint, err)
	case !ok:
		return fmt.Errorf("%w: the verifier chose token %d, which is not allowed", sampling.ErrConstraint, id)
	}
	c.at = at
	return nil
}

// complete reports whether the text is complete and no token may follow it, not even one that ends it.
func (c *constraintState) complete() (bool, error) {
	if c.Constraint == nil || !c.Final(c.at) {
		return false, nil
	}
	mask, err := c.Mask(c.at)
	if err != nil {
		return false, fmt.Errorf("%w: %w", sampling.ErrConstraint, err)
	}
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			if !c.banned[int32(64*i+bits.TrailingZeros64(word))] {
				return false, nil
			}
		}
	}
	return true, nil
}
