package speculative

import (
	"context"
	"math/bits"
	"slices"

	"github.com/specgo/spec/engine/sampling"
)

// Trees for verifiers that need probabilities are sampled: the children of a node are drawn one by one, each from q
// without its siblings before it (Yang et al. 2024, "Multi-Candidate Speculative Decoding"; Jeon et al. 2024,
// "Recursive Speculative Decoding"), and verified in this order. q is the model's distribution with some weight on
// what a source found.
//
// Adding one more last child to any node does not change the distribution of the text. When its siblings are all
// rejected, its token is drawn from the q that is recorded and accepted against what is left of p by a random number
// of its own, and what is left after it makes up for q. This holds for each child that is added, whatever the tree is
// by then. So where the next child is drawn, from which q, and whether at all, may depend on all tokens drawn so far;
// schedules may stop the draft after a token. Only the token's own value must not matter: once drawn it stays where
// it is.
type sampledTree struct {
	places []place // of this draft
	nodes  []nodeChance

	// how often first, second and further children are accepted after their siblings were not, after likely nodes and
	// others, by the q of their token
	accepted  [2][3][chanceBins]rate
	mixWeight [bits.UintSize]rate // weight of a source in q, by the bits of the match's length
}

// Parameters of sampled trees, measured like those of trees (60 prompts, commits 5612ae8 and 7481961).
const (
	// likelyNode is the acceptance probability from which on the children of a node are counted like those of the end of
	// the sequence. After an unlikely token the text continues differently, above all under Block: a token that makes up
	// for it is kept more often.
	likelyNode = 0.65
	// tailCutoff is the probability, as a share of the most likely token's, below which tokens are not drawn. A large
	// vocabulary has a long tail that would be copied for every child and is hardly ever drawn.
	tailCutoff     = 1e-5
	priorMixWeight = 0.1 // of a source in q

	// A token with probability q is accepted with probability least + sampledSlope (1-least) q before anything is known.
	sampledSlope = 0.85
	leastFirst   = 0.5 // of first, second and further children
	leastSecond  = 0.22
	leastFurther = 0.15
)

// nodeChance is the probability that the text reaches a node, before its token is drawn, and that the token is
// accepted once it is known, if its parent is accepted and its siblings before it are not. q is the token's.
type nodeChance struct{ reach, chance, q float32 }

// place is a node whose children are drawn.
type place struct {
	node         int32
	found, match int32   // what a source says, after a match of so many tokens (0: nothing)
	sourceAlone  float32 // probability that the source is right, where the model was not asked; 0 where it was
	weight, both float32 // what the source adds to the q of its token, and the sum

	unlikely int             // 1: the node is not likely
	children int32           // drawn so far
	reach    float32         // probability that the text reaches the node and none of the children is accepted
	q        []sampling.Prob // what the next child is drawn from
}

// expandSampled finds q after the node at the end of t.path, of which the first written tokens are not drafted.
func (t *tree) expandSampled(ctx context.Context, written int, d *Draft, p place) error {
	m, all := &t.model, d.distributions()
	q := all.next()
	p.sourceAlone = t.sourceChance(int(p.match))
	if !t.sourceSuffices(p.sourceAlone) {
		begin := t.now()
		row, err := m.logits(ctx, t.path, written, d)
		if err != nil {
			return err
		}
		if row != nil {
			p.sourceAlone = 0
			q = m.sampler.AppendDistribution(q, row, t.path)
			q = q[:cutTail(q)]
			t.step.add((t.now() - begin).Seconds())
		}
	}
	if p.node >= 0 && t.nodes[p.node].chance < likelyNode {
		p.unlikely = 1
	}
	if p.match > 0 {
		p.weight = 1
		if p.sourceAlone == 0 {
			p.weight = float32(t.mixWeight[bits.Len32(uint32(p.match))].after(priorMixWeight))
		}
		for i := range q {
			q[i].P *= 1 - p.weight
		}
		i, ok := slices.BinarySearchFunc(q, p.found, func(x sampling.Prob, id int32) int { return int(x.ID - id) })
		if !ok {
			q = slices.Insert(sampling.Grown(q, 1, all.most), i, sampling.Prob{ID: p.found})
		}
		q[i].P += p.weight
		p.both = q[i].P
	}
	if len(q) > 0 {
		p.q = all.keep(q)
		t.places = append(t.places, p)
		t.mayDraw(len(t.places) - 1)
	}
	return nil
}

