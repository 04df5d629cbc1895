package speculative

import "github.com/specgo/spec/engine"

// Rejection is speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023,
// algorithm 2). With p what the target and q what the drafter sampled from, both after penalties,
// filters and temperature, a drafted token x is kept with probability min(1, p(x)/q(x)). At the
// first that is not, the token is drawn from norm(max(0, p-q)) instead; when all are kept, one more
// is drawn from p. The text is distributed as the target's, whatever q is; it is not the text that
// plain decoding writes with the same seed. A token without q was certain: q is 1 there.
//
// In a tree the children of a node are tried in order, each against what its elder siblings left of
// p (Miao et al. 2024, SpecInfer). This stays exact when they are tried in the order in which they
// were drawn, each from the q that is recorded with it: always the same, or one without its elder
// siblings (recursive rejection sampling: Yang et al. 2024; Jeon et al. 2024), as [Tree] draws them.
func Rejection() Verifier { return &rejection{} }

type rejection struct {
	sampler *engine.Sampler
	dice    dice
	p       []engine.Prob
}

func (r *rejection) Start(s Setup) (err error) {
	r.dice = dice{s.Sampling.Seed}
	r.sampler, err = engine.NewSampler(s.Vocab, s.Sampling)
	return err
}

func (r *rejection) NeedsProbs() bool { return true }

func (r *rejection) Verify(v *Verification) {
	d, text, node := v.Draft, v.Text, -1
	for {
		r.p = r.sampler.AppendDistribution(r.p[:0], v.row(node), text)
		kept := -1
		for i := node + 1; i < d.Len() && kept < 0; i++ {
			if d.Parent(i) != node {
				continue
			}
			x, q := d.Tokens[i], d.Probs[i]
			u := r.dice.roll(len(text), forAccept, d.Round, i)
			if float64(u*probability(q, x, x)) < probability(r.p, x, -1) {
				kept = i
			} else {
				r.p = residual(r.p, 1, q, x)
			}
		}
		if kept < 0 {
			v.Next = draw(r.p, r.dice.roll(len(text), forResidual, d.Round, 0))
			return
		}
		text, node = v.accept(text, kept), kept
	}
}

// probability looks up a token in a distribution; nil is certainty of token sure.
func probability(p []engine.Prob, id, sure int32) float64 {
	if p == nil && id == sure {
		return 1
	}
	lo, hi := 0, len(p)
	for lo < hi {
		if mid := (lo + hi) / 2; p[mid].ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(p) && p[lo].ID == id {
		return float64(p[lo].P)
	}
	return 0
}

// surplus is the sum of max(0, w p - q); with q nil, all of q lies on token sure.
func surplus(p []engine.Prob, w float64, q []engine.Prob, sure int32) (sum float64) {
	j := 0
	for i := range p {
		sum += max(0, float64(w*float64(p[i].P))-weight(q, &j, p[i].ID, sure))
	}
	return sum
}

// residual turns p into norm(max(0, w p - q)), in place. Where nothing is left, p stays.
func residual(p []engine.Prob, w float64, q []engine.Prob, sure int32) []engine.Prob {
	left := surplus(p, w, q, sure)
	if left <= 0 {
		return p
	}
	j := 0
	for i := range p {
		p[i].P = float32(max(0, float64(w*float64(p[i].P))-weight(q, &j, p[i].ID, sure)) / left)
	}
	return p
}

// weight is q(id) for ascending ids; *j is where the search goes on.
func weight(q []engine.Prob, j *int, id, sure int32) float64 {
	if q == nil {
		if id == sure {
			return 1
		}
		return 0
	}
	for *j < len(q) && q[*j].ID < id {
		*j++
	}
	if *j < len(q) && q[*j].ID == id {
		return float64(q[*j].P)
	}
	return 0
}
