package speculative

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// Tree drafts a tree with a model of the same vocabulary and with candidate sources such as a lookup in the text.
// After each node there are several candidates: the model's most likely tokens and what a source says. Tokens are
// added in descending order of the probability that the text reaches them (best first, as in EAGLE-2, Li et al.
// 2024): the product of the acceptance probabilities on the token's path, which are learned from what became of
// similar candidates. Where a source is right so often that the model's pass costs more than it brings, the model is
// not asked.
//
// Under verifiers that need probabilities, [Rejection] and [Block], the children of a node are sampled one after the
// other, each from q without its siblings before it (Yang et al. 2024; Jeon et al. 2024). q is the model's distribution
// mixed with what a source says.
func Tree(seq Sequence, o TreeOptions) Drafter { return newTree(seq, o, false) }

// Splice drafts a chain: after each token the most likely of the candidates that [Tree] has there, the model's or a
// source's. Where Tree samples children, it samples one.
func Splice(seq Sequence, o TreeOptions) Drafter { return newTree(seq, o, true) }

// TreeOptions configure [Tree] and [Splice].
type TreeOptions struct {
	Sources []CandidateSource // of candidates beside the model's; nil: SuffixSource, empty: none
}

// Parameters of trees. The prior probabilities are what was measured with the embedded pair on the code prompts of
// ../shared/text, at temperature 0 and 0.8 (commit 5164a79). They count as much as priorWeight observations, so they
// matter in the first rounds only.
const (
	candidatesPerNode = 4 // tokens of the model after a node
	longMatch         = 5 // tokens from which a source's match is no coincidence

	priorSameShort   = 0.4  // a candidate p that a short match confirms is wrong with probability (1-p)(1-priorSameShort)
	priorSameLong    = 0.7  // likewise for a long match
	priorOther       = 0.8  // factor for candidates that a match contradicts
	priorOtherGreedy = 0.3  // likewise for a long match at temperature 0
	priorOnlyShort   = 0.1  // a short match's token that the model does not list, as a share of the mass it leaves
	priorOnlyLong    = 0.35 // likewise for a long match
	// at temperature 0 the first candidate is right with the root of its probability, the second with this share of the
	// root
	priorSecond = 0.4

	modelCorrects = 3 // one in so many wrong source tokens would have been corrected by the model

	firstHits, firstTrials = 1.4, 2 // prior of the model's first candidate: right 7 times of 10
)

func newTree(seq Sequence, o TreeOptions, chain bool) *tree {
	if o.Sources == nil {
		o.Sources = []CandidateSource{SuffixSource(SuffixOptions{})}
	}
	return &tree{
		model: newModelDrafter(seq), sources: o.Sources, chain: chain,
		now: monotonic(), first: rate{firstHits, firstTrials},
	}
}

type tree struct {
	model   modelDrafter
	sources sources
	chain   bool
	greedy  bool // temperature 0

	candidates []candidate // of this draft, those after the same node side by side
	expanded   []expansion // nodes whose candidates are known
	frontier   []growth    // a heap: what may be added or expanded next
	path       []int32     // sequence and branch
	tokens     []int32     // of this draft, which others may be merged with
	parents    []int32     // of each
	best       []sampling.Prob

	sampledTree // for verifiers that need probabilities

	// how often a candidate is right, by kind (for the model's first, second and further ones) and by the drafter's
	// probability
	right       [3 * kinds][chanceBins]rate
	sourceRight [bits.UintSize]rate // how often a source is right, by the bits of the match's length
	first       rate                // how often the model's first candidate is right

	now  func() time.Duration
	step timing // of the model's pass
	pace pace   // of all rounds
}

// HiddenLayers are those of a draft head.
func (t *tree) HiddenLayers(target Sequence) []int { return t.model.HiddenLayers(target) }

// Known is part of [Attentive].
func (t *tree) Known(ctx context.Context, prompt []int32) (int, error) {
	return t.model.Known(ctx, prompt)
}

