package speculative

import (
	"fmt"

	"github.com/specgo/spec/engine"
)

// EarlyExit drafts with the first o.Layers layers of the target, followed by its output matrix (Zhang et al. 2023,
// "Draft & Verify"; Elhoushi et al. 2024, "LayerSkip"). The weights are shared, so it needs no second model, only a
// cache of those layers. How many of its tokens are accepted depends on whether the model was trained to exit early.
// o.Layers 0 is a third of the layers.
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
	return Model(s), nil
}
