package shared

import "time"

// mostWaits is how many bounds a pass waits at most while the runtime computes other models' passes.
const mostWaits = 4

// wait is the bound: how long a pass waits for those that are expected.
func (c *Scheduler) wait() time.Duration {
	if c.o.Wait != 0 {
		return max(c.o.Wait, 0)
	}
	return min(max(c.cost.MeanTime(), minWait), maxWait)
}

// moment is a time, and for how long the runtime had computed other Schedulers' passes by then.
type moment struct {
	at     time.Time
	worked time.Duration
}

func (c *Scheduler) now() moment {
	_, worked := c.others()
	return moment{time.Now(), worked}
}

// others is how many passes of other models run or wait, and for how long the runtime has computed such passes.
func (c *Scheduler) others() (open int, worked time.Duration) {
	open, worked = c.m.Runtime().Turns()
	if c.running { // that one is its own
		open--
	}
	return open, worked - time.Duration(c.worked.Load())
}

// left is how long it is until the bound, counted from a moment, has passed; 0 if it has. The time that the runtime
// spends on passes of other models, such as those of drafts, does not count: to wait for what they are for costs
// nothing. But it ends at mostWaits bounds.
func (c *Scheduler) left(from moment) time.Duration {
	open, worked := c.others()
	return c.remains(from, open, worked)
}

// remains is left where so many passes of others run or wait, which the runtime had computed for so long.
func (c *Scheduler) remains(from moment, open int, worked time.Duration) time.Duration {
	bound, since := c.wait(), time.Since(from.at)
	most := mostWaits*bound - since
	if most <= 0 || bound == 0 {
		return 0
	}
	left := bound - since + worked - from.worked
	if left < minWait && open > 0 {
		left = minWait
	}
	return min(max(left, 0), most)
}

// kick has a pass begin if it is time: it tells one of the sessions in it to run it.
func (c *Scheduler) kick() {
	if c.running || c.closed || len(c.pending) == 0 {
		c.disarm()
		return
	}
	if c.missing > 0 {
		if !c.armed {
			c.armed, c.since = true, c.now()
			c.timer.Reset(c.wait())
		}
		if c.left(c.since) > 0 {
			return
		}
		c.stats.Late += c.lose()
		c.blocked = false // they may have to give up memory now
	}
	if c.disarm(); !c.blocked {
		c.lead()
	}
}

// changed is called after what may have a pass begin.
func (c *Scheduler) changed() {
	c.blocked = false
	c.kick()
}

// freed is called after memory, or a session's place, became free.
func (c *Scheduler) freed() {
	c.blocked = false
	c.admit()
	c.kick()
}

// bound is called by the timer.
func (c *Scheduler) bound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		return // the pass began meanwhile
	}
	if left := c.left(c.since); left > 0 { // the bound of an earlier pass, or it has grown
		c.timer.Reset(left)
		return
	}
	c.kick()
}