// Hidden is part of [Attentive].
func (t *tree) Hidden(ctx context.Context, position int, tokens, parents []int32, s engine.HiddenStates) error {
	return t.model.Hidden(ctx, position, tokens, parents, s)
}

// Sequence is the draft model's.
func (t *tree) Sequence() Sequence { return t.model.seq.Sequence }

// SetClock is called by the decoder.
func (t *tree) SetClock(now func() time.Duration) { t.now = now }

// candidate is a token that may follow a node.
type candidate struct {
	id     int32
	kind   int8 // bySource: a source's where the model was not asked
	bin    int8
	chance float32 // that it is right if its parent is
}

// Kinds of candidates that are counted separately. The model's are told apart by what a source says: nothing, the same
// token or another, after a short or a long match.
const (
	modelAlone = iota
	sameShort
	sameLong
	otherShort
	otherLong
	onlyShort // a source's token that is not among the model's
	onlyLong
	kinds
	bySource = -1
)

// expansion is a node with its candidates[from:to] and what a source found there, after a match of so many tokens (0:
// nothing).
type expansion struct{ node, from, to, found, match int32 }

// growth is a way in which the tree may grow.
type growth struct {
	reach float32 // probability that the text reaches the new token, or for an expansion its node
	node  int32   // -1: the end of the sequence
	// index of a candidate to add after node, or of the sampling place to draw a child of; -1: node is to be expanded
	what int32
}

func (t *tree) Start(ctx context.Context, s Setup) error {
	for i, x := range t.sources {
		if x == nil {
			return fmt.Errorf("tree: %w: candidate source %d is nil", ErrOptions, i)
		}
	}
	t.sources.reset(s.Input)
	t.greedy = s.Sampling.MaxTemperature() == 0
	n := min(s.Longest, reserved)
	t.candidates = slices.Grow(t.candidates[:0], (n+1)*(candidatesPerNode+1))
	t.frontier = slices.Grow(t.frontier[:0], (n+1)*(candidatesPerNode+2))
	t.expanded = slices.Grow(t.expanded[:0], n+1)
	t.places = slices.Grow(t.places[:0], n+1)
	t.nodes = slices.Grow(t.nodes[:0], n)
	return t.model.Start(ctx, s)
}

func (t *tree) Draft(ctx context.Context, sequence []int32, d *Draft) error {
	err := t.grow(ctx, sequence, d)
	t.tokens, t.parents = append(t.tokens[:0], d.Tokens...), append(t.parents[:0], d.parents...)
	return err
}

// grow is Draft.
func (t *tree) grow(ctx context.Context, sequence []int32, d *Draft) error {
	t.candidates, t.expanded, t.places, t.frontier = t.candidates[:0], t.expanded[:0], t.places[:0], t.frontier[:0]
	t.model.begin()
	t.sources.begin(sequence)
	d.Ranked, d.Calibrated, d.Likely = !t.chain, true, t.model.likely
	root := float32(1)
	for n := range d.Prefix() { // what a constraint forces
		t.forced(n, root)
	}
	t.push(growth{root, int32(d.Prefix() - 1), -1})
	for d.More() {
		for n := d.Len(); n == d.Len(); {
			if len(t.frontier) == 0 || d.err != nil {
				return t.sources.err()
			}
			g := t.pop()
			if g.what < 0 {
				if err := t.expand(ctx, sequence, d, g); err != nil {
					return err
				}
			} else if t.model.needsProbs {
				t.drawChild(len(sequence), d, g)
			} else if c := &t.candidates[g.what]; t.add(d, g.node, c) {
				t.mayExpand(d, n, g.reach)
			}
		}
	}
	return t.sources.err()
}

// mayExpand adds the expansion of a node, which the text reaches with probability reach, to the frontier.
func (t *tree) mayExpand(d *Draft, node int, reach float32) {
	if d.Depth(node) < d.maxDepth {
		t.push(growth{float32(reach * float32(t.first.p())), int32(node), -1})
	}
}

