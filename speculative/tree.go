package speculative

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// Tree drafts a tree with a model of the same vocabulary: wherever the model is unsure its second
// and third guesses come too, and what a lookup in the text says. Tokens are added in the order of
// the chance that the text comes to them (best first, as in EAGLE-2, Li et al. 2024). That chance
// is the product of the chances on the token's path, each learned from what became of the guesses
// that looked like it. Where a lookup is so often right that asking the model would cost more than
// it brings, the model is not asked.
//
// Under rules that weigh p against q, [Rejection] and [Block], the children of a node are drawn one
// after the other, each from q without its elder siblings (Yang et al. 2024; Jeon et al. 2024), q
// being the model's distribution mixed with what a lookup says.
func Tree(seq Sequence, o TreeOptions) Drafter { return newTree(seq, o, false) }

// TreeOptions configure [Tree] and [Splice].
type TreeOptions struct {
	Sources []CandidateSource // of candidates beside the model's; nil: SuffixSource, empty: none
}

// Splice drafts a chain: of the guesses that [Tree] has at a place, the one that is likeliest, be
// it the model's or a lookup's; where Tree draws children, the first.
func Splice(seq Sequence, o TreeOptions) Drafter { return newTree(seq, o, true) }

func newTree(seq Sequence, o TreeOptions, chain bool) *tree {
	if o.Sources == nil {
		o.Sources = []CandidateSource{SuffixSource(SuffixOptions{})}
	}
	return &tree{model: modelDrafter{seq: tracked{Sequence: seq}}, lookup: o.Sources, chain: chain, now: monotonic(), first: rate{1.4, 2}}
}

type tree struct {
	model  modelDrafter
	lookup sources
	chain  bool
	greedy bool // nothing is left to chance

	guesses []guess // of this draft, those after the same node side by side
	asked   []asked // nodes whose guesses are known
	queue   []shoot // a heap: what may be added or asked for next
	path    []int32 // text and branch
	best    []engine.Prob

	drawn // for rules that weigh p against q

	chance [3 * kinds][oddsBins]rate // that a guess is right, by kind (for the model's first, second and further guesses) and by what its drafter said
	looked [bits.UintSize]rate       // that a lookup is right, by the bits of the match's length
	first  rate                      // that the model's first guess is right

	now   func() time.Duration
	step  timing // of the model's pass
	whole pace   // of all rounds
}

func (t *tree) SetClock(now func() time.Duration) { t.now = now }

// guesses is how many the model makes after a node.
const guesses = 4

// guess is a token that may follow a node.
type guess struct {
	id       int32
	kind     int8 // -1: a lookup's, and the model was not asked
	bin      int8
	expected float32 // chance that it is right if the node is
}

// Kinds of guesses that are told apart: those of the model by what the lookup says of them, if it found
// anything: the same or another token, after a short or a long match; and those of the lookup alone.
const (
	alone = iota
	shortSame
	longSame
	shortOther
	longOther
	shortLookup
	longLookup
	kinds
)

// longMatch is the tokens of a match that is no accident.
const longMatch = 5

// asked is a node with its guesses[from:to] and what the lookup found after a match of so many tokens, 0 if nothing.
type asked struct{ node, from, to, found, match int32 }

// shoot is where the tree may grow.
type shoot struct {
	reach float32 // chance that the text comes there
	node  int32   // -1: the text's end
	guess int32   // after the node, or the place where a child is to be drawn; -1: the node's guesses are to be asked for
}

func (t *tree) Start(ctx context.Context, s Setup) error {
	for i, x := range t.lookup {
		if x == nil {
			return fmt.Errorf("tree: %w: candidate source %d is nil", ErrOptions, i)
		}
	}
	t.lookup.reset()
	t.greedy = s.Sampling.Temperature == 0
	t.guesses = slices.Grow(t.guesses[:0], (s.Longest+1)*(guesses+1))
	t.queue = slices.Grow(t.queue[:0], (s.Longest+1)*(guesses+2))
	t.asked = slices.Grow(t.asked[:0], s.Longest+1)
	t.places = slices.Grow(t.places[:0], s.Longest+1)
	t.nodes = slices.Grow(t.nodes[:0], s.Longest)
	return t.model.Start(ctx, s)
}

func (t *tree) Draft(ctx context.Context, text []int32, d *Draft) error {
	t.guesses, t.asked, t.places, t.queue = t.guesses[:0], t.asked[:0], t.places[:0], t.queue[:0]
	t.model.begin()
	t.lookup.begin(text)
	d.Ranked, d.Calibrated = !t.chain, true
	t.push(shoot{1, -1, -1})
	for d.More() {
		for n := d.Len(); n == d.Len(); {
			if len(t.queue) == 0 {
				return nil
			}
			s := t.pop()
			if s.guess < 0 {
				if err := t.ask(ctx, text, d, s); err != nil {
					return err
				}
			} else if t.model.probs {
				t.grow(len(text), d, s)
			} else if g := &t.guesses[s.guess]; d.AddChild(int(s.node), g.id, g.expected, nil) {
				t.sprout(d, n, s.reach)
			}
		}
	}
	return nil
}

// sprout lets the tree go on after a node to which the text comes with this chance.
func (t *tree) sprout(d *Draft, node int, reach float32) {
	if d.Depth(node) < d.deepest {
		t.push(shoot{float32(reach * float32(t.first.p())), int32(node), -1})
	}
}

