package speculative

import (
	"fmt"

	"github.com/specgo/spec/engine"
)

// EarlyExit drafts with the target's own first layers, followed by its own output matrix (Zhang et al.
// 2023, "Draft & Verify"; Elhoushi et al. 2024, "LayerSkip"). It needs no second model: the weights
// are shared, only a small cache of those layers is added. How often its tokens are accepted depends
// on the model, which may have been trained to exit early or not. o.Layers 0 is a third of the layers.
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
