package speculative

import "github.com/specgo/spec/engine"

// Block is block verification (Sun et al. 2024, "Block Verification Accelerates Speculative
// Decoding", algorithm 2). It judges the draft as a whole: token i may be kept although an earlier
// one would have been rejected by itself, so on average it keeps more than [Rejection] does; the
// distribution stays the target's. Of a tree it judges the path of first children.
//
// With w(i) = min(1, w(i-1) p(x_i)/q(x_i)) and w(0) = 1, the first i tokens are accepted with
// probability s/(s + 1 - w(i)), where s sums max(0, w(i) p - q) over the vocabulary, and with w(i)
// when they are all. The longest accepted beginning is kept, and the token after it is drawn from
// norm(max(0, w(i) p - q)).
func Block() Verifier { return &block{} }

type block struct {
	sampler *engine.Sampler
	dice    dice
	p       []engine.Prob // the target's distribution at the node
	rest    []engine.Prob // what the next token is drawn from if the path ends where it was accepted last
}

func (b *block) Start(s Setup) (err error) {
	b.dice = dice{s.Sampling.Seed}
	b.sampler, err = engine.NewSampler(s.Vocab, s.Sampling)
	return err
}

func (b *block) Probs() bool { return true }

func (b *block) Verify(v *Verification) {
	d, text, node := v.Draft, v.Text, -1
	kept, w := 0, 1.0
	for i := 0; ; i++ {
		b.p = b.sampler.AppendDistribution(b.p[:0], v.row(node), text)
		child := d.eldest(node)
		chance := w
		if child >= 0 {
			left := surplus(b.p, w, d.Probs[child], d.Tokens[child])
			if chance = 0; left > 0 {
				chance = left / (left + 1 - w)
			}
		}
		if i == 0 || b.dice.roll(len(text), forAccept, d.Round, i) < chance {
			kept = i
			b.rest = append(b.rest[:0], b.p...)
			if child >= 0 {
				b.rest = residual(b.rest, w, d.Probs[child], d.Tokens[child])
			}
		}
		if child < 0 || w == 0 {
			break
		}
		x := d.Tokens[child]
		w = min(1, float64(w*probability(b.p, x, -1))/probability(d.Probs[child], x, x))
		text, node = v.accept(text, child), child
	}
	v.Path = v.Path[:kept]
	v.Next = draw(b.rest, b.dice.roll(len(v.Text)+kept, forResidual, d.Round, 0))
}