// expand finds the candidates after a node.
func (t *tree) expand(ctx context.Context, sequence []int32, d *Draft, g growth) error {
	depth, reach := 0, float32(1)
	if g.node >= 0 {
		depth = d.Depth(int(g.node))
	}
	if int(g.node) >= d.Prefix() {
		reach = g.reach / float32(t.first.p())
		if n := d.Len(); d.Extend(int(g.node)) != int(g.node) { // forced tokens are the only candidates
			for ; n < d.Len(); n++ {
				t.forced(n, reach)
			}
			t.mayExpand(d, n-1, reach)
			return nil
		}
	}
	t.path = slices.Grow(append(t.path[:0], sequence...), depth+1)[:len(sequence)+depth]
	for i, node := len(t.path)-1, int(g.node); node >= 0; i, node = i-1, d.Parent(node) {
		t.path[i] = d.Tokens[node]
	}
	from := len(t.candidates)
	found, match := t.sources.next(t.path, depth)
	if match > 0 && !d.Allows(int(g.node), found) {
		match = 0
	}
	if t.model.needsProbs {
		return t.expandSampled(ctx, len(sequence), d, place{node: g.node, found: found, match: int32(match), reach: reach})
	}
	if chance := t.sourceChance(match); t.sourceSuffices(chance) {
		t.candidates = append(t.candidates, candidate{found, bySource, 0, chance})
	} else if err := t.askModel(ctx, len(sequence), d, found, match); err != nil {
		return err
	}
	t.expanded = append(t.expanded, expansion{g.node, int32(from), int32(len(t.candidates)), found, int32(match)})
	best := from
	for i := from; i < len(t.candidates); i++ {
		c := &t.candidates[i]
		if c.kind != bySource {
			c.chance = float32(t.right[c.kind][c.bin].after(float64(c.chance)))
		}
		if c.chance > t.candidates[best].chance {
			best = i
		}
		if !t.chain {
			t.push(growth{float32(reach * c.chance), g.node, int32(i)})
		}
	}
	if t.chain && from < len(t.candidates) {
		t.push(growth{reach, g.node, int32(best)})
	}
	return nil
}

// sourceChance is the probability that a source is right after a match of n tokens.
func (t *tree) sourceChance(n int) float32 {
	if n == 0 {
		return 0
	}
	return float32(t.sourceRight[bits.Len(uint(n))].after(float64(n) / float64(n+priorMatchOdds)))
}

// sourceSuffices reports whether a source that is right with this probability does without the model. The model would
// correct some of the source's errors, which brings a token each, for the time of its pass. Where no source says
// anything the model is always asked.
func (t *tree) sourceSuffices(chance float32) bool {
	saved := float64((1-float64(chance))*t.pace.seconds) / modelCorrects
	return chance > 0 && t.step.n > 0 && saved < float64(t.step.mean*t.pace.tokens)
}

// askModel adds the model's candidates after t.path, of which the first written tokens are not drafted, and the
// source's.
func (t *tree) askModel(ctx context.Context, written int, d *Draft, found int32, match int) error {
	begin := t.now()
	row, err := t.model.logits(ctx, t.path, written, d)
	if err != nil {
		return err
	}
	if t.best = t.best[:0]; row != nil {
		t.best = t.model.sampler.AppendBest(t.best, candidatesPerNode, row, t.path)
		t.step.add((t.now() - begin).Seconds())
	}
	long, same, other, only := int8(0), float32(priorSameShort), float32(priorOther), float32(priorOnlyShort)
	if match >= longMatch {
		long, same, only = 1, priorSameLong, priorOnlyLong
		if t.greedy {
			other = priorOtherGreedy
		}
	}
	if t.greedy && len(t.best) > 0 {
		t.best[0].P = float32(math.Sqrt(float64(t.best[0].P)))
		if len(t.best) > 1 {
			t.best[1].P = priorSecond * float32(math.Sqrt(float64(t.best[1].P)))
		}
	}
	rest := float32(1)
	for i, b := range t.best {
		c := candidate{b.ID, modelAlone, chanceBin(b.P), b.P}
		switch {
		case match == 0:
		case b.ID == found:
			c.kind, c.chance = sameShort+long, 1-float32((1-same)*(1-b.P))
			match = 0 // the source has nothing else to say
		default:
			c.kind, c.chance = otherShort+long, float32(b.P*other)
		}
		rest = min(rest, 1-b.P)
		c.kind += int8(min(i, 2)) * kinds
		t.candidates = append(t.candidates, c)
	}
	if match > 0 {
		t.candidates = append(t.candidates, candidate{found, onlyShort + long, chanceBin(rest), float32(only * rest)})
	}
	return nil
}

