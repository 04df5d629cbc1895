package speculative

import "math"

// Oracle knows the sequence that the target will generate, with its prompt: it is a lower bound of the passes that a
// schedule takes of the target, and no schedule for use. It drafts in every round, whatever that costs, so it is no
// bound of the time: a schedule that stops drafting may be faster. A draft holds the tokens that will be accepted and
// no others: of a tree, the right path alone is verified (drafts of constrained text stay as they are). So no schedule
// takes fewer passes of the target, but for what a drafter that learns from its rounds, as a tree does, learned
// otherwise from other rounds. (The published oracle, Mamou et al. 2024, drafts and verifies the first wrong token
// too: the same passes, one drafted token more in each.)
func Oracle(sequence []int32) Schedule { return OracleOf(OracleOptions{Sequence: sequence}) }

// OracleOptions configure [OracleOf].
type OracleOptions struct {
	Sequence []int32 // that the target will generate, with its prompt

	// Costs and Step bound the speed instead of the passes: where a pass over many tokens takes longer, accepting as
	// many as possible is not fastest. A stretch of right tokens is cut into the drafts that take the least time
	// together. What the drafter gets right after a position is learned when the text is written for the first time; the
	// bound holds from the second time on, for drafters whose draft goes on the same way after a part of it was
	// accepted, as a model's does.
	Costs PassCosts
	Step  float64 // seconds to draft a token
}

// OracleOf is [Oracle] with options.
func OracleOf(o OracleOptions) Schedule {
	x := &oracle{sequence: o.Sequence, step: o.Step, known: map[int]int{}}
	x.init(o.Costs.times(), true)
	return x
}

type oracle struct {
	passTimes
	sequence []int32
	step     float64
	known    map[int]int // by position: right tokens that the drafter has after it

	at   int
	want int   // right tokens that this draft is to have; -1: as many as there are
	path []int // right tokens of the draft
}

func (o *oracle) Length(n int) int {
	o.at, o.want = n, -1
	left := max(0, len(o.sequence)-n)
	right, ok := o.known[n]
	if !ok || !o.any {
		return left
	}
	o.want = o.first(min(right, left)+1) - 1
	for i := range o.want + 1 { // the draft goes on the same way
		if _, ok := o.known[n+i]; !ok {
			o.known[n+i] = right - i
		}
	}
	if after := n + o.want + 1; o.want < right {
		if _, ok := o.known[after]; !ok {
			o.known[after] = right - o.want - 1
		}
	}
	if o.want == 0 {
		return 0
	}
	return left
}

// first is the number of tokens that the first of the passes brings which bring n tokens in the least time: a pass
// that verifies k right tokens brings k+1.
func (o *oracle) first(n int) int {
	least, part := make([]float64, n+1), make([]int, n+1)
	for i := 1; i <= n; i++ {
		least[i] = math.Inf(1)
		for j := 1; j <= min(i, maxVerify); j++ {
			if t := o.pass(j-1) + float64(o.step*float64(j-1)) + least[i-j]; t < least[i] {
				least[i], part[i] = t, j
			}
		}
	}
	return part[n]
}

// follow finds the right path of the draft.
func (o *oracle) follow(d *Draft) {
	o.path = o.path[:0]
	for node, i := -1, o.at; i < len(o.sequence); i++ {
		if node = d.Child(node, o.sequence[i]); node < 0 {
			return
		}
		o.path = append(o.path, node)
	}
}

func (o *oracle) Stop(d *Draft) bool {
	o.follow(d)
	last, right := d.Len()-1, -1
	if n := len(o.path); n > 0 {
		right = o.path[n-1]
	}
	switch {
	case o.want >= 0 && len(o.path) >= o.want, o.at+len(o.path)+1 >= len(o.sequence):
		return true
	case d.Ranked: // a later node may be right
		return false
	}
	return last != right
}

// Trim chooses the right path of a draft.
func (o *oracle) Trim(d *Draft) []int {
	o.follow(d)
	if o.want >= 0 {
		return o.path[:min(len(o.path), o.want)]
	}
	o.known[o.at] = len(o.path)
	return o.path
}

func (o *oracle) NeedsConfidence() bool { return false }
func (o *oracle) Observe(*Round)        {}
