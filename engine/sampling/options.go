package sampling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Errors that callers tell apart with errors.Is. They are returned wrapped, with the option and its value in the
// message.
var (
	ErrSampling   = errors.New("sampling option out of range")
	ErrVocabulary = errors.New("token not in the vocabulary")
)

// Options say how the next token is chosen from the logits. The zero value is greedy decoding; every zero field
// switches its step off. Bias, bans and the constraint come after the penalties that are first in Order, and before
// every filter.
type Options struct {
	Temperature float32 // 0 is greedy whatever Order says: the greatest logit that is left, the lower id on a tie
	Dynatemp    Dynatemp
	TopK        int // keep the k most probable tokens

	// TopP keeps the most probable tokens, as many as are needed for a total probability of TopP (nucleus sampling,
	// arXiv:1904.09751); 0 and 1 are off.
	TopP float32

	MinP float32 // keep tokens that are at least MinP times as probable as the most probable one (arXiv:2407.01082)

	// TypicalP keeps the tokens whose surprise is nearest to the expected one, as many as are needed for a total
	// probability of TypicalP (locally typical sampling, arXiv:2202.00666); 0 and 1 are off.
	TypicalP float32

	// TopNSigma keeps tokens whose logits are at most so many standard deviations of all logits below the greatest
	// (arXiv:2411.07641); 0 is off.
	TopNSigma float32

	XTC      XTC
	Infill   Infill   // is on where Order lists it
	Mirostat Mirostat // replaces every filter

	// RepeatPenalty divides positive logits of recent tokens and multiplies negative ones (arXiv:1909.05858); 0 and 1
	// are off.
	RepeatPenalty    float32
	FrequencyPenalty float32 // subtracted from a logit once for every recent occurrence of its token
	PresencePenalty  float32 // subtracted once from the logit of every recent token
	PenaltyLastN     int     // how many tokens are recent; 0 is 64, -1 is the whole sequence, NoTokens is none
	Unpenalized      []int32 // tokens that these three leave as they are
	DRY              DRY

	Order []Step // which steps are taken, in order; a step that is not listed is off. nil: [DefaultOrder]

	LogitBias       map[int32]float32 // added to the logits of these tokens, -1e6 to 1e6; -Inf bans
	Banned          []int32           // tokens that are never chosen
	BannedSequences [][]int32         // the last token of each is never chosen where the others precede it

	MinTokens int     // so many generated tokens are none of Ends
	Ends      []int32 // tokens that end a text

	Constraint     Constraint // which tokens may follow each other in the generated text; nil: all
	ConstraintFrom int        // position of the first generated token, for it, Mirostat and MinTokens. speculative sets it

	Seed uint64 // of the noise; the same seed gives the same tokens
}

// Zero stands for 0 in fields of [Options] whose zero is a default or off: the least number above it.
const Zero = math.SmallestNonzeroFloat32

// mostChange bounds penalties and finite biases. Logits are numbers of about -100 to 100; a bias beyond them forces or
// bans a token already, and sums stay far from overflow.
const mostChange = 1e6

// NoTokens is Options.PenaltyLastN where no token is recent: the penalties are off, whatever they are.
const NoTokens = -2

// defaultLastN is llama.cpp's --repeat-last-n.
const defaultLastN = 64

// bias is one entry of Options.LogitBias.
type bias struct {
	id int32
	x  float32
}

