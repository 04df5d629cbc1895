package speculative

import (
	"context"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/engine/shared"
)

// Abilities that drafters, schedules, verifiers and sequences may have beyond their interface. All are optional. The
// decoder finds them by type assertion, so those from outside the project have them too. A drafter that wraps
// another one should pass them on.
type (
	// Branching is a [Drafter] whose drafts are trees. Branches is the number of chains of full length that a draft
	// may hold; a draft has room for that many, within what the target's trees hold ([Sequence].MaxTree). Without it a
	// drafter has room for one chain of tokens, in any shape.
	Branching interface {
		Drafter
		Branches() int
	}

	// Clocked is a [Drafter] or [Schedule] that measures time. The decoder calls SetClock before each text. Times are
	// since some fixed moment; tests replace the clock by a virtual one.
	Clocked interface {
		SetClock(now func() time.Duration)
	}

	// Continuing is a [Drafter] that can continue a draft which begins with tokens that a constraint forces: a chain of
	// [Draft.Prefix] tokens. Without it, a drafter is not asked in rounds that begin with a longer run of forced tokens.
	Continuing interface {
		Drafter
		Continues() bool
	}

	// Forcing is a [Schedule] that decides how many of n forced tokens the pass of a round verifies. Without it all are.
	Forcing interface {
		Schedule
		Force(n int) int
	}

	// Choosing is a [Schedule] that decides which drafters of a [Merge] draft. Begin is called before each one, numbered
	// from 0 however merges nest; tokens is the number of tokens that the ones before it drafted. Without it all draft.
	Choosing interface {
		Schedule
		Begin(lane, tokens int) bool
	}

	// Learning is a [Schedule] or [Drafter] that can save what it learned, for another process. Restore takes what Save
	// returned; anything else is refused with an error that wraps [ErrState].
	Learning interface {
		Save() ([]byte, error)
		Restore(state []byte) error
	}

	// Encoding is a [Sequence] of an encoder-decoder model, such as an [*engine.Session] of one. Encode sets the
	// encoder's input and empties the sequence; Input is what was set last, nil before that.
	Encoding interface {
		Sequence
		Encode(ctx context.Context, ids []int32) error
		Input() []int32
	}

	// Evaluator is a [Verifier] that computes the logits of a chain in its own way, as [Stairs] does. When Evaluate is
	// called, target holds sequence without its last token. It returns a row for the last token and one for each token of
	// the draft, and leaves sequence and the whole draft in target. Trees are evaluated by the decoder.
	Evaluator interface {
		Verifier
		Evaluate(ctx context.Context, target Sequence, sequence []int32, d *Draft) (engine.Logits, error)
		// Work is how many passes the last Evaluate made, and the tokens in them.
		Work() (passes, tokens int)
	}

	// Listed is a [Sequence] that knows its tokens. What it holds when a text begins is then reused, also if others fed
	// it. Without it a sequence is assumed to hold what this package fed, and emptied when its length differs.
	// [*engine.Session] is Listed.
	Listed interface {
		Sequence
		Tokens() []int32
	}

	// Altered is a [Sequence] whose logits need not be those of its model: texts that it has a part in have no [Receipt].
	// Altered says what it is, for the error.
	Altered interface {
		Sequence
		Altered() string
	}

	// Metered is a [Sequence] that accounts for the time of its own passes, such as one whose passes wait in a queue or
	// are shared with other users'. Spent is the total so far; what it grows by in an Eval is the cost of that Eval.
	// Schedules and drafters are then told this time, by their clock and in [Round], instead of the time on the clock.
	// It holds for the target and for the sequences of this package's drafters.
	Metered interface {
		Sequence
		Spent() time.Duration
	}

	// Costed is a [Sequence] that knows what its passes take, by the time of every pass of its model. Without it [Auto]
	// learns that from its rounds. [*engine.Session] and [*shared.Session] are Costed.
	Costed interface {
		Sequence
		Costs() *costs.Costs
	}

	// Shared is a [Sequence] whose passes are shared with others, such as [*shared.Session].
	//
	//   - Announce says whether another Eval is on its way, which the passes of others wait for. After an Eval one is
	//     expected. The decoder calls it for the target when a text ends, and for the sequences that a drafter enlists
	//     around each draft.
	//   - Follow has f announced at the end of each pass, before any decoder goes on: passes of drafts then wait for all
	//     drafts that begin.
	//   - Load is the load of all of them.
	//   - PassCosts fills seconds[i] with the cost of an Eval of i+1 tokens with logits for all of them. It reports
	//     false, and fills nothing, where that is not known, or is what a sequence alone would measure.
	//   - Reusable is how many tokens at the beginning of a text need not be computed, since the sequence or another one
	//     has them.
	//   - Await is called for a draft head's, with the whole of a text that it is to read: it may wait for others that are
	//     reading a text that begins alike. The next Announce says that the text has been read, or will not be.
	//   - Resume is called for a draft head's while it is empty: tokens will follow before, the first tokens of the text,
	//     each fed with the target's states. It leaves the first of them in the sequence if another one has them, and
	//     returns what that had beyond them: next, tokens with the states that the target's passes gave for them. unread
	//     is asked for such tokens and states of this text when the sequence is closed.
	//
	// Costs are by the measure of [Metered].
	Shared interface {
		Metered
		Costed
		Announce(will bool)
		Follow(f interface{ Announce(will bool) })
		Load() shared.Load
		PassCosts(seconds []float64) bool
		Reusable(text []int32) int
		Await(ctx context.Context, text []int32)
		Resume(ctx context.Context, before, tokens []int32, unread func() (tokens []int32, states []float32)) (
			next []int32, states []float32)
	}

	// Recalling is a [Sequence] that can look in a store for what was computed of a text, such as [*shared.Session].
	// Recall is called with the whole of a text, or of a prompt without its last token, before the first of it is fed.
	Recalling interface {
		Sequence
		Recall(ctx context.Context, text []int32)
	}

	// Taking is a [Sequence] that goes on from what the target has computed, such as that of [Self]: it reads no text, and
	// so lags behind none. Reads is how much of the weights of a pass of the target its passes read.
	Taking interface {
		Sequence
		Reads() float64
	}

	// Starting is a [Schedule] that is told when texts begin and end. It may change how the text begins for the drafter,
	// which is nil in plain decoding. [Auto] is Starting.
	Starting interface {
		Schedule
		Start(s *Setup, d Drafter)
		End()
	}

	// Trimming is a [Schedule] that chooses which tokens of a finished draft are verified: a path, as indices in the
	// draft from the root down. The drafter's Observe is told of the whole draft, unless it knows the passes. [Oracle]
	// is Trimming.
	Trimming interface {
		Schedule
		Trim(d *Draft) (path []int)
	}

	// Merging is a [Drafter] of several, which draft side by side. Those that need hidden states are found within it.
	// [Merge] is Merging.
	Merging interface {
		Drafter
		Drafters() []Drafter
	}

	// Sequenced is a [Drafter] with a sequence of its own, whose model and load [Auto] looks at.
	Sequenced interface {
		Drafter
		Sequence() Sequence
	}

	// Modeled is a [Sequence] whose model is known. Drafters check by it that target and draft have the same vocabulary;
	// without it that is up to the caller. [*engine.Session] is Modeled.
	Modeled interface {
		Sequence
		Model() *engine.Model
	}
)

