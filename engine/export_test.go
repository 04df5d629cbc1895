package engine

import (
	"testing"
	"time"
)

// SetPrepare has f called before each pass; what it returns counts as time of the pass.
func (c *Scheduler) SetPrepare(f func(Batch) time.Duration) { c.prepare = f }

// SmallModel is a model with random weights of next to no size: so many layers of 74 KB.
func SmallModel(tb testing.TB, rt *Runtime, layers int) *Model {
	shape := smallLlama()
	shape.context, shape.layers = 8192, layers
	return shape.open(tb, rt, Options{})
}
