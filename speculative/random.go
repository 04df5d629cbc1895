package speculative

import "github.com/specgo/spec/engine/sampling"

// The purpose of a random number. Each purpose has a stream of its own, so that no two decisions share a number and
// none shares the noise of Gumbel-max sampling.
const (
	forDraft    = 1 + iota // the drafter's draw from q
	forAccept              // is a drafted token kept?
	forResidual            // the target's own token
)

// randomStream gives the random numbers of one seed.
type randomStream struct{ seed uint64 }

// uniform returns a number in [0, 1). The round is part of it because a position that was drafted and rejected is
// drafted again in the next round: verifiers that look ahead have then used the first number.
func (r randomStream) uniform(position, purpose, round, candidate int) float64 {
	return sampling.Uniform(r.seed, position, uint64(purpose), uint64(round), uint64(candidate))
}

// draw returns the token at u, in [0, 1), of the distribution's cumulative sum; -1 if p is empty.
func draw(p []sampling.Prob, u float64) int32 {
	var total float64
	for i := range p {
		total += float64(p[i].P)
	}
	u = float64(u * total)
	var sum float64
	last := int32(-1)
	for i := range p {
		if p[i].P <= 0 {
			continue
		}
		sum += float64(p[i].P)
		last = p[i].ID
		if u < sum {
			break
		}
	}
	return last
}