// add adds a candidate after a node.
func (t *tree) add(d *Draft, node int32, c *candidate) bool {
	if d.Source = SourceDraft; c.kind == bySource || c.kind%kinds >= onlyShort {
		d.Source = SourceLookup
	}
	return d.AddChild(int(node), c.id, c.chance, nil)
}

// forced notes that token n of the draft is forced, and that the text reaches the node before it with probability
// reach.
func (t *tree) forced(n int, reach float32) {
	if t.model.needsProbs {
		t.nodes = append(t.nodes[:n], nodeChance{reach: reach, chance: 1})
	}
}

// Continues says that the tree continues forced tokens.
func (t *tree) Continues() bool { return true }

func (t *tree) push(g growth) {
	t.frontier = append(t.frontier, g)
	q := t.frontier
	i := len(q) - 1
	for ; i > 0 && q[(i-1)/2].reach < g.reach; i = (i - 1) / 2 {
		q[i] = q[(i-1)/2]
	}
	q[i] = g
}

func (t *tree) pop() growth {
	q := t.frontier
	top, g := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	t.frontier = q
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(q) && q[child+1].reach > q[child].reach {
			child++
		}
		if child >= len(q) || q[child].reach <= g.reach {
			break
		}
		q[i] = q[child]
		i = child
	}
	if len(q) > 0 {
		q[i] = g
	}
	return top
}

// Observe learns from every candidate after a node that the text reached, drafted or not.
func (t *tree) Observe(r *Round) {
	t.model.Observe(r)
	t.pace.add(float64(len(r.Path)+1), (r.Drafting + r.Verifying).Seconds())
	node := int32(-1)
	for n := 0; n <= len(r.Path); n++ {
		child, next := int32(-1), r.Next
		if n < len(r.Path) {
			next = r.Draft.Tokens[r.Path[n]]
			child = t.child(node, next)
		}
		if t.model.needsProbs {
			t.learnSampled(node, child, next)
		}
		for _, e := range t.expanded {
			if e.node == node {
				t.learn(e, next)
			}
		}
		if node = child; node < 0 { // the text goes on with what others drafted
			break
		}
	}
	t.tokens, t.expanded, t.places = t.tokens[:0], t.expanded[:0], t.places[:0] // a round may come without a draft
}

// child is the child of a node of this draft that is token id, or -1.
func (t *tree) child(node, id int32) int32 {
	for i := node + 1; int(i) < len(t.tokens); i++ {
		if t.parents[i] == node && t.tokens[i] == id {
			return i
		}
	}
	return -1
}

// learn is told which token followed an expanded node.
func (t *tree) learn(e expansion, next int32) {
	right := func(id int32) float64 {
		if id == next {
			return 1
		}
		return 0
	}
	if e.match > 0 {
		t.sourceRight[bits.Len32(uint32(e.match))].add(right(e.found))
	}
	for i, c := range t.candidates[e.from:e.to] {
		if c.kind == bySource {
			continue
		}
		t.right[c.kind][c.bin].add(right(c.id))
		if i == 0 {
			t.first.add(right(c.id))
		}
	}
}
