package speculative

import (
	"context"
	"fmt"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/engine/shared"
)

// Self drafts with the target itself in fewer bits: a draft form of its model ([engine.Model.NewDraftForm]). It needs
// no second model and reads no prompt: every draft begins with the keys, values and states that the target has
// computed, and what the form computes is dropped after it. form returns the draft form, nil while there is none yet:
// then nothing is drafted. It is called from the text's beginning on. o is for targets whose sequences cannot be taken
// over, those that are neither an [*engine.Session] nor a [*shared.Session] of the form's model: the text is then read
// by the form.
func Self(m *engine.Model, form func() *engine.DraftForm, o engine.SessionOptions) (Drafter, error) {
	seq, err := newSelfSequence(m, form, o)
	if err != nil {
		return nil, err
	}
	d := &self{newModelDrafter(seq), seq}
	d.ready, d.likely = seq.ready, selfAcceptance
	return d, nil
}

// SelfSplice is [Splice] with the sequence of [Self]. Sources draft from the first token on, also while there is no
// draft form.
func SelfSplice(m *engine.Model, form func() *engine.DraftForm, o engine.SessionOptions, t TreeOptions) (Drafter,
	error) {
	seq, err := newSelfSequence(m, form, o)
	if err != nil {
		return nil, err
	}
	d := &selfSplice{newTree(seq, t, true), seq}
	d.model.ready, d.model.likely = seq.ready, selfAcceptance
	return d, nil
}

type self struct {
	modelDrafter
	own *selfSequence
}

// Start looks where the target's sequence can be taken over.
func (d *self) Start(ctx context.Context, s Setup) error {
	if err := d.own.begin(s.Target); err != nil {
		return err
	}
	d.seq.Sequence = d.own.sequence()
	return d.modelDrafter.Start(ctx, s)
}

// selfAcceptance is how often a token that a model drafts in fewer bits is accepted, before its texts have shown it.
// Of the 1 B pair's target in Q8_0 and its own Q4_0, 12 code prompts, greedy: 0.98 for a draft's first token, 0.91 for
// the seventh.
const selfAcceptance = 0.93

type selfSplice struct {
	*tree
	own *selfSequence
}

// Start looks where the target's sequence can be taken over.
func (d *selfSplice) Start(ctx context.Context, s Setup) error {
	if err := d.own.begin(s.Target); err != nil {
		return err
	}
	d.model.seq.Sequence = d.own.sequence()
	return d.tree.Start(ctx, s)
}

// forkable is a sequence whose state drafts can go on from: an [*engine.Session].
type forkable interface {
	Modeled
	Listed
	Layers() int
	Restorable(n int) int
	DraftAt(n int, f *engine.DraftForm, old *engine.Session) (*engine.Session, error)
	ExitAt(n, layers int, old *engine.Session) (*engine.Session, error)
}

// lending is a sequence that makes sequences of a draft form by itself: a [*shared.Session].
type lending interface {
	Modeled
	Draft(f *engine.DraftForm) (*shared.ExitSession, error)
}

// selfSequence is what a draft form, or the model's first layers, compute after what the target has. Tokens are
// computed when logits are wanted. Every draft begins with all that the target has by then: so there is memory for what
// is drafted and the page that it begins in, and not for a text.
type selfSequence struct {
	m       *engine.Model
	form    func() *engine.DraftForm // of drafts in fewer bits
	layers  int                      // of drafts by the first layers; 0: by the form
	options engine.SessionOptions
	context int
	tokens  []int32

	target Sequence        // forkable, lending, or nil: the form reads the text
	own    *engine.Session // nil: none yet
}

func newSelfSequence(m *engine.Model, form func() *engine.DraftForm, o engine.SessionOptions) (*selfSequence, error) {
	if m == nil || form == nil {
		return nil, fmt.Errorf("self: %w: no model, or no draft form of it", ErrOptions)
	}
	return &selfSequence{m: m, form: form, options: o}, nil
}

// ready reports whether there is a draft form.
func (s *selfSequence) ready() bool { return s.form() != nil }

// fork is what drafts after the first n tokens of t, in the place of s.own.
func (s *selfSequence) fork(t forkable, n int, form *engine.DraftForm) (err error) {
	old := s.own
	s.own = nil
	if s.layers > 0 {
		s.own, err = t.ExitAt(n, s.layers, old)
	} else {
		s.own, err = t.DraftAt(n, form, old)
	}
	return err
}

// begin begins a text of a target.
func (s *selfSequence) begin(target Sequence) error {
	s.close()
	s.target, s.context, s.tokens = nil, target.Context(), s.tokens[:0]
	if t, ok := target.(Modeled); ok && !absent(t) && t.Model() == s.m {
		switch t.(type) {
		case forkable, lending:
			s.target = target
		}
	}
	if s.target == nil && s.m.Encodes() {
		return fmt.Errorf("self: %w: an encoder-decoder model whose sequence cannot be taken over", ErrOptions)
	}
	return nil
}

// sequence is s as the text's target has it: with shared passes, or not.
func (s *selfSequence) sequence() Sequence {
	if t, ok := s.target.(lending); ok {
		return &sharedSelf{selfSequence: s, lender: t}
	}
	return s
}

// sharedSelf is a selfSequence whose passes are shared with those of other texts that draft at the same time.
type sharedSelf struct {
	*selfSequence
	shared.Unread
	lender lending
}

