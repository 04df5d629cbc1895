package speculative

import (
	"errors"

	"github.com/specgo/spec/engine"
)

// A Verifier is the rule by which drafted tokens are kept.
type Verifier interface {
	// Start begins a text.
	Start(s Setup) error
	// NeedsProbs reports whether the rule weighs p against q: then drafters sample from q, on their own
	// random numbers, and keep it.
	NeedsProbs() bool
	// Verify chooses the path of accepted tokens and the target's own token after it.
	Verify(v *Verification)
}

// Verification is one round's draft with what the target said about it.
type Verification struct {
	Text   []int32 // what was written before; spare capacity may be used as scratch
	Draft  *Draft
	Logits engine.Logits // row 0 follows the text, row i+1 follows the draft's token i on its path

	Path []int32 // result: the accepted tokens' indices, from the root
	Next int32   // result: the token after them
}

// row is what the target said after node, -1 being the text's end.
func (v *Verification) row(node int) []float32 { return v.Logits.Row(node + 1) }

// accept extends the path by node and returns the text as it is then.
func (v *Verification) accept(text []int32, node int) []int32 {
	v.Path = append(v.Path, int32(node))
	return append(text, v.Draft.Tokens[node])
}

// Greedy keeps a drafted token when it is the target's most likely one; of equally likely ones the
// lowest id counts. It refuses a temperature above 0.
func Greedy() Verifier { return &match{greedy: true} }

// Match keeps a drafted token when it is the one that the target samples there. Plain decoding samples
// with the same noise, so the text is the same with and without speculation.
func Match() Verifier { return &match{} }

type match struct {
	greedy  bool
	sampler *engine.Sampler
}

var errGreedy = errors.New("greedy verification needs temperature 0")

func (m *match) Start(s Setup) (err error) {
	if m.greedy && s.Sampling.Temperature > 0 {
		return errGreedy
	}
	m.sampler, err = engine.NewSampler(s.Vocab, s.Sampling)
	return err
}

func (m *match) NeedsProbs() bool { return false }

func (m *match) Verify(v *Verification) {
	text, node := v.Text, -1
	for {
		v.Next = m.sampler.Pick(v.row(node), text)
		if node = v.Draft.Child(node, v.Next); node < 0 {
			return
		}
		text = v.accept(text, node)
	}
}
