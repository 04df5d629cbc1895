package engine

import (
	"testing"

	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/testkit"
)

// What passes through some of a model's layers cost is one thing, whoever asks first; 0 layers, and too many, are all.
func TestCostsOfLayersAreOne(t *testing.T) {
	m := &Model{}
	m.config.Layers = 3
	var got [4]*costs.Costs
	ask := func(i, layers int) func() { return func() { got[i] = m.Costs(layers) } }
	testkit.AtOnce(20, ask(0, 3), ask(1, 0), ask(2, 4), ask(3, 1))
	if got[0] == nil || got[0] != got[1] || got[0] != got[2] || got[3] == nil || got[3] == got[0] {
		t.Errorf("%v", got)
	}
}
