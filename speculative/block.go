package speculative

import "github.com/specgo/spec/engine/sampling"

// Block is block verification (Sun et al. 2024, "Block Verification Accelerates Speculative Decoding", algorithm 2),
// and for trees traversal verification (Weng et al. 2025, "Traversal Verification for Speculative Tree Decoding"),
// which is the same on a chain. It judges a draft as a whole: a token may be kept that would have been rejected by
// itself, so on average it keeps more than [Rejection]. The text has the target's distribution.
//
// A branch has a weight w = min(1, w' p(x)/q(x)), where w' is the weight of its beginning and x its last token; the
// empty branch has weight 1. A branch is accepted with probability w, by itself or as the beginning of a longer one:
// the longer ones are tried first, in order. Each one that is not accepted leaves norm(max(0, w p - q)) of p and s/(s
// + 1 - w) of w, where s sums max(0, w p - q) over the vocabulary. When none was accepted, the branch is accepted
// with the remaining w, and the token after it is drawn from the remaining p.
func Block() Verifier { return &block{} }

type block struct {
	sampler *sampling.Sampler
	random  randomStream
	p       [][]sampling.Prob // by depth: what is left of the target's distribution
}

func (b *block) Start(s Setup) (err error) {
	b.random, b.p = randomStream{s.Sampling.Seed}, nil
	b.sampler, err = sampling.New(s.Vocab, s.Sampling)
	return err
}

func (b *block) NeedsProbs() bool { return true }

func (b *block) Verify(v *Verification) { b.try(v, v.Sequence, -1, 1) }

// try accepts the branch that ends in node and has weight w, or a longer one, or returns false.
func (b *block) try(v *Verification, sequence []int32, node int, w float64) bool {
	d, depth := v.Draft, len(v.Path)
	if depth == len(b.p) {
		b.p = append(b.p, nil)
	}
	p := b.sampler.AppendDistribution(b.p[depth][:0], v.row(node), sequence)
	b.p[depth] = p
	err := b.sampler.Err()
	for i := node + 1; i < d.Len() && w > 0; i++ {
		if d.Parent(i) != node {
			continue
		}
		x, q := d.Tokens[i], d.Probs[i]
		if next := min(1, float64(w*probability(p, x, -1))/probability(q, x, x)); next > 0 {
			if b.try(v, v.accept(sequence, i), i, next) {
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
	if node >= 0 && b.random.uniform(len(sequence), forAccept, d.Round, node+1) >= w {
		return false
	}
	v.Next, v.Err = draw(p, b.random.uniform(len(sequence), forResidual, d.Round, 0)), err
	return true
}
