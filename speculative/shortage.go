package speculative

import (
	"errors"

	"github.com/specgo/spec/engine"
)

// shortage is what a drafter's owner knows of drafts that could not be made: memory was refused, or the constraint did
// not know what may follow. No text depends on drafts: it goes on without them for some rounds, twice as many after
// each refusal, and after a draft that was made as at first.
type shortage struct {
	until int // the round in which drafting goes on
	pause int // rounds of the last pause
}

const (
	firstPause   = 4   // rounds: a neighbor's short text may have ended by then
	longestPause = 256 // rounds: what a refusal costs is lost in them
)

// refused reports whether err says that memory is short, now or for so many tokens.
func refused(err error) bool {
	return errors.Is(err, engine.ErrKVBudget) || errors.Is(err, engine.ErrMemory)
}

// begin begins a pause after the round.
func (s *shortage) begin(round int) {
	s.pause = min(max(2*s.pause, firstPause), longestPause)
	s.until = round + 1 + s.pause
}

// over reports whether drafts are made in a round.
func (s *shortage) over(round int) bool { return round >= s.until }

// drafted is told of a round with a draft.
func (s *shortage) drafted() { s.pause = 0 }
