package speculative

import "github.com/specgo/spec/engine"

// Block is block verification (Sun et al. 2024, "Block Verification Accelerates Speculative
// Decoding", algorithm 2), and of trees traversal verification (Weng et al. 2025, "Traversal
// Verification for Speculative Tree Decoding"), which is the same on a chain. It judges the draft
// as a whole: a token may be kept although it would have been rejected by itself, so on average it
// keeps more than [Rejection] does; the distribution stays the target's.
//
// A branch weighs w = min(1, w' p(x)/q(x)), w' being what its beginning weighs and x its last
// token; nothing weighs 1. It is accepted with chance w, by itself or as the beginning of a longer
// one: the longer ones are tried first, in order. Each that is not accepted leaves norm(max(0, w p - q))
// of p and s/(s + 1 - w) of w, where s sums max(0, w p - q) over the vocabulary. When all were
// tried in vain, the branch is accepted with the w that is left, and the token after it drawn from
// the p that is left.
func Block() Verifier { return &block{} }

type block struct {
	sampler *engine.Sampler
	dice    dice
	p       [][]engine.Prob // by depth: what is left of the target's distribution
}

func (b *block) Start(s Setup) (err error) {
	b.dice = dice{s.Sampling.Seed}
	b.sampler, err = engine.NewSampler(s.Vocab, s.Sampling)
	return err
}

func (b *block) NeedsProbs() bool { return true }

func (b *block) Verify(v *Verification) { b.try(v, v.Text, -1, 1) }

// try accepts a branch that ends in node and weighs w, or a longer one, or reports that it does not.
func (b *block) try(v *Verification, text []int32, node int, w float64) bool {
	d, depth := v.Draft, len(v.Path)
	if depth == len(b.p) {
		b.p = append(b.p, nil)
	}
	p := b.sampler.AppendDistribution(b.p[depth][:0], v.row(node), text)
	b.p[depth] = p
	for i := node + 1; i < d.Len() && w > 0; i++ {
		if d.Parent(i) != node {
			continue
		}
		x, q := d.Tokens[i], d.Probs[i]
		if next := min(1, float64(w*probability(p, x, -1))/probability(q, x, x)); next > 0 {
			if b.try(v, v.accept(text, i), i, next) {
				return true
			}
			v.Path = v.Path[:depth]
		}
		left := surplus(p, w, q, x)
		p = residual(p, w, q, x)
		if left > 0 {
			w = left / (left + 1 - w)
		} else {
			w = 0
		}
	}
	if node >= 0 && b.dice.roll(len(text), forAccept, d.Round, node+1) >= w {
		return false
	}
	v.Next = draw(p, b.dice.roll(len(text), forResidual, d.Round, 0))
	return true
}
