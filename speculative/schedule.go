package speculative

import "time"

// A Schedule says how many tokens to draft. It is asked before each round and after each drafted
// token, and it is kept from text to text, so it goes on with what it learned.
type Schedule interface {
	// Length is the most tokens to draft after a text of n tokens; 0 means none.
	Length(n int) int
	// Stop reports whether the draft, which has at least one token, is to end here. The last token
	// is sent all the same: dropping it because of its value would bend the distribution under the
	// rejection rules.
	Stop(d *Draft) bool
	// NeedsConfidence reports whether Stop looks at the tokens' confidence, which costs time to compute.
	NeedsConfidence() bool
	// Observe is told how the round went. r is valid during the call.
	Observe(r *Round)
}

// Round is what happened in one round.
type Round struct {
	Position  int // of the round's first token: the tokens before it
	Requested int // what the schedule asked for, before the bounds of budget and context
	Draft     *Draft
	Path      []int32 // the accepted tokens' indices in Draft
	Next      int32   // the target's own token after them
	Drafting  time.Duration
	Verifying time.Duration // of the target's pass and the rule
}

// Drafted is the number of drafted tokens.
func (r *Round) Drafted() int { return r.Draft.Len() }

// Accepted is the number of drafted tokens that were accepted.
func (r *Round) Accepted() int { return len(r.Path) }

// rejected is the index of the token at which the target turned away, -1 if it kept a whole branch.
func (r *Round) rejected() int {
	node := -1
	if n := len(r.Path); n > 0 {
		node = int(r.Path[n-1])
	}
	return r.Draft.eldest(node)
}

// Constant drafts length tokens each round, fewer when a token's confidence falls below threshold
// (0: never). Transformers: num_assistant_tokens_schedule "constant", with 5 and 0.
func Constant(o ConstantOptions) Schedule {
	return &constant{length(o.Length, 5), o.MinConfidence}
}

// ConstantOptions configure [Constant].
type ConstantOptions struct {
	Length        int     // most tokens of a draft; 0: 5, negative: none
	MinConfidence float32 // a draft ends after a token below it; 0: never
}

// length is what is asked for, or the default.
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
	return d.Confidence[d.Len()-1] < threshold
}

// Heuristic starts with length tokens and asks for two more after each round in which all the
// tokens it asked for were accepted, else for one fewer, but at least one (Gante 2023). A round
// that could not draft at all teaches nothing. Transformers: num_assistant_tokens_schedule
// "heuristic", with 5 and 0.
func Heuristic(o HeuristicOptions) Schedule {
	return &heuristic{constant{length(o.Length, 5), o.MinConfidence}}
}

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

// Oracle knows what the target will write, the whole text with its prompt, and stops each draft
// after its first wrong token, one of [Tree] when it went astray. It measures what the best schedule
// could reach with a drafter.
func Oracle(text []int32) Schedule { return &oracle{text: text} }

type oracle struct {
	text  []int32
	at    int
	right int // index of the last right token
}

// astray is how many wrong tokens in a row say that a ranked tree will bring no more right ones.
const astray = 8

func (o *oracle) Length(n int) int {
	o.at = n
	return max(0, len(o.text)-n)
}

func (o *oracle) Stop(d *Draft) bool {
	last := d.Len() - 1
	if last == 0 {
		o.right = -1
	}
	i := o.at + d.Depth(last) - 1
	if i+1 >= len(o.text) {
		return true
	}
	if d.Parent(last) == o.right && o.text[i] == d.Tokens[last] {
		o.right = last
	}
	if d.Ranked {
		return last-o.right >= astray
	}
	return last != o.right
}

func (o *oracle) NeedsConfidence() bool { return false }
func (o *oracle) Observe(*Round)        {}
