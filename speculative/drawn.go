package speculative

import (
	"context"
	"math/bits"
	"slices"

	"github.com/specgo/spec/engine"
)

// Trees for rules that weigh p against q are drawn: a node's children are sampled one by one, each
// from q without its elder siblings (Yang et al. 2024, "Multi-Candidate Speculative Decoding"; Jeon
// et al. 2024, "Recursive Speculative Decoding"), and checked in this order. q is the model's
// distribution with some weight on what a lookup found.
//
// One child more, the youngest of any node, does not change how the text is distributed: where its
// elder siblings are all rejected, its token is drawn from the q that is recorded and accepted
// against what is left of p by a number of its own, and what is left after it makes up for q. This
// holds for each child that is added, whatever the tree is by then. So it may depend on all tokens
// drawn so far where the next child is drawn, from which q, and whether at all: schedules may stop
// the draft after a token they do not like. Only the token's own value must not matter: once drawn
// it stays, in its place.
type drawn struct {
	places []place // of this draft
	nodes  []odds

	kept  [2][3][oddsBins]rate // of first, second and further children (of nodes that are safe, and others) those accepted after their elders were not, by the q of their token
	mixed [bits.UintSize]rate  // weight of a lookup in q, by the bits of the match's length
}

// odds of a node: the chance that the text comes to it, before it is drawn, and that it is accepted once
// its token is known, if its parent is and its elder siblings are not.
type odds struct{ reach, chance float32 }

// safe is the chance that a node must have for its children to be counted as those of the text's end are.
// Where the draft is on thin ice it goes on differently, above all under [Block]: a token that makes
// up for an unlikely one before it is kept more often.
const safe = 0.65

// place is a node after which tokens are drawn.
type place struct {
	node         int32
	found, match int32   // what a lookup says, after a match of so many tokens, 0 if nothing
	alone        float32 // chance of a lookup that does without the model, 0 if the model was asked
	weight, both float32 // what the lookup adds to the q of the token it found, and the sum

	thin     int           // 1 where the node is not safe
	children int32         // drawn so far
	reach    float32       // chance that the text comes here and none of them is accepted
	q        []engine.Prob // what the next child is drawn from
}

// open asks the model for q after the node with t.path, whose first written tokens are certain.
func (t *tree) open(ctx context.Context, written int, d *Draft, p place) error {
	m := &t.model
	from := len(m.q)
	p.alone = t.lookupChance(int(p.match))
	if !t.enough(p.alone) {
		begin := t.now()
		row, err := m.logits(ctx, t.path, written, d)
		if err != nil {
			return err
		}
		if row != nil {
			p.alone = 0
			m.q = m.sampler.AppendDistribution(m.q, row, t.path)
			m.q = m.q[:from+withoutTail(m.q[from:])]
			t.step.add((t.now() - begin).Seconds())
		}
	}
	if p.node >= 0 && t.nodes[p.node].chance < safe {
		p.thin = 1
	}
	if p.match > 0 {
		p.weight = 1
		if p.alone == 0 {
			p.weight = float32(t.mixed[bits.Len32(uint32(p.match))].after(0.1))
		}
		for i := range m.q[from:] {
			m.q[from+i].P *= 1 - p.weight
		}
		i, ok := slices.BinarySearchFunc(m.q[from:], p.found, func(x engine.Prob, id int32) int { return int(x.ID - id) })
		if i += from; !ok {
			m.q = slices.Insert(m.q, i, engine.Prob{ID: p.found})
		}
		m.q[i].P += p.weight
		p.both = m.q[i].P
	}
	if p.q = m.q[from:len(m.q):len(m.q)]; len(p.q) > 0 {
		t.places = append(t.places, p)
		t.offer(len(t.places) - 1)
	}
	return nil
}

// faint is the chance, of the likeliest token's, from which on tokens are drawn.
const faint = 1e-5