// drafts is the sequence that computes, nil while there is no draft form.
func (s *sharedSelf) drafts() *shared.ExitSession {
	form := s.form()
	if form == nil {
		return nil
	}
	x, err := s.lender.Draft(form)
	if err != nil {
		return nil
	}
	return x
}

// Spent is the time of the passes so far.
func (s *sharedSelf) Spent() time.Duration {
	if x := s.drafts(); x != nil {
		return x.Spent()
	}
	return 0
}

// Costs is what passes of the draft form take.
func (s *sharedSelf) Costs() *costs.Costs {
	if x := s.drafts(); x != nil {
		return x.Costs()
	}
	return &costs.Costs{}
}

// Announce says whether drafts are on their way.
func (s *sharedSelf) Announce(will bool) {
	if x := s.drafts(); x != nil {
		x.Announce(will)
	}
}

// PassCosts is what a pass costs that is shared as much as lately.
func (s *sharedSelf) PassCosts(seconds []float64) bool {
	x := s.drafts()
	return x != nil && x.PassCosts(seconds)
}

// Load is that of the target.
func (s *sharedSelf) Load() shared.Load {
	if x := s.drafts(); x != nil {
		return x.Load()
	}
	return shared.Load{}
}

// Reads is how much of the model's weights a pass of the draft form reads.
func (s *sharedSelf) Reads() float64 { return s.m.PlanDraftForm().Reads }

// release gives back at a text's end what drafts had of the target's memory.
func (d *self) release() { d.own.close() }

// release is the same for a splice.
func (d *selfSplice) release() { d.own.close() }

// close drops what has been computed.
func (s *selfSequence) close() {
	s.own.Close()
	s.own = nil
}

// Len is the number of tokens of the sequence.
func (s *selfSequence) Len() int { return len(s.tokens) }

// Tokens is the sequence.
func (s *selfSequence) Tokens() []int32 { return s.tokens }

// Context is the most tokens that the sequence can have.
func (s *selfSequence) Context() int { return s.context }

// Vocab is the number of logits in a row.
func (s *selfSequence) Vocab() int { return s.m.Config().Vocab }

// MaxTree is 0: drafts are computed as chains.
func (s *selfSequence) MaxTree() int { return 0 }

// Model is the model that drafts for itself.
func (s *selfSequence) Model() *engine.Model { return s.m }

// Truncate shortens the sequence to its first n tokens.
func (s *selfSequence) Truncate(n int) error {
	if n < 0 || n > len(s.tokens) {
		return fmt.Errorf("self: %w: Truncate(%d) of %d tokens", engine.ErrUsage, n, len(s.tokens))
	}
	s.tokens = s.tokens[:n]
	return nil
}

// Commit fails: there are no trees.
func (s *selfSequence) Commit([]int32) error {
	return fmt.Errorf("self: %w: a tree of a draft form", engine.ErrUsage)
}

// Eval feeds tokens to the sequence. While there is no draft form, or no memory for what it computes, it wraps
// engine.ErrKVBudget.
func (s *selfSequence) Eval(ctx context.Context, tokens, parents []int32, want engine.Rows) (engine.Logits, error) {
	if parents != nil {
		return engine.Logits{}, s.Commit(nil)
	}
	had := len(s.tokens)
	if had+len(tokens) > s.context {
		return engine.Logits{}, fmt.Errorf("self: %w: %d tokens and %d more, room for %d", engine.ErrContextFull, had,
			len(tokens), s.context)
	}
	s.tokens = append(s.tokens, tokens...)
	rows := int(want)
	if want == engine.All {
		rows = len(tokens)
	}
	if rows == 0 {
		return engine.Logits{Vocab: s.Vocab()}, nil
	}
	logits, err := s.pass(ctx, rows)
	if err != nil {
		s.tokens = s.tokens[:had]
	}
	return logits, err
}

// pass computes what there is not of the sequence, and logits of its last rows.
func (s *selfSequence) pass(ctx context.Context, rows int) (engine.Logits, error) {
	var form *engine.DraftForm
	if s.layers == 0 {
		if form = s.form(); form == nil {
			return engine.Logits{}, fmt.Errorf("self: no draft form of %s yet: %w", s.m.Name(), engine.ErrKVBudget)
		}
	}
	upTo := len(s.tokens) - rows
	if t, ok := s.target.(lending); ok {
		x, err := t.Draft(form)
		if err != nil {
			return engine.Logits{}, err
		}
		if err := x.Truncate(min(engine.Common(x.Tokens(), s.tokens), upTo)); err != nil {
			return engine.Logits{}, err
		}
		return x.Eval(ctx, s.tokens[x.Len():], nil, engine.Rows(rows))
	}
	have := 0
	if s.own != nil {
		have = s.own.Restorable(min(engine.Common(s.own.Tokens(), s.tokens), upTo))
	}
	switch t := s.target.(type) {
	case forkable:
		n := t.Restorable(min(engine.Common(t.Tokens(), s.tokens), upTo))
		if s.own != nil && n <= min(have, s.own.Taken()) {
			break
		}
		if err := s.fork(t, n, form); err != nil {
			return engine.Logits{}, err
		}
		have = n
	default:
		if s.own == nil {
			o := s.options
			o.Form = form
			own, err := s.m.NewSession(o)
			if err != nil {
				return engine.Logits{}, err
			}
			s.own, have = own, 0
		}
	}
	if err := s.own.Truncate(have); err != nil {
		return engine.Logits{}, err
	}
	return s.own.Eval(ctx, s.tokens[have:], nil, engine.Rows(rows))
}
