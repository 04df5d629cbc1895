package speculative

import (
	"context"
	"math"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// A Drafter proposes tokens that may follow a sequence. It belongs to one [Decoder], because its caches do. What else
// it may be able to do: [Attentive], [Branching], [Clocked], [Continuing], [Learning], [Merging], [Sequenced], and
// the fields Ranked, Calibrated and Likely of [Draft].
type Drafter interface {
	// Start begins a text. Work that depends on the prompt only (prefill) belongs here, so that it is not counted as
	// the cost of drafting.
	Start(ctx context.Context, s Setup) error

	// Draft adds tokens that may follow sequence to d while d.More() is true; it may add fewer. It may use the spare
	// capacity of sequence as scratch, and must not keep sequence. Where memory is short ([engine.ErrKVBudget],
	// [engine.ErrMemory]) the text goes on with what was added so far, and Draft is called again some rounds later.
	Draft(ctx context.Context, sequence []int32, d *Draft) error

	// Observe is told what became of the draft. r is valid during the call.
	Observe(r *Round)
}

// Setup tells drafters and verifiers about the text that begins.
type Setup struct {
	Target   Sequence
	Prompt   []int32 // valid during the call
	Input    []int32 // of the target's encoder, valid during the call; nil: it has none
	Sampling engine.Sampling
	Vocab    int // of the target
	Longest  int // most tokens on a path of a draft; 0: nothing will be drafted
	Most     int // tokens that will be generated at most; 0: as many as fit the context

	NeedsProbs      bool // the verifier needs each token sampled from q, and q with it
	NeedsConfidence bool // the schedule needs each token's confidence
	Evaluated       bool // the verifier is an [Evaluator]: a round's passes are its own

	Experience *Experience // of the decoder

	Lane int // different for drafters that draft side by side: they need different random numbers

	Late  bool   // the drafter reads the prompt when it first drafts
	Lanes *Lanes // that are taken within a merge; nil outside
	Clock *Clock // of the decoder: drafters with sequences enlist them, and tell it of their passes
}

// A Draft is a chain or a tree of proposed tokens.
type Draft struct {
	Tokens  []int32
	Parents []int32 // index of each token's parent in Tokens, -1: the end of the sequence; nil for a chain
	// softmax of the drafter's raw logits at the token, before penalties, temperature and filters; 1 when not needed or
	// not known
	Confidence []float32
	// the distribution q that the token was sampled from, by ascending id; nil: the token was certain
	Probs   [][]sampling.Prob
	Sources []Source // who wrote the token
	Passes  int      // forward passes that the drafter made
	Round   int      // of the text, from 0

	// Source is who writes the tokens that are added next. It is SourceDraft when a draft begins.
	Source Source

	// Ranked says that the draft is a tree whose tokens come in descending order of the probability that the text reaches
	// them. Schedules then compare a token with the next token of the tree, not with its child.
	Ranked bool
	// Calibrated says that Confidence is the probability that the token is accepted if those before it on its path are,
	// as the drafter learned it from what became of earlier drafts. Schedules then use it as it is.
	Calibrated bool
	// Likely is how likely a token of the drafter is to be accepted as long as nothing is known of its drafts; 0: the
	// drafter does not say.
	Likely float64

	depth     []int // of each token, from 1
	parents   []int32
	nodes     int // most tokens
	treeMax   int // most tokens of a tree
	maxDepth  int // most tokens on a path
	minTokens int // the schedule is not asked before so many
	vocab     int
	ended     bool
	isEnd     func(int32) bool
	schedule  Schedule

	draftRoom
	merging
	constrained
}

// reserved is how many tokens of a draft memory is reserved for; longer drafts are rare and grow.
const reserved = 1024

// alloc reserves memory for n tokens.
func (d *Draft) alloc(n int) {
	n = min(n, reserved)
	if cap(d.Tokens) >= n {
		return
	}
	d.Tokens, d.parents = make([]int32, 0, n), make([]int32, 0, n)
	d.Confidence, d.Probs = make([]float32, 0, n), make([][]sampling.Prob, 0, n)
	d.depth, d.lanes = make([]int, 0, n), make([]int8, 0, n)
	d.Sources, d.states, d.own = make([]Source, 0, n), make([]int32, 0, n), make([]int, 0, n)
}

// reset empties the draft and bounds the next one.
func (d *Draft) reset(nodes, treeMax, maxDepth int) {
	d.Tokens, d.Parents, d.parents = d.Tokens[:0], nil, d.parents[:0]
	d.Confidence, d.Probs, d.depth = d.Confidence[:0], d.Probs[:0], d.depth[:0]
	d.nodes, d.treeMax, d.maxDepth = nodes, treeMax, maxDepth
	d.lanes, d.lane, d.before = d.lanes[:0], 0, 0
	d.Passes, d.ended, d.Ranked, d.Calibrated, d.Likely = 0, false, false, false, 0
	d.Sources, d.Source = d.Sources[:0], SourceDraft
	d.constrained.reset()
}

// nodes is the most tokens of a draft of so many chains of n: a chain of n, or a tree of at most treeMax tokens.
func nodes(n, chains, treeMax int) int {
	treeMax = max(treeMax, 0)
	return max(n, min(treeMax, min(n, treeMax)*min(chains, treeMax)))
}

// limit is the most tokens that the draft can have: as a chain, or as the tree that it became.
func (d *Draft) limit() int {
	if d.Parents != nil {
		return min(d.nodes, d.treeMax, d.most())
	}
	return min(d.nodes, d.most())
}

// most is the most tokens of any kind, forced ones too, for which the pass has rows of logits.
func (d *Draft) most() int {
	if d.rows == 0 {
		return math.MaxInt
	}
	return d.rows - 1
}

// Len is the number of tokens.
func (d *Draft) Len() int { return len(d.Tokens) }

// Room is how many more tokens may be added.
func (d *Draft) Room() int { return max(0, d.limit()-len(d.Tokens)) }

// Vocab is the number of token ids that the target knows.
func (d *Draft) Vocab() int { return d.vocab }

// More reports whether another token is wanted: there is room for it, the draft does not end with an end-of-text token,
// and the schedule, which sees the tokens so far, does not stop.
func (d *Draft) More() bool {
	n := len(d.Tokens)
	switch {
	case d.ended, d.err != nil, n >= d.limit(), n > 0 && d.depth[n-1] >= d.maxDepth && d.Parents == nil:
		return false
	case n == d.forced, n-d.forced < d.minTokens, d.schedule == nil:
		return true
	}
	return !d.schedule.Stop(d)
}

// Add appends a token to the chain, with its confidence and the distribution q it was sampled from (nil when it was
// certain). It reports whether the token was taken: a token outside the target's vocabulary, beyond the draft's
// bounds, or that the constraint forbids is refused and ends the draft.
func (d *Draft) Add(id int32, confidence float32, q []sampling.Prob) bool {
	return d.AddChild(len(d.Tokens)-1, id, confidence, q)
}

// AddChild adds a token after token parent (-1: after the sequence), which may turn the draft into a tree. In a tree
// a refused token ends only its own branch. Also refused are a parent that is not in the draft, and a branch when the
// draft already has as many tokens as a tree of the target may have. A token that the constraint forbids and that was
// sampled from some q is taken all the same, since leaving it out would change the distribution; its branch ends with
// it.
func (d *Draft) AddChild(parent int, id int32, confidence float32, q []sampling.Prob) bool {
	n := len(d.Tokens)
	if parent < -1 || parent >= n {
		return false
	}
	depth := 1
	if parent >= 0 {
		depth = d.depth[parent] + 1
	}
	last := parent == n-1 && d.Parents == nil // the end of a chain
	state, allowed := d.after(parent, id)
	if d.forcing { // forced tokens do not take the place of drafted ones
		d.nodes, d.maxDepth = d.nodes+1, d.maxDepth+1
	}
	if d.ended && last || id < 0 || int(id) >= d.vocab || !allowed && (q == nil || d.dead(parent)) ||
		n >= min(d.nodes, d.most()) || !last && n >= d.treeMax || depth > d.maxDepth {
		d.ended = d.ended || last
		if d.forcing {
			d.nodes, d.maxDepth = d.nodes-1, d.maxDepth-1
		}
		return false
	}
	d.Tokens = append(d.Tokens, id)
	d.parents = append(d.parents, int32(parent))
	d.depth = append(d.depth, depth)
	d.lanes = append(d.lanes, int8(min(d.lane, maxLanes-1)))
	d.Confidence = append(d.Confidence, confidence)
	d.Probs = append(d.Probs, q)
	d.Sources = append(d.Sources, d.Source)
	d.note(parent, state)
	if !last {
		d.Parents = d.parents // from now on a tree
	} else if !allowed || d.isEnd != nil && d.isEnd(id) {
		d.ended = true
	}
	return true
}

// Parent is the index of token i's parent, -1 for the end of the sequence. i must be less than Len.
func (d *Draft) Parent(i int) int { return int(d.parents[i]) }

// Depth is the place of token i on its path, from 1. i must be less than Len.
func (d *Draft) Depth(i int) int { return d.depth[i] }

// laneOf is the drafter of a merge that added token i first.
func (d *Draft) laneOf(i int) int {
	if i < len(d.lanes) {
		return int(d.lanes[i])
	}
	return 0
}

// Child returns the index of the child of node (-1: the end of the sequence) that is token id, or -1.
func (d *Draft) Child(node int, id int32) int {
	if d.Parents == nil { // a chain's only child is the next token
		if i := node + 1; i >= 0 && i < len(d.Tokens) && d.Tokens[i] == id {
			return i
		}
		return -1
	}
	return d.anyChild(node, id)
}

// anyChild is Child for a draft that is still a chain but whose children are not only the next tokens.
func (d *Draft) anyChild(node int, id int32) int {
	for i := node + 1; i < len(d.Tokens); i++ {
		if int(d.parents[i]) == node && d.Tokens[i] == id {
			return i
		}
	}
	return -1
}

// firstChild returns the first child of node (-1: the end of the sequence), or -1.
func (d *Draft) firstChild(node int) int {
	for i := node + 1; i < len(d.Tokens); i++ {
		if int(d.parents[i]) == node {
			return i
		}
	}
	return -1
}

// keep makes the draft a chain of the tokens of one of its paths. It returns the draft as it was.
func (d *Draft) keep(path []int) (whole Draft) {
	whole = *d
	whole.Tokens, whole.Confidence, whole.Probs = slices.Clone(d.Tokens), slices.Clone(d.Confidence), slices.Clone(d.Probs)
	whole.parents, whole.depth, whole.lanes = slices.Clone(d.parents), slices.Clone(d.depth), slices.Clone(d.lanes)
	whole.own, whole.states, whole.Sources = slices.Clone(d.own), slices.Clone(d.states), slices.Clone(d.Sources)
	if d.Parents != nil {
		whole.Parents = whole.parents
	}
	for i, node := range path {
		d.Tokens[i], d.Confidence[i], d.Probs[i], d.lanes[i] = d.Tokens[node], d.Confidence[node], d.Probs[node],
			d.lanes[node]
		d.Sources[i], d.parents[i], d.depth[i], d.own[i] = d.Sources[node], int32(i-1), i+1, i+1
	}
	n := len(path)
	d.Tokens, d.Confidence, d.Probs, d.lanes = d.Tokens[:n], d.Confidence[:n], d.Probs[:n], d.lanes[:n]
	d.Sources, d.parents, d.depth, d.Parents = d.Sources[:n], d.parents[:n], d.depth[:n], nil
	d.own, d.states = d.own[:n], d.states[:n]
	return whole
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

// Allows reports whether token id may follow node (-1: the end of the sequence): the target knows it, and the text's
// constraint, if it has one, allows it there.
func (d *Draft) Allows(node int, id int32) bool {
	if id < 0 || int(id) >= d.vocab {
		return false
	}
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
		if d.forced >= ForcedMost || depth > d.mostDepth || d.Parents != nil && len(d.Tokens) >= d.treeMax ||
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

// Lanes gives each drafter of nested merges a lane of its own, as [Setup].Lane.
type Lanes struct{ taken []int }

// Take takes lane n, or the next one that is free.
func (l *Lanes) Take(n int) int {
	for slices.Contains(l.taken, n) {
		n++
	}
	l.taken = append(l.taken, n)
	return n
}

// merging is what a draft knows of those that are merged in it.
type merging struct {
	lanes  []int8 // of each token: the drafter of a merge that added it
	lane   int    // of the drafter at work
	before int    // tokens of the merged draft before this one
	joined []int  // index in the merged draft of each token, -1: not in it
}
