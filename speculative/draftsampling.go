package speculative

import (
	"fmt"
	"slices"
	"strings"
)

// DraftSampling says how drafters that have a distribution choose their tokens at a temperature above 0. It changes
// which drafts are accepted, not what the verifiers promise.
type DraftSampling int

const (
	// DraftDefault is DraftFromQ for verifiers that compare distributions ([Rejection], [Block]) and DraftShared for the
	// others.
	DraftDefault DraftSampling = iota
	// DraftGreedy takes the most likely token, as assisted generation does (Gante 2023). The higher the temperature, the
	// less often the target samples that token.
	DraftGreedy
	// DraftShared samples with the target's noise, the same for the same seed, position and token: two similar
	// distributions mostly choose the same token, and the more so as the temperature rises and both become the noise's
	// maximum.
	DraftShared
	// DraftFromQ samples with random numbers of its own (Leviathan et al. 2023; Chen et al. 2023).
	DraftFromQ
)

// draftSamplings are their names.
var draftSamplings = [...]string{DraftGreedy: "greedy", DraftShared: "shared", DraftFromQ: "q"}

// DraftSamplings lists the names that [ParseDraftSampling] takes.
func DraftSamplings() []string { return slices.Clone(draftSamplings[1:]) }

// ParseDraftSampling reads one of [DraftSamplings]; "" is DraftDefault.
func ParseDraftSampling(name string) (DraftSampling, error) {
	if i := slices.Index(draftSamplings[:], name); i >= 0 {
		return DraftSampling(i), nil
	}
	return 0, fmt.Errorf("%w: draft sampling %q (there are %s)", ErrOptions, name, strings.Join(draftSamplings[1:], ", "))
}

// drafting is the setup that drafters get.
func (s DraftSampling) drafting(u Setup) (Setup, error) {
	switch s {
	case DraftDefault:
	case DraftGreedy:
		u.Sampling.Temperature, u.Sampling.Dynatemp.Range, u.NeedsProbs = 0, 0, false // a token without q was certain
	case DraftShared:
		u.NeedsProbs = false
	case DraftFromQ:
		u.NeedsProbs = true
	default:
		return u, fmt.Errorf("%w: draft sampling %d", ErrOptions, s)
	}
	return u, nil
}
