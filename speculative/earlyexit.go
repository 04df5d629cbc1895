package speculative

import (
	"context"
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
)

// EarlyExit drafts with the first o.Layers layers of the target, followed by its output matrix (Zhang et al. 2023,
// "Draft & Verify"; Elhoushi et al. 2024, "LayerSkip"). The weights are shared, so it needs no second model, only a
// cache of those layers: where the target is a [shared.Session] of m, what that has computed of them, or else its own.
// How many of its tokens are accepted depends on whether the model was trained to exit early. o.Layers 0 is a third of
// the layers.
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
	return &earlyExit{newModelDrafter(s), s}, nil
}

type earlyExit struct {
	modelDrafter
	own *engine.Session
}

// Start takes over what the target has computed, where it can be had.
func (e *earlyExit) Start(ctx context.Context, s Setup) error {
	var seq Sequence = e.own
	t, ok := s.Target.(interface {
		Modeled
		Exit(layers int) (*shared.ExitSession, error)
	})
	if ok && t.Model() == e.own.Model() {
		if x, err := t.Exit(e.own.Layers()); err == nil {
			seq = x
		}
	}
	if seq != e.seq.Sequence {
		e.modelDrafter = newModelDrafter(seq)
	}
	return e.modelDrafter.Start(ctx, s)
}
