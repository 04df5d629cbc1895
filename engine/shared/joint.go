package shared

import (
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// joint is the passes of sessions that compute drafts ([ExitSession]). Sessions whose drafts are under way at the same
// time share one, as far as they go through the same weights: a pass reads these once, whoever drafts. It begins when
// all that have announced themselves have asked for it, or the bound of the Scheduler's passes has passed. Guarded by
// the Scheduler's mu.
type joint struct {
	missing int            // sessions that are waited for
	asking  []*ExitSession // that wait for a pass, in order
	leader  *ExitSession   // whose goroutine is to run the next; nil: none is to begin
	running bool           // a pass runs, or there is a leader
	timer   *time.Timer
	armed   bool   // the timer runs
	since   moment // from then on
	peers   float64
	prepare func(engine.Batch) time.Duration // tests: as the Scheduler's

	// of one pass
	with    []*ExitSession
	batch   engine.Batch
	results []engine.Result
	err     error
	took    time.Duration
}

// peersWeight is the weight of a pass in the mean number of sessions that share one.
const peersWeight = 0.5

// ask is what an ExitSession has asked for.
type ask struct {
	wake     chan struct{}
	segment  engine.Segment
	expected bool // its next pass is waited for
	follows  bool // and the one after it
	done     bool
	result   engine.Result
	err      error
}

// init prepares the passes of a Scheduler.
func (j *joint) init(c *Scheduler) {
	j.timer = time.AfterFunc(time.Hour, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kickJoint()
	})
	j.timer.Stop()
}

// expect says whether the session's next pass is on its way.
func (e *ExitSession) expect(will bool) {
	j := &e.target.c.joint
	if will != e.ask.expected {
		if e.ask.expected = will; will {
			j.missing++
		} else {
			j.missing--
		}
	}
}

// kickJoint has a pass begin if it is time.
func (c *Scheduler) kickJoint() {
	j := &c.joint
	if j.running || len(j.asking) == 0 {
		if j.armed {
			j.armed = false
			j.timer.Stop()
		}
		return
	}
	if j.missing > 0 && !c.closed {
		open, worked := c.m.Runtime().Turns()
		if !j.armed {
			j.armed, j.since = true, moment{time.Now(), worked}
		}
		if left := c.remains(j.since, open, worked); left > 0 {
			j.timer.Reset(left)
			return
		}
		for _, s := range c.sessions { // they are late
			if s.exit != nil {
				s.exit.expect(false)
				s.exit.ask.follows = false
			}
		}
	}
	if j.armed {
		j.armed = false
		j.timer.Stop()
	}
	j.leader, j.running = j.asking[0], true
	j.leader.ask.tell()
}

func (a *ask) tell() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// share has the session's segment computed in a pass with those of others. c.mu is held, but not while it waits.
func (e *ExitSession) share() (engine.Result, error) {
	c, a := e.target.c, &e.ask
	j := &c.joint
	a.done, a.result, a.err, a.follows = false, engine.Result{}, nil, a.expected
	e.expect(false)
	j.asking = append(j.asking, e)
	for c.kickJoint(); !a.done; {
		if j.leader == e {
			j.leader = nil
			c.passJoint()
			continue
		}
		c.mu.Unlock()
		<-a.wake
		c.mu.Lock()
	}
	return a.result, a.err
}

// passJoint runs a pass of all that ask for one of the weights that the first of them asks for.
func (c *Scheduler) passJoint() {
	j := &c.joint
	first := j.asking[0]
	j.asking = slices.DeleteFunc(j.asking, func(e *ExitSession) bool {
		same := e.form == first.form && e.layers == first.layers
		if same {
			j.with, j.batch = append(j.with, e), append(j.batch, e.ask.segment)
		}
		return same
	})
	c.mu.Unlock()
	c.computeJoint()
	c.mu.Lock()
	c.settleJoint()
	clear(j.with)
	clear(j.batch)
	j.with, j.batch = j.with[:0], j.batch[:0]
	j.results, j.err, j.running = nil, nil, false
	c.kickJoint()
}

// computeJoint is the pass itself.
func (c *Scheduler) computeJoint() {
	j := &c.joint
	turn := c.m.Runtime().Turn()
	defer func() {
		if v := recover(); v != nil {
			j.results, j.err = nil, c.panicked(v, debug.Stack())
		}
		j.took = turn.Took
		turn.End()
	}()
	if j.prepare != nil {
		turn.Took = j.prepare(j.batch)
	}
	j.results, j.err = turn.Forward(c.ctx, c.m, j.batch)
}

// settleJoint hands out what the pass gave and charges its time: each session takes an equal part of the pass's own
// time and that of its rows.
func (c *Scheduler) settleJoint() {
	j := &c.joint
	with := j.with
	rows := 0
	for i := range j.batch {
		rows += len(j.batch[i].Tokens)
	}
	fixed, row := with[0].Costs().Split(float64(rows))
	scale := 0.0
	if sum := fixed + float64(row*float64(rows)); sum > 0 {
		scale = j.took.Seconds() / sum
	}
	if j.peers == 0 {
		j.peers = float64(len(with))
	}
	j.peers += float64(peersWeight * (float64(len(with)) - j.peers))
	for i, e := range with {
		part := j.took.Seconds() / float64(len(with))
		if scale > 0 {
			part = scale * (fixed/float64(len(with)) + float64(row*float64(len(j.batch[i].Tokens))))
		}
		e.spent += time.Duration(part * float64(time.Second))
		switch e.ask.err = j.err; {
		case c.closed:
			e.ask.err = c.errClosed()
		case errors.Is(j.err, engine.ErrPanic): // the state of its memory is not known
			e.drop()
		case j.err == nil:
			e.ask.result, e.ask.err = j.results[i], j.results[i].Err
		}
		e.ask.done = true
		e.expect(e.ask.follows)
		e.ask.tell()
	}
}
