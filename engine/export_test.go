package engine

import (
	"testing"
	"time"
)

// SetPrepare has f called before each pass; what it returns counts as time of the pass.
func (c *Scheduler) SetPrepare(f func(Batch) time.Duration) { c.prepare = f }

// SmallModel is a model with random weights of next to no size.
func SmallModel(tb testing.TB, rt *Runtime) *Model {
	shape := smallLlama()
	shape.context = 8192
	return shape.open(tb, rt, Options{})
}
