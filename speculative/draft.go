package speculative

import (
	"context"

	"github.com/specgo/spec/engine"
)

// A Drafter proposes what may follow a text. Drafters belong to one [Decoder], like their caches.
type Drafter interface {
	// Start begins a text. Work that depends on the prompt only (prefill) is done here, so that
	// it is not mistaken for the cost of drafting.
	Start(ctx context.Context, s Setup) error

	// Draft adds tokens that may follow text to d as long as d.More() says so. It may stop sooner.
	// It may use text's spare capacity as scratch, and must not keep text.
	Draft(ctx context.Context, text []int32, d *Draft) error

	// Observe is told what became of the draft. r is valid during the call.
	Observe(r *Round)
}

// Setup is what a drafter and a verifier are told about the text to come.
type Setup struct {
	Target          Sequence
	Prompt          []int32 // valid during the call
	Sampling        engine.Sampling
	Vocab           int  // of the target
	Longest         int  // most tokens of a draft
	NeedsProbs      bool // the verifier needs each token sampled from q, and q with it
	NeedsConfidence bool // the schedule needs each token's confidence
	Lane            int  // tells drafters that draft side by side apart: their random numbers differ

	lanes *laneSet // nil outside merges
}

// A Draft is a chain or a tree of proposed tokens.
type Draft struct {
	Tokens     []int32
	Parents    []int32         // index of each token's parent in Tokens, -1 for the end of the text; nil for a chain
	Confidence []float32       // softmax of the draft's raw logits at the token: before penalties, temperature and filters; 1 when not asked for or not known
	Probs      [][]engine.Prob // the distribution q that the token was sampled from, ascending ids; nil if the token was certain
	Passes     int             // forward passes the drafter made
	Round      int             // of the text, from 0

	// Ranked says that the draft is a tree whose tokens come in descending order of the chance that the text reaches
	// them. Schedules then compare a token with the tree's next one, not with its child.
	Ranked bool
	// Calibrated says that Confidence is a token's chance of being accepted if those before it on its path are, as the
	// drafter learned it from what became of earlier drafts. Schedules then use it as it is.
	Calibrated bool

	depth   []int // of each token, from 1
	parents []int32
	nodes   int // most tokens
	tree    int // most tokens of a tree
	deepest int // most tokens in a path
	least   int // the schedule is not asked before so many
	vocab   int
	ended   bool
	ends    func(int32) bool
	plan    Schedule
}

// reserved is how many tokens of a draft are made room for in advance; longer ones are rare, and grow.
const reserved = 1024

// alloc makes room for n tokens.
func (d *Draft) alloc(n int) {
	n = min(n, reserved)
	if cap(d.Tokens) >= n {
		return
	}
	d.Tokens, d.parents = make([]int32, 0, n), make([]int32, 0, n)
	d.Confidence, d.Probs = make([]float32, 0, n), make([][]engine.Prob, 0, n)
	d.depth = make([]int, 0, n)
}

// reset empties the draft; nodes, tree and deepest bound the next one.
func (d *Draft) reset(nodes, tree, deepest int) {
	d.Tokens, d.Parents, d.parents = d.Tokens[:0], nil, d.parents[:0]
	d.Confidence, d.Probs, d.depth = d.Confidence[:0], d.Probs[:0], d.depth[:0]
	d.Passes, d.nodes, d.tree, d.deepest, d.ended, d.Ranked, d.Calibrated = 0, nodes, tree, deepest, false, false, false
}

// nodes is the most tokens of a draft of wide chains of n: a chain of n, or a tree of at most tree tokens.
func nodes(n, wide, tree int) int {
	tree = max(tree, 0)
	return max(n, min(tree, min(n, tree)*min(wide, tree)))
}

// limit is the most tokens that the draft can have: as a chain, or as the tree that it became.
func (d *Draft) limit() int {
	if d.Parents != nil {
		return min(d.nodes, d.tree)
	}
	return d.nodes
}

// Len is the number of tokens.
func (d *Draft) Len() int { return len(d.Tokens) }

// Room is how many more tokens may be added.
func (d *Draft) Room() int { return max(0, d.limit()-len(d.Tokens)) }

// Vocab is the number of token ids the target knows.
func (d *Draft) Vocab() int { return d.vocab }

// More reports whether another token is wanted: there is room for it, the text did not end in the
// draft, and the schedule, which looks at what was drafted so far, does not stop.
func (d *Draft) More() bool {
	n := len(d.Tokens)
	switch {
	case d.ended, n >= d.limit(), n > 0 && d.depth[n-1] >= d.deepest && d.Parents == nil:
		return false
	case n == 0, n < d.least, d.plan == nil:
		return true
	}
	return !d.plan.Stop(d)
}

// Add appends a token to the chain, with its confidence and the distribution it was sampled from
// (nil when it was certain). It reports whether the token was taken: one that is outside the target's
// vocabulary, or beyond the draft's bounds, is not, and ends the draft.
func (d *Draft) Add(id int32, confidence float32, q []engine.Prob) bool {
	return d.AddChild(len(d.Tokens)-1, id, confidence, q)
}

// AddChild adds a token after token parent (-1: after the text), which may make the draft a tree.
// In a tree a refused token ends only its own branch. A parent that is not in the draft is refused, and so is
// a branch of a draft that has more tokens than the target's trees.
func (d *Draft) AddChild(parent int, id int32, confidence float32, q []engine.Prob) bool {
	n := len(d.Tokens)
	if parent < -1 || parent >= n {
		return false
	}
	depth := 1
	if parent >= 0 {
		depth = d.depth[parent] + 1
	}
	last := parent == n-1 && d.Parents == nil // the end of a chain
	if d.ended && last || id < 0 || int(id) >= d.vocab || n >= d.nodes || !last && n >= d.tree || depth > d.deepest {
		d.ended = d.ended || last
		return false
	}
	d.Tokens = append(d.Tokens, id)
	d.parents = append(d.parents, int32(parent))
	d.depth = append(d.depth, depth)
	d.Confidence = append(d.Confidence, confidence)
	d.Probs = append(d.Probs, q)
	if !last {
		d.Parents = d.parents // from now on a tree
	}
	if last && d.ends != nil && d.ends(id) {
		d.ended = true
	}
	return true
}

// Parent is the index of token i's parent, -1 for the end of the text.
func (d *Draft) Parent(i int) int { return int(d.parents[i]) }

// Depth is the place of token i on its path, from 1.
func (d *Draft) Depth(i int) int { return d.depth[i] }

// Child returns the index of the child of node (-1: the text) that is token id, or -1.
func (d *Draft) Child(node int, id int32) int {
	for i := node + 1; i < len(d.Tokens); i++ {
		if int(d.parents[i]) == node && d.Tokens[i] == id {
			return i
		}
		if d.Parents == nil {
			break // a chain's only child is the next token
		}
	}
	return -1
}

// sibling is Child wherever the child lies: a draft that is a chain yet may become a tree.
func (d *Draft) sibling(node int, id int32) int {
	for i := node + 1; i < len(d.Tokens); i++ {
		if int(d.parents[i]) == node && d.Tokens[i] == id {
			return i
		}
	}
	return -1
}

// eldest returns the first child of node (-1: the text), or -1.
func (d *Draft) eldest(node int) int {
	for i := node + 1; i < len(d.Tokens); i++ {
		if int(d.parents[i]) == node {
			return i
		}
	}
	return -1
}
