package shared

import (
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/randommodel"
)

// SetPrepare has f called before each pass; what it returns counts as time of the pass.
func (c *Scheduler) SetPrepare(f func(engine.Batch) time.Duration) { c.prepare = f }

// waitStored waits for what is being stored.
func (c *Scheduler) waitStored() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored.end(c)
}

// SmallModel is a model with random weights of next to no size: so many layers of 90 KB, each of one small head.
func SmallModel(tb testing.TB, rt *engine.Runtime, layers int) *engine.Model {
	shape := randommodel.Llama()
	shape.Context, shape.Layers = 8192, layers
	shape.Heads, shape.KV, shape.HeadDim = 1, 1, 16
	return openFile(tb, rt, shape.File(tb), engine.Options{})
}

// SetPrepareDrafts is SetPrepare for passes of drafts by the model itself ([ExitSession]).
func (c *Scheduler) SetPrepareDrafts(f func(engine.Batch) time.Duration) { c.joint.prepare = f }