// cutTail restricts q, in place, to tokens that are not much less likely than the most likely one, and returns their
// number. Any q is valid as long as tokens are drawn from it.
func cutTail(q []sampling.Prob) int {
	least, n := tailCutoff*highest(q), 0
	for _, x := range q {
		if x.P >= least {
			q[n] = x
			n++
		}
	}
	normalize(q[:n])
	return n
}

// highest is the probability of q's most likely token.
func highest(q []sampling.Prob) (top float32) {
	for _, x := range q {
		top = max(top, x.P)
	}
	return top
}

func normalize(q []sampling.Prob) {
	sum := 0.0
	for _, x := range q {
		sum += float64(x.P)
	}
	for i := range q {
		q[i].P = float32(float64(q[i].P) / sum)
	}
}

// mayDraw adds a place's next child to the frontier, with the probability that the text reaches it whatever its token
// will be: the most likely one, or one of the others.
func (t *tree) mayDraw(i int) {
	p := &t.places[i]
	top := highest(p.q)
	chance := float32(top*t.acceptance(p, top)) + float32((1-top)*t.acceptance(p, (1-top)/2))
	t.push(growth{float32(p.reach * chance), p.node, int32(i)})
}

// acceptance is the probability that a place's next child is accepted if its token has probability q.
func (t *tree) acceptance(p *place, q float32) float32 {
	if p.sourceAlone > 0 {
		return p.sourceAlone
	}
	k := min(p.children, 2)
	least := [...]float32{leastFirst, leastSecond, leastFurther}[k]
	return float32(t.accepted[p.unlikely][k][chanceBin(q)].after(float64(least + float32(sampledSlope*(1-least)*q))))
}

// drawChild draws the next child of a place, and prepares q for another.
func (t *tree) drawChild(written int, d *Draft, g growth) {
	m, p, n := &t.model, &t.places[g.what], d.Len()
	depth := 0
	confidence := g.reach // of its node's, so that the product along a path is the probability that orders the tree
	if p.node >= 0 {
		depth = d.Depth(int(p.node))
		confidence /= t.nodes[p.node].reach
	}
	x := draw(p.q, m.random.uniform(written+depth, forDraft, d.Round, m.lane<<16+n))
	if !d.AddChild(int(p.node), x, confidence, p.q) {
		return
	}
	q := float32(probability(p.q, x, x))
	chance := t.acceptance(p, q)
	t.nodes = append(t.nodes[:n], nodeChance{g.reach, chance, q})
	t.mayExpand(d, n, float32(p.reach*chance))
	if t.chain {
		return
	}
	p.children++
	p.reach = float32(p.reach * (1 - chance))
	all := d.distributions()
	rest := sampling.Grown(all.next(), len(p.q), all.most)
	for _, y := range p.q {
		if y.ID != x && y.P > 0 {
			rest = append(rest, y)
		}
	}
	if len(rest) > 0 {
		p.q = all.keep(rest)
		normalize(p.q)
		t.mayDraw(int(g.what))
	}
}

// learnSampled is told that the text reached a node, which of its children was accepted, if any, and which token
// followed.
func (t *tree) learnSampled(node, child, next int32) {
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
		t.sourceRight[bin].add(right)
		if p.sourceAlone == 0 {
			t.mixWeight[bin].add(part) // expectation maximization: the weights under which the text is most likely
		}
	}
	if p.sourceAlone > 0 {
		return
	}
	k := 0
	for i := node + 1; int(i) < len(t.tokens); i++ {
		if t.parents[i] != node {
			continue
		}
		hit := 0.0
		if i == child {
			hit = 1
		}
		t.accepted[p.unlikely][min(k, 2)][chanceBin(t.nodes[i].q)].add(hit)
		if k == 0 {
			t.first.add(hit)
		}
		if hit > 0 {
			return
		}
		k++
	}
}