// withoutTail restricts q, in place, and returns what is left of its length: a large vocabulary has a long tail that would be
// copied for every child and hardly ever drawn. Any q will do as long as it is what tokens are drawn from.
func withoutTail(q []engine.Prob) int {
	least, n := faint*highest(q), 0
	for _, x := range q {
		if x.P >= least {
			q[n] = x
			n++
		}
	}
	normalize(q[:n])
	return n
}

// highest is the chance of q's likeliest token.
func highest(q []engine.Prob) (top float32) {
	for _, x := range q {
		top = max(top, x.P)
	}
	return top
}

func normalize(q []engine.Prob) {
	sum := 0.0
	for _, x := range q {
		sum += float64(x.P)
	}
	for i := range q {
		q[i].P = float32(float64(q[i].P) / sum)
	}
}

// offer queues a place's next child by the chance that the text comes to it, whatever token it will be:
// the likeliest, or one of the others.
func (t *tree) offer(i int) {
	p := &t.places[i]
	top := highest(p.q)
	chance := float32(top*t.accepted(p, top)) + float32((1-top)*t.accepted(p, (1-top)/2))
	t.push(shoot{float32(p.reach * chance), p.node, int32(i)})
}

// accepted is the chance of a place's next child, if it is a token that q gives so much.
func (t *tree) accepted(p *place, q float32) float32 {
	if p.alone > 0 {
		return p.alone
	}
	k := min(p.children, 2)
	least := [...]float32{0.5, 0.22, 0.15}[k]
	return float32(t.kept[p.thin][k][oddsBin(q)].after(float64(least + float32(0.85*(1-least)*q))))
}

// grow draws the next child of a place, and prepares q for another.
func (t *tree) grow(written int, d *Draft, s shoot) {
	m, p, n := &t.model, &t.places[s.guess], d.Len()
	depth := 0
	confidence := s.reach // of its node's, so that their product along a path is the chance that orders the tree
	if p.node >= 0 {
		depth = d.Depth(int(p.node))
		confidence /= t.nodes[p.node].reach
	}
	x := draw(p.q, m.dice.roll(written+depth, forDraft, d.Round, m.lane<<16+n))
	if !d.AddChild(int(p.node), x, confidence, p.q) {
		return
	}
	chance := t.accepted(p, float32(probability(p.q, x, x)))
	t.nodes = append(t.nodes[:n], odds{s.reach, chance})
	t.sprout(d, n, float32(p.reach*chance))
	if t.chain {
		return
	}
	p.children++
	p.reach = float32(p.reach * (1 - chance))
	from := len(m.q)
	for _, y := range p.q {
		if y.ID != x && y.P > 0 {
			m.q = append(m.q, y)
		}
	}
	if p.q = m.q[from:len(m.q):len(m.q)]; len(p.q) > 0 {
		normalize(p.q)
		t.offer(int(s.guess))
	}
}

// learn is told that the text came to a node, which of its children was accepted, if any, and which token followed.
func (t *tree) learn(d *Draft, node, child, next int32) {
	at := slices.IndexFunc(t.places, func(p place) bool { return p.node == node })
	if at < 0 {
		return
	}
	p := &t.places[at]
	if p.match > 0 {
		bin := bits.Len32(uint32(p.match))
		right, part := 0.0, 0.0
		if p.found == next {
			right, part = 1, float64(p.weight/p.both)
		}
		t.looked[bin].add(right)
		if p.alone == 0 {
			t.mixed[bin].add(part) // the weights under which the text is likeliest, by EM
		}
	}
	if p.alone > 0 {
		return
	}
	k := 0
	for i := int(node) + 1; i < d.Len(); i++ {
		if d.Parent(i) != int(node) {
			continue
		}
		hit := 0.0
		if i == int(child) {
			hit = 1
		}
		t.kept[p.thin][min(k, 2)][oddsBin(float32(probability(d.Probs[i], d.Tokens[i], -1)))].add(hit)
		if k == 0 {
			t.first.add(hit)
		}
		if hit > 0 {
			return
		}
		k++
	}
}
