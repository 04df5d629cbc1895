package engine

import "time"

// SetPrepare has f called before each pass; what it returns counts as time of the pass.
func (c *Scheduler) SetPrepare(f func(Batch) time.Duration) { c.prepare = f }
