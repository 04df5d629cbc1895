package speculative

import (
	"context"
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
)

// EarlyExit drafts with the first o.Layers layers of the target, followed by its output matrix (Zhang et al. 2023,
// "Draft & Verify"; Elhoushi et al. 2024, "LayerSkip"). The weights are shared, so it needs no second model, and where
// the target is an [*engine.Session] or a [*shared.Session] of m, what that has computed of these layers: then it reads
// no prompt. Of other targets it reads the text in a session of its own, with o. How many of its tokens are accepted
// depends on whether the model was trained to exit early. o.Layers 0 is a third of the layers. More layers than the
// model has are an error that wraps [engine.ErrUsage].
func EarlyExit(m *engine.Model, o engine.SessionOptions) (Drafter, error) {
	if m == nil {
		return nil, fmt.Errorf("early exit: %w: no model", ErrOptions)
	}
	if o.Layers == 0 {
		o.Layers = (m.Config().Layers + 2) / 3
	}
	s, err := m.NewSession(o)
	if err != nil {
		return nil, err
	}
	s.Close() // the options are right
	return &earlyExit{newModelDrafter(s), o, &selfSequence{m: m, layers: o.Layers}, nil}, nil
}

type earlyExit struct {
	modelDrafter
	options engine.SessionOptions
	taken   *selfSequence   // of an [*engine.Session]
	own     *engine.Session // of targets whose sequences cannot be taken over; nil: there was none
}

// Start takes over what the target has computed, where it can be had.
func (e *earlyExit) Start(ctx context.Context, s Setup) error {
	seq, err := e.sequence(s.Target)
	if err != nil {
		return err
	}
	if seq != e.seq.Sequence {
		e.modelDrafter = newModelDrafter(seq)
	}
	return e.modelDrafter.Start(ctx, s)
}

// sequence is what drafts for a target.
func (e *earlyExit) sequence(target Sequence) (Sequence, error) {
	e.taken.close()
	if t, ok := target.(Modeled); ok && t.Model() == e.taken.m {
		switch t := target.(type) {
		case interface {
			Exit(layers int) (*shared.ExitSession, error)
		}:
			if x, err := t.Exit(e.options.Layers); err == nil {
				return x, nil
			}
		case forkable:
			if t.Layers() >= e.options.Layers {
				return e.taken, e.taken.begin(t)
			}
		}
	}
	if e.own == nil {
		own, err := e.taken.m.NewSession(e.options)
		if err != nil {
			return nil, err
		}
		e.own = own
	}
	return e.own, nil
}

// release gives back at a text's end what drafts had of the target's memory.
func (e *earlyExit) release() { e.taken.close() }