// Hidden states that drafters need.
type (
	// Segmented is a [Sequence] whose passes give and take hidden states. [*engine.Session] is Segmented.
	Segmented interface {
		Sequence
		// EvalSegment is Eval of the segment's tokens; its Session is not used.
		EvalSegment(ctx context.Context, g engine.Segment) (engine.Result, error)
	}

	// Attentive is a [Drafter] that needs hidden states of the target, which must then be [Segmented]. The decoder also
	// finds those within a [Merge].
	Attentive interface {
		Drafter
		// HiddenLayers are the layers whose states the drafter needs, as in [engine.Segment]; none: it needs no states.
		HiddenLayers(target Sequence) []int
		// Known is called before the prompt is fed, and so before Start. It returns for how many tokens at its beginning the
		// states need not come again.
		Known(ctx context.Context, prompt []int32) (int, error)
		// Hidden is called after each pass of the target with the states of its tokens, which follow the first position
		// tokens of the text; parents is nil for a chain. Passes before Start feed the prompt, each of the others a
		// sequence's last token and the draft after it. States may come again. s is valid during the call. It has the
		// layers that all drafters need.
		Hidden(ctx context.Context, position int, tokens, parents []int32, s engine.HiddenStates) error
	}
)

// attentive lists the drafters that need hidden states.
func attentive(d Drafter, target Sequence) (all []Attentive) {
	if m, ok := d.(Merging); ok {
		for _, x := range m.Drafters() {
			all = append(all, attentive(x, target)...)
		}
		return all
	}
	if a, ok := d.(Attentive); ok && len(a.HiddenLayers(target)) > 0 {
		return []Attentive{a}
	}
	return nil
}

// release gives back what drafters have of the target's memory, which the next text may need.
func release(d Drafter) {
	switch x := d.(type) {
	case Merging:
		for _, d := range x.Drafters() {
			release(d)
		}
	case interface{ release() }:
		x.release()
	}
}

// chains is the number of chains of full length that a drafter's draft may hold.
func chains(d Drafter) int {
	if w, ok := d.(Branching); ok {
		return max(1, w.Branches())
	}
	return 1
}

// continues reports whether a drafter continues forced tokens.
func continues(d Drafter) bool {
	c, ok := d.(Continuing)
	return ok && c.Continues()
}
