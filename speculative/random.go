package speculative

import "github.com/specgo/spec/engine"

// What a random number is for. Rules that draw use a stream of their own for each purpose, so that
// no two decisions share a number and none shares the noise of Gumbel-max sampling.
const (
	forDraft    = 1 + iota // the drafter's draw from q
	forAccept              // is a drafted token kept?
	forResidual            // the target's own token
)

// dice gives the random numbers of one seed.
type dice struct{ seed uint64 }

// roll returns a number in [0, 1). The round is part of it because a position that was drafted and
// dropped is drafted again in the next round: rules that look ahead have then already seen the
// first draw.
func (d dice) roll(position, purpose, round, candidate int) float64 {
	return engine.Uniform(d.seed, position, uint64(purpose), uint64(round), uint64(candidate))
}

// draw returns the token at u in the distribution's cumulative sum.
func draw(p []engine.Prob, u float64) int32 {
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
