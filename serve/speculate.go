package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// Speculation says who drafts, how much, and how drafts are verified. What a request leaves open is the model's, then
// the server's, then the default.
type Speculation = speculative.Choice

// checkSpeculation refuses what no request could mean.
func checkSpeculation(s Speculation) error {
	if s.Max > MaxDraft || s.Min > MaxDraft {
		return fmt.Errorf("draft lengths go from 0 to %d", MaxDraft)
	}
	return s.Check(0) // requests have their own temperatures
}

// speculation is a request's, completed by the defaults, for a model.
func (m *loaded) speculation(s Speculation, temperature float32) (Speculation, *Error) {
	s = s.Or(m.Speculation).Or(m.server.o.Speculation).Complete(m.Draft, m.foreign)
	err := s.Check(temperature)
	if err == nil {
		err = s.Fits(m.Target, m.Draft, m.foreign)
	}
	if e := (*speculative.ChoiceError)(nil); errors.As(err, &e) {
		return s, badField("speculation."+e.Field, "%s (model %s)", e.Reason, m.name)
	}
	return s, nil
}

// openDraft makes a sequence of the draft model, or of the draft head, for a text.
func (m *loaded) openDraft(ctx context.Context, target sequence) (seq interface {
	speculative.Sequence
	Close()
}, err error) {
	if h := m.Draft.Head(); h == nil || !h.SharesCache {
		return m.draft.open(ctx, target.salt())
	}
	t, ok := target.(sharedSequence)
	if !ok {
		return nil, fmt.Errorf("%s: %w: a draft head that looks at the cache of a sequence that has none to show", m.name,
			engine.ErrUnsupported)
	}
	return shared.NewLentSession(m.Draft, t.Session,
		engine.SessionOptions{Context: min(m.context, m.Draft.Config().Context)})
}

// newDrafter makes the drafter of a text and what must be closed after it.
func (m *loaded) newDrafter(ctx context.Context, s Speculation, target sequence) (
	d speculative.Drafter, done func(), err error) {
	p := speculative.Parts{Target: m.Target, Session: engine.SessionOptions{Context: m.context, KV: m.server.o.KV}}
	done = func() {}
	if s.Needs().Draft() {
		seq, err := m.openDraft(ctx, target)
		if err != nil {
			return nil, nil, err
		}
		p.Draft, done = seq, seq.Close
	}
	d, err = s.NewDrafter(p)
	if err != nil {
		done()
		return nil, nil, err
	}
	return d, done, nil
}
