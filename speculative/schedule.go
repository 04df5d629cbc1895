package speculative

import "time"

// A Schedule decides how many tokens to draft. It is asked before each round and after each drafted token. It belongs
// to one [Decoder], which keeps it between texts with what it learned.
type Schedule interface {
	// Length is the most tokens to draft after a sequence of n tokens; 0 means none.
	Length(n int) int
	// Stop reports whether the draft, which has at least one token, ends here. The last token is verified all the
	// same: dropping it because of its value would change the distribution under verifiers that need probabilities.
	Stop(d *Draft) bool
	// NeedsConfidence reports whether Stop uses the tokens' confidence, which takes time to compute.
	NeedsConfidence() bool
	// Observe is told the result of a round. r is valid during the call.
	Observe(r *Round)
}

// Round is the record of one round.
type Round struct {
	Position  int // of the round's first token: the length of the sequence before the round
	Requested int // tokens that the schedule asked for, before the bounds of token budget and context
	Draft     *Draft
	Path      []int32       // indices in Draft of the accepted tokens
	Next      int32         // the target's own token after them
	Drafting  time.Duration // of drafting; of Metered sequences the cost of their passes, here and below
	Verifying time.Duration // of the target's pass and the verifier
}

// Drafted is the number of tokens that drafters drafted.
func (r *Round) Drafted() int { return r.Draft.Len() - r.Draft.forced }

// Accepted is the number of these that were accepted.
func (r *Round) Accepted() int { return len(r.Path) - r.ForcedAccepted() }

// Forced is the number of tokens of the draft that a constraint forced.
func (r *Round) Forced() int { return r.Draft.forced }

// ForcedAccepted is the number of these that were accepted.
func (r *Round) ForcedAccepted() int {
	n := 0
	for _, i := range r.Path {
		if r.Draft.isForced(int(i)) {
			n++
		}
	}
	return n
}

// rejected is the index of the first token that was not accepted, -1 if a whole branch was.
func (r *Round) rejected() int {
	node := -1
	if n := len(r.Path); n > 0 {
		node = int(r.Path[n-1])
	}
	return r.Draft.firstChild(node)
}

// Constant drafts the same number of tokens in each round, fewer when the confidence of one falls below a minimum.
// Transformers: num_assistant_tokens_schedule "constant".
func Constant(o ConstantOptions) Schedule {
	return &constant{length(o.Length, 5), o.MinConfidence}
}

// ConstantOptions configure [Constant].
type ConstantOptions struct {
	Length        int     // most tokens of a draft; 0: 5, negative: none
	MinConfidence float32 // a draft ends after a token below it; 0: never
}

// length is n, or the default if n is 0.
func length(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return max(0, n)
}

type constant struct {
	length    int
	threshold float32
}

func (c *constant) Length(int) int        { return c.length }
func (c *constant) Stop(d *Draft) bool    { return below(d, c.threshold) }
func (c *constant) NeedsConfidence() bool { return c.threshold > 0 }
func (c *constant) Observe(*Round)        {}

// below reports whether the last token's confidence is under the threshold.
func below(d *Draft, threshold float32) bool {
	i := d.Len() - 1
	for i > 0 && d.isForced(i) {
		i--
	}
	return d.Confidence[i] < threshold
}

// Heuristic asks for two tokens more after each round in which all the tokens it asked for were accepted, otherwise for
// one fewer, but at least one (Gante 2023). A round without a draft changes nothing. Transformers:
// num_assistant_tokens_schedule "heuristic".
func Heuristic(o HeuristicOptions) Schedule {
	return &heuristic{constant{length(o.Length, firstHeuristic), o.MinConfidence}}
}

// firstHeuristic is the published length of the first draft.
const firstHeuristic = 5

// HeuristicOptions configure [Heuristic].
type HeuristicOptions struct {
	Length        int     // most tokens of the first draft; 0: 5
	MinConfidence float32 // a draft ends after a token below it; 0: never
}

type heuristic struct{ constant }

func (h *heuristic) Observe(r *Round) {
	switch {
	case r.Drafted() == 0:
	case r.Accepted() == h.length:
		h.length += 2
	default:
		h.length = max(1, h.length-1)
	}
}
