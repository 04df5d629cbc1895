package engine

import (
	"context"
	"time"
)

// PassRows is the most rows (tokens) that go through the layers together, unless weights are read from disk.
const PassRows = passRows

// Turn is a pass of which the other users of its Runtime know ([Runtime.Turns]), while it waits for theirs and while
// it runs.
type Turn struct {
	Took time.Duration // of the pass itself, without the wait

	rt *Runtime
}

// Turn begins a turn, which End ends.
func (rt *Runtime) Turn() Turn {
	rt.turns.open.Add(1)
	return Turn{rt: rt}
}

// Turns is the number of turns that have begun and not ended, and what those took that have ended.
func (rt *Runtime) Turns() (open int, took time.Duration) {
	return int(rt.turns.open.Load()), time.Duration(rt.turns.took.Load())
}

// Forward is [Model.Forward] of a model of the Runtime, whose time it adds to Took.
func (t *Turn) Forward(ctx context.Context, m *Model, b Batch) ([]Result, error) {
	t.rt.t.Lock()
	defer t.rt.t.Unlock()
	begin := time.Now()
	defer func() { t.Took += time.Since(begin) }()
	results, err := m.forward(ctx, b)
	if err == nil {
		m.learn(b, results, t.Took+time.Since(begin))
	}
	return results, err
}

// End ends the turn.
func (t *Turn) End() {
	t.rt.turns.took.Add(int64(t.Took))
	t.rt.turns.open.Add(-1)
}