// ask finds what may follow a node.
func (t *tree) ask(ctx context.Context, text []int32, d *Draft, s shoot) error {
	depth, reach := 0, float32(1)
	if s.node >= 0 {
		depth, reach = d.Depth(int(s.node)), s.reach/float32(t.first.p())
	}
	t.path = slices.Grow(append(t.path[:0], text...), depth+1)[:len(text)+depth]
	for i, node := len(t.path)-1, int(s.node); node >= 0; i, node = i-1, d.Parent(node) {
		t.path[i] = d.Tokens[node]
	}
	from := len(t.guesses)
	found, match := t.lookup.next(t.path, depth)
	if t.model.probs {
		return t.open(ctx, len(text), d, place{node: s.node, found: found, match: int32(match), reach: reach})
	}
	if sure := t.lookupChance(match); t.enough(sure) {
		t.guesses = append(t.guesses, guess{found, -1, 0, sure})
	} else if err := t.guess(ctx, len(text), d, found, match); err != nil {
		return err
	}
	t.asked = append(t.asked, asked{s.node, int32(from), int32(len(t.guesses)), found, int32(match)})
	likeliest := from
	for i := from; i < len(t.guesses); i++ {
		g := &t.guesses[i]
		if g.kind >= 0 {
			g.expected = float32(t.chance[g.kind][g.bin].after(float64(g.expected)))
		}
		if g.expected > t.guesses[likeliest].expected {
			likeliest = i
		}
		if !t.chain {
			t.push(shoot{float32(reach * g.expected), s.node, int32(i)})
		}
	}
	if t.chain && from < len(t.guesses) {
		t.push(shoot{reach, s.node, int32(likeliest)})
	}
	return nil
}

// lookupChance is the chance of what followed a match of n tokens.
func (t *tree) lookupChance(n int) float32 {
	if n == 0 {
		return 0
	}
	return float32(t.looked[bits.Len(uint(n))].after(float64(n) / float64(n+3)))
}

// enough reports whether a lookup with this chance will do without the model: the model would save the
// text in about a third of the cases in which the lookup is wrong, which brings a token, at the price
// of its pass. A place where no lookup matches is the model's.
func (t *tree) enough(sure float32) bool {
	saved := float64((1-float64(sure))*t.whole.seconds) / 3
	return sure > 0 && t.step.n > 0 && saved < float64(t.step.mean*t.whole.tokens)
}

// guess asks the model what follows t.path, whose first written tokens are certain, and weighs it against
// the lookup's.
func (t *tree) guess(ctx context.Context, written int, d *Draft, found int32, match int) error {
	begin := t.now()
	row, err := t.model.logits(ctx, t.path, written, d)
	if err != nil {
		return err
	}
	if t.best = t.best[:0]; row != nil {
		t.best = t.model.sampler.AppendBest(t.best, guesses, row, t.path)
		t.step.add((t.now() - begin).Seconds())
	}
	// What the guesses are worth before there is experience. The likeliest token of one model is that of
	// the other more often than by its probability: by the root of it, roughly, and the second likeliest
	// by 0.4 of that.
	long, same, other, only := int8(0), float32(0.4), float32(0.8), float32(0.1)
	if match >= longMatch {
		long, same, only = 1, 0.7, 0.35
		if t.greedy {
			other = 0.3
		}
	}
	if t.greedy && len(t.best) > 0 {
		t.best[0].P = float32(math.Sqrt(float64(t.best[0].P)))
		if len(t.best) > 1 {
			t.best[1].P = 0.4 * float32(math.Sqrt(float64(t.best[1].P)))
		}
	}
	rest := float32(1)
	for i, c := range t.best {
		g := guess{c.ID, alone, oddsBin(c.P), c.P}
		switch {
		case match == 0:
		case c.ID == found:
			g.kind, g.expected = shortSame+long, 1-float32((1-same)*(1-c.P))
			match = 0 // nothing else to say
		default:
			g.kind, g.expected = shortOther+long, float32(c.P*other)
		}
		rest = min(rest, 1-c.P)
		g.kind += int8(min(i, 2)) * kinds
		t.guesses = append(t.guesses, g)
	}
	if match > 0 {
		t.guesses = append(t.guesses, guess{found, shortLookup + long, oddsBin(rest), float32(only * rest)})
	}
	return nil
}

func (t *tree) push(s shoot) {
	t.queue = append(t.queue, s)
	q := t.queue
	i := len(q) - 1
	for ; i > 0 && q[(i-1)/2].reach < s.reach; i = (i - 1) / 2 {
		q[i] = q[(i-1)/2]
	}
	q[i] = s
}

func (t *tree) pop() shoot {
	q := t.queue
	top, s := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	t.queue = q
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(q) && q[child+1].reach > q[child].reach {
			child++
		}
		if child >= len(q) || q[child].reach <= s.reach {
			break
		}
		q[i] = q[child]
		i = child
	}
	if len(q) > 0 {
		q[i] = s
	}
	return top
}

// Observe learns from every guess after a node that the text came to, drafted or not.
func (t *tree) Observe(r *Round) {
	t.whole.add(float64(len(r.Path)+1), (r.Drafting + r.Verifying).Seconds())
	node := int32(-1)
	for n := 0; n <= len(r.Path); n++ {
		child, next := int32(-1), r.Next
		if n < len(r.Path) {
			child = r.Path[n]
			next = r.Draft.Tokens[child]
		}
		if t.model.probs {
			t.learn(r.Draft, node, child, next)
		}
		for _, a := range t.asked {
			if a.node != node {
				continue
			}
			right := func(id int32) float64 {
				if id == next {
					return 1
				}
				return 0
			}
			if a.match > 0 {
				t.looked[bits.Len32(uint32(a.match))].add(right(a.found))
			}
			for i, g := range t.guesses[a.from:a.to] {
				if g.kind >= 0 {
					t.chance[g.kind][g.bin].add(right(g.id))
				}
				if g.kind >= 0 && i == 0 {
					t.first.add(right(g.id))
				}
			}
		}
		node = child
	}
}