// Check refuses options that are out of range, and token ids outside a vocabulary of so many: with an error that wraps
// [ErrSampling] or [ErrVocabulary]. [New] makes a Sampler of exactly those that it lets pass.
func (o *Options) Check(vocab int) error {
	for _, f := range []struct {
		name   string
		x      float32
		lo, hi float32
	}{
		{"temperature", o.Temperature, 0, math.MaxFloat32},
		{"top-p", o.TopP, 0, 1},
		{"min-p", o.MinP, 0, 1},
		{"repeat penalty", o.RepeatPenalty, 0, mostChange},
		{"frequency penalty", o.FrequencyPenalty, -mostChange, mostChange},
		{"presence penalty", o.PresencePenalty, -mostChange, mostChange},
		{"dynatemp range", o.Dynatemp.Range, 0, mostChange},
		{"dynatemp exponent", o.Dynatemp.Exponent, 0, mostChange},
		{"typical-p", o.TypicalP, 0, 1},
		{"top-n-sigma", o.TopNSigma, 0, mostChange},
		{"xtc probability", o.XTC.Probability, 0, 1},
		{"xtc threshold", o.XTC.Threshold, 0, 1},
		{"mirostat tau", o.Mirostat.Tau, 0, mostChange},
		{"mirostat eta", o.Mirostat.Eta, 0, mostChange},
		{"dry multiplier", o.DRY.Multiplier, 0, mostChange},
		{"dry base", o.DRY.Base, 0, mostChange},
	} {
		if !(f.x >= f.lo && f.x <= f.hi) { // NaN fails too
			return fmt.Errorf("%w: %s %v", ErrSampling, f.name, f.x)
		}
	}
	if p := o.RepeatPenalty; p != 0 && p < 1/mostChange {
		return fmt.Errorf("%w: repeat penalty %v", ErrSampling, p)
	}
	if o.TopK < 0 {
		return fmt.Errorf("%w: top-k %d", ErrSampling, o.TopK)
	}
	if o.PenaltyLastN < NoTokens {
		return fmt.Errorf("%w: penalty window of %d tokens", ErrSampling, o.PenaltyLastN)
	}
	if o.MinTokens < 0 {
		return fmt.Errorf("%w: at least %d tokens", ErrSampling, o.MinTokens)
	}
	if o.ConstraintFrom < 0 {
		return fmt.Errorf("%w: constraint from position %d", ErrSampling, o.ConstraintFrom)
	}
	switch {
	case o.Mirostat.Version < 0 || o.Mirostat.Version > 2:
		return fmt.Errorf("%w: mirostat %d; there are 1 and 2", ErrSampling, o.Mirostat.Version)
	case o.DRY.Shrinks():
		return fmt.Errorf("%w: dry base %v, less than 1", ErrSampling, o.DRY.Base)
	case o.DRY.AllowedLength < 0:
		return fmt.Errorf("%w: dry allowed length %d", ErrSampling, o.DRY.AllowedLength)
	case o.DRY.LastN < -1:
		return fmt.Errorf("%w: dry window of %d tokens", ErrSampling, o.DRY.LastN)
	}
	for _, step := range o.Order {
		if !slices.Contains(Steps(), step) {
			return fmt.Errorf("%w: no step %q; there are %v", ErrSampling, step, Steps())
		}
		if step == StepInfill && o.Infill.Pieces == nil {
			return fmt.Errorf("%w: the step %s needs the texts of tokens", ErrSampling, step)
		}
	}
	if step := o.Twice(); step != "" {
		return fmt.Errorf("%w: step %q twice", ErrSampling, step)
	}
	inside := func(what string, id int32) error {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%s: %w: %d of %d", what, ErrVocabulary, id, vocab)
		}
		return nil
	}
	var wrong error // about the lowest id, whatever the order of the map
	at := int32(0)
	for id, x := range o.LogitBias {
		if wrong != nil && id > at {
			continue
		}
		err := inside("logit bias", id)
		if err == nil && !(x >= -mostChange && x <= mostChange || x == negInf) {
			err = fmt.Errorf("%w: logit bias %v of token %d", ErrSampling, x, id)
		}
		if err != nil {
			wrong, at = err, id
		}
	}
	if wrong != nil {
		return wrong
	}
	for _, f := range []struct {
		what string
		ids  []int32
	}{{"banned token", o.Banned}, {"end of text", o.Ends}, {"unpenalized token", o.Unpenalized},
		{"end of a gap's text", o.Infill.Ends}} {
		for _, id := range f.ids {
			if err := inside(f.what, id); err != nil {
				return err
			}
		}
	}
	for _, f := range []struct {
		what string
		list [][]int32
	}{{"banned sequence", o.BannedSequences}, {"dry breaker", o.DRY.Breakers}} {
		for _, seq := range f.list {
			if len(seq) == 0 {
				return fmt.Errorf("%w: empty %s", ErrSampling, f.what)
			}
			for _, id := range seq {
				if err := inside(f.what, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lastN is the number of tokens that the penalties of normalized options count as recent, given the sequence's
// length.
func (o *Options) lastN(length int) int {
	if o.PenaltyLastN < 0 {
		return length
	}
	return min(o.PenaltyLastN, length)
}

// SetLastN sets how many tokens are recent, as llama.cpp's --repeat-last-n counts them: of 0 tokens there is nothing to
// penalize, and -1 is the whole sequence.
func (o *Options) SetLastN(n int) {
	if o.PenaltyLastN = n; n == 0 {
		o.PenaltyLastN = NoTokens
	}
}

// MaxTemperature is the greatest temperature that a token may be drawn at, of which [Dynatemp] makes a range. At 0 the
// most probable token is chosen, without noise.
func (o *Options) MaxTemperature() float32 { return o.Temperature + o.Dynatemp.Range }

// Most is the most tokens that a distribution has, of a vocabulary of so many tokens.
func (o Options) Most(vocab int) int {
	o = o.Normalized()
	return o.most(vocab)
}

// most is Most of what is normalized.
func (o *Options) most(vocab int) int {
	switch {
	case o.MaxTemperature() == 0:
		return min(1, vocab)
	case o.TopK > 0:
		return min(o.TopK, vocab)
	}
	return vocab
}

// penalizes reports whether any penalty is on.
func (o *Options) penalizes() bool {
	return o.PenaltyLastN != NoTokens &&
		(o.RepeatPenalty != 0 && o.RepeatPenalty != 1 || o.FrequencyPenalty != 0 || o.PresencePenalty != 0)
}

// biases lists LogitBias in the order of ids.
func (o *Options) biases() []bias {
	list := make([]bias, 0, len(o.LogitBias))
	for id, x := range o.LogitBias {
		list = append(list, bias{id, x})
	}
	slices.SortFunc(list, func(a, b bias) int { return cmp.Compare(a.id, b.id) })
	return list
}
