package speculative

import "github.com/specgo/spec/engine/sampling"

// Rejection is speculative sampling (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2). p is the
// target's distribution and q the one that the drafter sampled from, both after penalties, filters and temperature. A
// drafted token x is kept with probability min(1, p(x)/q(x)). The first token that is not kept is replaced by a draw
// from norm(max(0, p-q)); when all are kept, one more is drawn from p. The text has the target's distribution,
// whatever q is; it is not the text of plain decoding with the same seed. A token without q was certain: q(x) is 1.
//
// In a tree the children of a node are tried in order, each against what the ones before it left of p (Miao et al.
// 2024, SpecInfer). This is exact when they are tried in the order in which they were drawn, each from the q that is
// recorded with it: the same q for all, or q without the siblings before it (recursive rejection sampling: Yang et
// al. 2024; Jeon et al. 2024), as [Tree] draws them.
func Rejection() Verifier { return &rejection{} }

type rejection struct {
	sampler *sampling.Sampler
	random  randomStream
	p       []sampling.Prob
}

func (r *rejection) Start(s Setup) (err error) {
	r.random = randomStream{s.Sampling.Seed}
	r.sampler, err = sampling.New(s.Vocab, s.Sampling)
	return err
}

func (r *rejection) NeedsProbs() bool { return true }

func (r *rejection) Verify(v *Verification) {
	d, sequence, node := v.Draft, v.Sequence, -1
	for {
		r.p = r.sampler.AppendDistribution(r.p[:0], v.row(node), sequence)
		kept := -1
		for i := node + 1; i < d.Len() && kept < 0; i++ {
			if d.Parent(i) != node {
				continue
			}
			x, q := d.Tokens[i], d.Probs[i]
			u := r.random.uniform(len(sequence), forAccept, d.Round, i)
			if float64(u*probability(q, x, x)) < probability(r.p, x, -1) {
				kept = i
			} else {
				r.p = residual(r.p, 1, q, x)
			}
		}
		if kept < 0 {
			v.Next, v.Err = draw(r.p, r.random.uniform(len(sequence), forResidual, d.Round, 0)), r.sampler.Err()
			return
		}
		sequence, node = v.accept(sequence, kept), kept
	}
}

// probability is the probability of id. A nil distribution has all its mass on token certain.
func probability(p []sampling.Prob, id, certain int32) float64 {
	if p == nil && id == certain {
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

// surplus is the sum of max(0, w p - q). A nil q has all its mass on token certain.
func surplus(p []sampling.Prob, w float64, q []sampling.Prob, certain int32) (sum float64) {
	j := 0
	for i := range p {
		sum += max(0, float64(w*float64(p[i].P))-weight(q, &j, p[i].ID, certain))
	}
	return sum
}

// residual turns p into norm(max(0, w p - q)), in place. Where nothing is left, p stays.
func residual(p []sampling.Prob, w float64, q []sampling.Prob, certain int32) []sampling.Prob {
	left := surplus(p, w, q, certain)
	if left <= 0 {
		return p
	}
	j := 0
	for i := range p {
		p[i].P = float32(max(0, float64(w*float64(p[i].P))-weight(q, &j, p[i].ID, certain)) / left)
	}
	return p
}

// weight is q(id), for calls with ascending ids; *j is where the search continues.
func weight(q []sampling.Prob, j *int, id, certain int32) float64 {
	if q == nil {
		if id == certain {
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
