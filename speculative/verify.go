package speculative

import (
	"errors"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// A Verifier decides which drafted tokens are kept. It belongs to one [Decoder].
type Verifier interface {
	// Start begins a text.
	Start(s Setup) error
	// NeedsProbs reports whether the verifier compares the target's distribution p with the distribution q that the
	// drafter sampled from. Drafters then sample from q with random numbers of their own, and return q.
	NeedsProbs() bool
	// Verify chooses the path of accepted tokens and the target's token after it.
	Verify(v *Verification)
}

// Verification is one round's draft with the target's logits.
type Verification struct {
	Sequence []int32 // before the round; its spare capacity may be used as scratch
	Draft    *Draft
	Logits   engine.Logits // row 0 predicts the token after Sequence, row i+1 the token after draft token i on its path

	Path []int32 // result: indices of the accepted tokens, from the root down
	Next int32   // result: the token after them; -1: none can be chosen
	Err  error   // result: why none can be chosen, as [sampling.Sampler.Err] has it; nil: not known
}

// row is the target's logits after node; -1 is the end of the sequence.
func (v *Verification) row(node int) []float32 { return v.Logits.Row(node + 1) }

// accept extends the path by node and returns the sequence with its token.
func (v *Verification) accept(sequence []int32, node int) []int32 {
	v.Path = append(v.Path, int32(node))
	return append(sequence, v.Draft.Tokens[node])
}

// Greedy keeps a drafted token when it is the target's most likely one; ties go to the lower id. It refuses a
// temperature above 0, and a range of it.
func Greedy() Verifier { return &match{greedy: true} }

// Match keeps a drafted token when it is the token that the target samples there. The noise depends on seed, position
// and token only, so the text is the same with and without speculation.
func Match() Verifier { return &match{} }

type match struct {
	greedy  bool
	sampler *sampling.Sampler
}

var errGreedy = errors.New("greedy verification needs temperature 0, and no range of it")

func (m *match) Start(s Setup) (err error) {
	if m.greedy && s.Sampling.MaxTemperature() > 0 {
		return errGreedy
	}
	m.sampler, err = sampling.New(s.Vocab, s.Sampling)
	return err
}

func (m *match) NeedsProbs() bool { return false }

func (m *match) Verify(v *Verification) {
	sequence, node := v.Sequence, -1
	for {
		v.Next = m.sampler.Pick(v.row(node), sequence)
		if node = v.Draft.Child(node, v.Next); node < 0 {
			v.Err = m.sampler.Err()
			return
		}
		sequence = v.accept(sequence, node)
	}
}
